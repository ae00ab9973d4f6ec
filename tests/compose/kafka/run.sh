#!/usr/bin/env bash
# Starts the broker with the settings of the environment: KAFKA_NODE_ID=1 becomes node.id=1.
set -euo pipefail
settings=/tmp/server.properties
env | sed -nE 's/^KAFKA_([A-Z_]+)=(.*)$/\1 \2/p' | while read -r name value; do
  case $name in HEAP_OPTS | OPTS) continue ;; esac
  name=${name,,}
  echo "${name//_/.}=$value"
done >"$settings"
classes='/opt/kafka/libs/*'
java -Xmx128m -cp "$classes" kafka.tools.StorageTool format --ignore-formatted --config "$settings" \
  --cluster-id "${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}"
exec java ${KAFKA_HEAP_OPTS:--Xmx512m} -cp "$classes" kafka.Kafka "$settings"
