#!/usr/bin/env bash
# The image and deploy/compose.yaml as a user has them: built, brought up, events in, commands out, the page, an orderly end.
#
# Needs root and Debian's dockerd: it starts one in a folder of its own and ends it, or takes the daemon that DOCKER_HOST names. Base images are
# stand-ins (images.sh) unless RUNTIME_IMAGE and KAFKA_IMAGE name others. BINARY: the binary to ship; without it deploy/binary.sh builds it.
# BINARY=release: that of `cargo build --release`, stripped, on a base image with zlib beside. It is linked already where tests have run.
# Where something is missing that the test cannot bring, it is skipped and says why.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec </dev/null
scratch=$(mktemp -d)
daemon="" project=loopwarden-test-$$
limit_mb=40 grace=60

skip() {
  echo "compose: skipped: $1"
  exit 0
}
fail() {
  echo "compose: FAILED: $1" >&2
  exit 1
}
passed() { echo "compose: ok: $1"; }
# Runs a command until it succeeds, for at most so many seconds; prints what it said when it did not.
within() {
  local until=$((SECONDS + $1)) said
  shift
  until said=$("$@" 2>&1); do
    [ "$SECONDS" -lt "$until" ] || { echo "$said" >&2 && return 1; }
    sleep 0.2
  done
}

# Compose makes its own networks; a default bridge would be shared with every other daemon of this machine.
start_daemon() {
  dockerd --data-root "$scratch/data" --exec-root "$scratch/exec" --pidfile "$scratch/pid" -H "unix://$scratch/sock" \
    --bridge=none --default-address-pool base=10.215.0.0/16,size=24 >>"$scratch/dockerd.log" 2>&1 &
  daemon=$!
  within 30 "$docker" info >/dev/null
}

up="" compose=()
finish() {
  local code=$?
  if [ -n "$daemon" ] && ! kill -0 "$daemon" 2>/dev/null; then
    echo "compose: the daemon died; started again to take its containers down" >&2
    # What it left says that its containerd runs, which ended with it.
    rm -f "$scratch/exec/containerd/containerd.pid"
    start_daemon || true
  fi
  if [ -n "$up" ]; then
    [ "$code" -eq 0 ] || "${compose[@]}" logs --no-color --tail 40 || true
    "${compose[@]}" down --volumes --timeout 10 >/dev/null 2>&1 || true
  fi
  if [ -n "$daemon" ]; then
    kill "$daemon" 2>/dev/null || true
    while kill -0 "$daemon" 2>/dev/null; do sleep 0.1; done
    # The daemon leaves the mounts of its network namespaces; one that died, that of its data too.
    umount "$scratch"/exec/netns/* "$scratch/data" 2>/dev/null || true
  fi
  rm -rf "$scratch"
  exit "$code"
}
trap finish EXIT

# BuildKit: in the program of Docker 20, a plugin of later ones.
docker=""
for candidate in docker /usr/bin/docker; do
  command -v "$candidate" >/dev/null || continue
  if "$candidate" --version | grep -qE 'version (19|20)\.' || "$candidate" buildx version >/dev/null 2>&1; then docker=$candidate && break; fi
done
[ -n "$docker" ] || skip "no docker command with BuildKit (Debian: docker.io)"
export DOCKER=$docker DOCKER_BUILDKIT=1

if [ -z "${DOCKER_HOST:-}" ]; then
  command -v dockerd >/dev/null || skip "no dockerd (Debian: docker.io) and no DOCKER_HOST"
  [ "$(id -u)" = 0 ] || skip "a daemon of its own needs root; DOCKER_HOST may name another"
  export DOCKER_HOST=unix://$scratch/sock
  start_daemon || skip "dockerd does not start: $(tail -n 1 "$scratch/dockerd.log")"
fi

if "$docker" compose version >/dev/null 2>&1; then
  compose=("$docker" compose)
elif command -v docker-compose >/dev/null && docker-compose version --short | grep -qE '^v?[2-9]'; then
  compose=(docker-compose)
else
  tool=$(bash .ci/go-tool docker-compose) || skip "no Compose 2 and no Go to build it"
  compose=("$tool")
fi
command -v curl >/dev/null || skip "no curl"

# Images.
binary=${BINARY:-$(bash deploy/binary.sh)}
packages=()
if [ "$binary" = release ]; then
  packages=(zlib1g)
  binary=$scratch/loopwarden
  for name in loopwarden loopwarden-hook; do
    strip --strip-debug -o "$scratch/$name" "${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}/release/$name"
  done
fi
runtime=${RUNTIME_IMAGE:-$(bash tests/compose/images.sh runtime "${packages[@]}")} || skip "no base image: $runtime"
KAFKA_IMAGE=${KAFKA_IMAGE:-$(bash tests/compose/images.sh kafka)} || skip "no image of the broker"
export KAFKA_IMAGE
arch=$("$docker" version --format '{{.Server.Arch}}')
mkdir -p "$scratch/context/prebuilt/$arch"
cp LICENSE NOTICE "$scratch/context/"
cp "$binary" "$binary-hook" "$scratch/context/prebuilt/$arch/"
"$docker" build -q -f deploy/Dockerfile -t loopwarden --build-arg BINARY=prebuilt --build-arg "RUNTIME_IMAGE=$runtime" "$scratch/context" >/dev/null
"$docker" image ls loopwarden

size=$("$docker" save loopwarden | gzip -9 | wc -c)
[ "$size" -le $((limit_mb * 1000 * 1000)) ] || fail "the image has $size bytes compressed"
passed "compressed $((size / 1000)) kB, at most $limit_mb MB"
[ "$("$docker" image inspect -f '{{.Config.User}}' loopwarden)" = 65532:65532 ] || fail "the image runs as another user"
locked=(--rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges)
"$docker" run "${locked[@]}" loopwarden --version
# What an agent gets where no guard answers.
said=$("$docker" run "${locked[@]}" --entrypoint /usr/bin/loopwarden-hook loopwarden cline </dev/null)
[ "$said" = '{"cancel":false}' ] || fail "loopwarden-hook says: $said"
passed "carries loopwarden-hook"
"$docker" run "${locked[@]}" --tmpfs /tmp loopwarden demo >"$scratch/demo"
grep -q similar_repeat "$scratch/demo" || fail "the demo finds nothing: $(cat "$scratch/demo")"
passed "runs as 65532, read-only, without capabilities"

# The whole file, on ports that are free.
read -r HTTP_PORT KAFKA_PORT < <(python3 -c 'import socket
a = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in a))')
export HTTP_PORT KAFKA_PORT
compose+=(--project-name "$project" -f deploy/compose.yaml)
up=1
"${compose[@]}" --progress plain up -d --no-build >"$scratch/up" 2>&1 || { cat "$scratch/up" && fail "up"; }
id() { "${compose[@]}" ps -a -q "$1"; }
healthy() { [ "$("$docker" inspect -f '{{.State.Health.Status}}' "$(id loopwarden)")" = healthy ]; }
within 90 healthy || fail "the health check: $("$docker" inspect -f '{{json .State}}' "$(id loopwarden)")"
passed "up and healthy by the image's own health check"

# Events in: one agent that makes the same call nine times, beside the demo fleet.
tool() { "${compose[@]}" exec -T kafka "/opt/kafka/bin/$1.sh" --bootstrap-server kafka:19092 "${@:2}"; }
for n in 1 2 3 4 5 6 7 8 9; do
  printf 'own-1\t{"id":"own-%s","kind":"tool","session_id":"own-1","seq":%s,"tool":"Bash","args":{"command":"make"},"outcome":"error","result":"no rule"}\n' $n $n
done >"$scratch/events"
"${compose[@]}" exec -T kafka /opt/kafka/bin/kafka-console-producer.sh --bootstrap-server kafka:19092 --topic agents.tool-events.v1 \
  --property parse.key=true --property $'key.separator=\t' <"$scratch/events" >/dev/null
passed "nine events in"

# Commands out, by a reader that sees committed records alone.
reads() {
  tool kafka-console-consumer --topic agents.loop-commands.v1 --from-beginning --isolation-level read_committed --timeout-ms 4000 \
    >"$scratch/commands" 2>/dev/null || true
  grep -q '"own-1"' "$scratch/commands" && grep -q '"r1-' "$scratch/commands"
}
within 60 reads || fail "no command on the topic: $(head -c 2000 "$scratch/commands")"
echo "compose: $(grep -m 1 '"own-1"' "$scratch/commands" | cut -c 1-240)"
passed "commands out, for this agent and for the demo agents: $(wc -l <"$scratch/commands")"
curl -fsS "http://127.0.0.1:$HTTP_PORT/" >"$scratch/page"
grep -qi '<!doctype html' "$scratch/page" || fail "the page: $(head -c 300 "$scratch/page")"
curl -fsS "http://127.0.0.1:$HTTP_PORT/sessions/own-1" >"$scratch/session"
grep -q similar_repeat "$scratch/session" || fail "the page does not know the session: $(head -c 2000 "$scratch/session")"
passed "the page answers, $(wc -c <"$scratch/page") bytes, and knows the session"

# An orderly end.
container=$(id loopwarden)
from=$(date +%s%N)
"$docker" stop -t $grace "$container" >/dev/null
took=$((($(date +%s%N) - from) / 1000000))
code=$("$docker" inspect -f '{{.State.ExitCode}}' "$container")
[ "$code" = 0 ] || fail "SIGTERM ended it with exit code $code (137: the grace period was over)"
passed "SIGTERM: exit code 0 after $took ms, grace period $grace s"

"${compose[@]}" down --volumes --timeout 10 >/dev/null 2>&1
up=""
for what in ps\ -a network\ ls volume\ ls; do
  # shellcheck disable=SC2086
  left=$("$docker" $what -q --filter "label=com.docker.compose.project=$project")
  [ -z "$left" ] || fail "left behind by down: $what $left"
done
passed "nothing left behind"
