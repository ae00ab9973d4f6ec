#!/usr/bin/env bash
# Every benchmark, one after the other; what they print is kept under tests/bench/runs/<date>-<cores>x-<processor>/ with the command lines.
# Usage: run.sh [NAME…]   (only these: small forms spawn guard replay race kafka default partitions restore commit latency obey skew sessions)
set -euo pipefail
cd "$(dirname "$0")/../.."
processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1 | tr -cs 'A-Za-z0-9\n' '-' | sed 's/-*$//' | tr 'A-Z' 'a-z')
out=tests/bench/runs/$(date -u +%Y-%m-%d)-$(nproc)x-${processor:-unknown}
mkdir -p "$out"
{
  echo "commit $(git rev-parse HEAD)$(git diff --quiet || echo ' and changes on top')"
  echo "processor $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1), $(nproc) cores, $(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)"
  echo "kernel $(uname -r), $(rustc --version)"
} >"$out/machine.txt"
chosen=" $* "
# In a JVM of this machine, as all figures that were kept; with KAFKA_BROKER=container in a container.
export KAFKA_BROKER=${KAFKA_BROKER:-jvm}
# A broker as people run it, with the arguments of Kafka's own scripts.
export KAFKA_BROKER_JAVA=${KAFKA_BROKER_JAVA:--Xmx1g -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35}

# keep NAME COMMAND…: runs it, keeps what it prints under NAME and the command line beside it. What is wrong goes to the terminal.
keep() {
  local name=$1
  shift
  [ "$chosen" = "  " ] || [[ $chosen == *" ${name%%-*} "* ]] || return 0
  echo "== $name: $*"
  printf '%s\n%s\n' "# $*" "# load before: $(cut -d' ' -f1-3 /proc/loadavg)" >"$out/$name.txt"
  "$@" | tee -a "$out/$name.txt"
}

pipeline() { keep "$1" cargo bench --locked --bench pipeline -- "${@:2}"; }

keep small cargo bench --locked --bench small -- --output-format bencher
keep forms cargo bench --locked -p loopwarden-sources --bench forms -- --output-format bencher
keep spawn cargo bench --locked -p loopwarden-hook --bench spawn
keep guard bash tests/bench/guard.sh
pipeline replay-default --replay --profile default --rounds 3
pipeline replay-hackeurope --replay --profile hackeurope --rounds 3
keep race cargo bench --locked --bench race -- --rounds 5 --write
pipeline kafka-hackeurope --events 2400000 --profile hackeurope --rounds 2
pipeline default --events 1200000 --profile default --rounds 2
for partitions in 4 32 128; do
  pipeline "partitions-$partitions" --events 600000 --partitions "$partitions"
done
pipeline restore --events 1200000 --profile default --restore
keep commit cargo bench --locked --bench commit
keep latency cargo bench --locked --bench latency -- --rates 1000,5000,20000
# A broker just started compiles itself for a minute or two.
for partitions in 4 1; do
  keep "latency-warm-$partitions" cargo bench --locked --bench latency -- --rates 5000,5000,5000,5000,5000 --partitions "$partitions" --bare
done
keep obey cargo bench --locked --bench obey
keep skew cargo bench --locked --bench latency -- --rates 5000 --loads even,skewed,even,skewed
for sessions in 10000 100000 1000000; do
  keep "sessions-$sessions" cargo bench --locked --bench sessions -- --sessions "$sessions" --active 10000
done
echo "kept in $out"
