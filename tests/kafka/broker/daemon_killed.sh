#!/usr/bin/env bash
# Sudden ends: first of the test program, then of the Docker daemon, each in the middle of a test. The daemon must be one that may be killed:
# bash .ci/docker --own bash tests/kafka/broker/contained.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."
daemon=${DOCKER_OWN_PID:?this kills the daemon: run it by .ci/docker --own}
folder=${DOCKER_OWN_FOLDER:?of that daemon}
export KAFKA_BROKER=container
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "daemon_killed: FAILED: $1" >&2
  sed 's/^/  | /' "$scratch/out" | tail -n 20 >&2
  exit 1
}

# until_true SECONDS WHAT COMMAND ...: waits until a command succeeds.
until_true() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || fail "$what"
    sleep 0.05
  done
}

program=$(cargo test --release --locked --test kafka --no-run 2>&1 | sed -n 's|.*(\(.*/kafka-[0-9a-f]*\))$|\1|p')
[ -x "$program" ] || { echo "daemon_killed: FAILED: the test program is not built" >&2 && exit 1; }
temporary=$(dirname "$(dirname "$(dirname "$program")")")/tmp
interfaces() { ls /sys/class/net; }
interfaces >"$scratch/before"

start() {
  "$program" "$@" >"$scratch/out" 2>&1 &
  tests=$!
}
containers() { docker ps --all --quiet --filter "label=dev.loopwarden.tests=$tests"; }
# One that runs: a container ends with the program from its start on, and one that was only created would stay.
has_container() { [ -n "$(docker ps --quiet --filter "label=dev.loopwarden.tests=$tests")" ]; }
has_none() { [ -z "$(containers)" ]; }
# The broker's JVM, and processes of the product: each has a directory with the id of the test program.
processes() { pgrep --full -- "(broker|processes|run|security)-$tests-" || true; }
has_no_process() { [ -z "$(processes)" ]; }
has_product() { pgrep --full -- "--data-dir=.*/processes-$tests-" >/dev/null; }
has_ended() { ! kill -0 "$tests" 2>/dev/null; }

start contract::
until_true 120 "the contract has no broker" has_container
kill -KILL "$tests"
wait "$tests" 2>/dev/null || true
until_true 60 "containers outlive a killed test program: $(containers)" has_none
until_true 60 "processes outlive a killed test program: $(processes)" has_no_process
echo "a killed test program: its containers are gone"

start processes::a_lost_disk
until_true 120 "the test has no broker" has_container
until_true 120 "the test has no process" has_product
kill -KILL "$daemon"
until_true 60 "the tests go on without the daemon" has_ended
code=0
wait "$tests" || code=$?
[ "$code" -eq 1 ] || fail "exit code $code"
grep '^error: the Docker daemon at .* went away' "$scratch/out" || fail "no error that says so"
until_true 60 "processes of the tests are left: $(processes)" has_no_process
[ -z "$(pgrep --full -- "$folder/" || true)" ] || fail "processes of the daemon are left"
[ -z "$(find "$temporary" -maxdepth 1 -name "*-$tests*")" ] || fail "directories of the tests are left in $temporary"
interfaces | diff "$scratch/before" - || fail "network interfaces have changed"
! grep "$folder" /proc/mounts || fail "mounts are left"
echo "a killed daemon: the tests ended with code $code; no process, container, directory, network or mount is left"
