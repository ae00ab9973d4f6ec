#!/usr/bin/env bash
# Counts the instructions of fixed work (decode, identify, detect) and compares them with the committed figures: of the sample fleet, and of a stream
# of events where there is one (LOOPWARDEN_BENCH_EVENTS=FILE.ndjson, else ../shared/data/events.ndjson.zst): its first 15,000, whose sessions are
# short, and all of them. Figures of another stream are not compared.
# Instructions do not depend on how busy the machine is; they do depend a little on the C library and the CPU, hence the tolerance.
# Usage: guard.sh [--write]   (--write replaces the committed figures; those of a stream that is not here stay)
set -euo pipefail
cd "$(dirname "$0")/../.."
figures=tests/bench/guard.txt
tolerance_percent=3
command -v valgrind >/dev/null || { echo "guard: valgrind is not installed (apt-get install valgrind)"; exit 1; }
bench=$(cargo bench --locked --bench guard --no-run 2>&1 | sed -n 's/.*(\(.*guard-[0-9a-f]*\)).*/\1/p' | tail -1)
[ -x "$bench" ] || { echo "guard: the benchmark was not built"; exit 1; }
out=$(mktemp); unpacked=$(mktemp); trap 'rm -f "$out" "$unpacked"' EXIT
stream=${LOOPWARDEN_BENCH_EVENTS:-}
if [ -z "$stream" ] && [ -f ../shared/data/events.ndjson.zst ]; then
  zstd -dcq ../shared/data/events.ndjson.zst >"$unpacked"
  stream=$unpacked
fi
failed=0
new=""
# count PROFILE WORK [FILE [EVENTS]]: WORK names the figure.
count() {
  local profile=$1 work=$2 count what was change
  count=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$profile" "${@:3}" 2>&1 >"$out" | sed -n 's/.*Collected : \([0-9]*\).*/\1/p')
  what=$(cat "$out")
  new+="$profile $work $count $what"$'\n'
  was=$(sed -n "s/^$profile $work \([0-9]*\) .*/\1/p" "$figures" 2>/dev/null || true)
  if [ -z "$was" ]; then
    echo "$profile $work: $count instructions, no committed figure ($what)"
    return
  fi
  change=$(( (count - was) * 1000 / was ))
  echo "$profile $work: $count instructions, committed $was, change ${change} per mille ($what)"
  if [ "$change" -gt $((tolerance_percent * 10)) ]; then
    echo "$profile $work: more than ${tolerance_percent} % above the committed figure"; failed=1
  fi
}
for profile in hackeurope default; do
  count "$profile" fleet
  if [ -n "$stream" ]; then
    name=stream-$(sha256sum "$stream" | cut -c1-8)
    count "$profile" "$name-first" "$stream" 15000
    count "$profile" "$name-whole" "$stream"
  else
    echo "$profile: no stream of events is here"
    new+=$(grep "^$profile stream-" "$figures" || true)$'\n'
  fi
done
[ "${1:-}" = --write ] && printf '%s' "$new" | sed '/^$/d' >"$figures" && echo "wrote $figures"
exit "$failed"
