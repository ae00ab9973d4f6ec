#!/usr/bin/env bash
# The tests of the broker that must hold on a container too, by the daemon that DOCKER_HOST names (`.ci/docker` gives one): the contract of the
# log, killed processes, killed brokers, TLS and SASL, a proxy before the broker, damaged files. `make test` runs all tests on the other giver.
# With a daemon of its own, this kills it in the end: see daemon_killed.sh.
set -euo pipefail
cd "$(dirname "$0")/../../.."
image=${KAFKA_BROKER_IMAGE:-}
if [ -z "$image" ]; then
  image=apache/kafka:4.1.0
  if ! docker image inspect "$image" >/dev/null 2>&1 && ! timeout 600 docker pull --quiet "$image" 2>/dev/null; then
    echo "containers: $image cannot be pulled; taking an image of our own"
    if ! image=$(bash tests/kafka/broker/image.sh); then
      echo "containers: LEFT OUT: there is no image, and none can be made"
      exit 0
    fi
  fi
fi
export KAFKA_BROKER=container KAFKA_BROKER_IMAGE=$image
cargo test --release --locked --test kafka -- contract:: restart:: brokers:: security:: unknown:: damage::
[ -z "${DOCKER_OWN_PID:-}" ] || bash tests/kafka/broker/daemon_killed.sh
