#!/usr/bin/env bash
# The Python and the Node SDK of OpenTelemetry, each with a real instrumentation, send two looping agents to the embedded process, which must
# find both, and say the same of the same calls sent as events. A real collector, built from collector/, then stands between. What has no
# interpreter or no packages is skipped, with the reason.
# `make otel` builds the program first.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
program=$target/release/loopwarden
[ -x "$program" ] || { echo "there is no $program; make otel builds it" >&2; exit 1; }
scratch=$(mktemp -d "$target/otel-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

drive() { # NAME COMMAND…
    mkdir "$scratch/$1"
    python3 tests/otel/drive.py "$program" "$scratch/$1" "${@:2}"
    echo "$1: both loops were found, with the commands of the same calls as events"
}

# Packages are kept between runs beside the program: they are a hundred megabytes each.
of_python() {
    local packages=$target/otel-python
    if [ ! -e "$packages/ready" ]; then
        rm -rf "$packages"
        python3 -m venv "$packages" 2>/dev/null || { echo "skipped: python3 has no venv"; return; }
        "$packages/bin/pip" install --quiet --disable-pip-version-check --timeout 20 --retries 1 \
            opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2 pydantic-ai-slim==2.68.0 ||
            { echo "skipped: pip cannot install the packages"; return; }
        touch "$packages/ready"
    fi
    drive python "$packages/bin/python" tests/otel/agents.py
}

of_node() {
    local packages=$target/otel-node
    command -v npm >/dev/null || { echo "skipped: there is no npm"; return; }
    if [ ! -e "$packages/ready" ]; then
        rm -rf "$packages"
        mkdir -p "$packages"
        timeout 600 npm install --prefix "$packages" --no-audit --no-fund --loglevel=error \
            @opentelemetry/api@1.9.1 @opentelemetry/sdk-trace-node@2.12.0 @opentelemetry/exporter-trace-otlp-proto@0.223.1 \
            @opentelemetry/exporter-trace-otlp-http@0.223.1 ai@6.0.326 zod@4.6.7 ||
            { echo "skipped: npm cannot install the packages"; return; }
        touch "$packages/ready"
    fi
    PACKAGES=$packages drive node node tests/otel/agents.mjs
}

# Built again when its modules change.
of_collector() {
    local built=$target/otel-collector python=$target/otel-python node=$target/otel-node
    command -v go >/dev/null || { echo "collector: skipped, there is no Go to build it"; return; }
    [ -e "$python/ready" ] || { echo "collector: skipped, the Python SDK is not there"; return; }
    (cd tests/otel/collector && CGO_ENABLED=0 timeout 900 go build -mod=readonly -trimpath -ldflags '-s -w' -o "$built" . >&2) ||
        { echo "collector: skipped, Go cannot build it"; return; }
    [ -e "$node/ready" ] || { echo "collector, Node SDK: skipped, it is not there"; node=; }
    PACKAGES=$node python3 tests/otel/collector.py "$built" "$python/bin/python"
}

command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 0; }
of_python
of_node
of_collector
