#!/usr/bin/env bash
# Counts the instructions of fixed work (decode, identify, detect over the sample fleet) and compares them with the committed figures.
# Instructions do not depend on how busy the machine is; they do depend a little on the C library and the CPU, hence the tolerance.
# Usage: guard.sh [--write]   (--write replaces the committed figures)
set -euo pipefail
cd "$(dirname "$0")/../.."
figures=tests/bench/guard.txt
tolerance_percent=5
command -v valgrind >/dev/null || { echo "guard: valgrind is not installed (apt-get install valgrind)"; exit 1; }
bench=$(cargo bench --locked --bench guard --no-run 2>&1 | sed -n 's/.*(\(.*guard-[0-9a-f]*\)).*/\1/p' | tail -1)
[ -x "$bench" ] || { echo "guard: the benchmark was not built"; exit 1; }
out=$(mktemp); trap 'rm -f "$out"' EXIT
failed=0
new=""
for profile in hackeurope default; do
  count=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$profile" 2>&1 >"$out" | sed -n 's/.*Collected : \([0-9]*\).*/\1/p')
  work=$(cat "$out")
  new+="$profile $count $work"$'\n'
  was=$(sed -n "s/^$profile \([0-9]*\) .*/\1/p" "$figures" 2>/dev/null || true)
  if [ -z "$was" ]; then
    echo "$profile: $count instructions, no committed figure ($work)"
  else
    change=$(( (count - was) * 1000 / was ))
    echo "$profile: $count instructions, committed $was, change ${change} per mille ($work)"
    if [ "$change" -gt $((tolerance_percent * 10)) ]; then
      echo "$profile: more than ${tolerance_percent} % above the committed figure"; failed=1
    fi
  fi
done
[ "${1:-}" = --write ] && printf '%s' "$new" >"$figures" && echo "wrote $figures"
exit "$failed"
