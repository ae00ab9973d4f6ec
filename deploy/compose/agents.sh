#!/usr/bin/env bash
# Plays the sample fleet again and again, a few events each second, each round with session and swarm ids of its own.
# Kafka's console producer partitions as Java does, which is what loopwarden expects.
set -euo pipefail

play() {
  for ((round = 1; ; round++)); do
    while IFS= read -r line; do
      line=${line/\"session_id\":\"/\"session_id\":\"r$round-}
      line=${line/\"swarm_id\":\"/\"swarm_id\":\"r$round-}
      # Without a time of its own an event has the time at which it is written.
      line=$(sed -E 's/"time":"[^"]*",//' <<<"$line")
      key=${line#*\"session_id\":\"}
      printf '%s\t%s\n' "${key%%\"*}" "$line"
      sleep 0.2
    done </demo/fleet.ndjson
  done
}

play | /opt/kafka/bin/kafka-console-producer.sh --bootstrap-server "$BOOTSTRAP" --topic agents.tool-events.v1 \
  --property parse.key=true --property $'key.separator=\t'
