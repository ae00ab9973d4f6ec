#!/usr/bin/env bash
# The Python SDK of OpenTelemetry and a real instrumentation send two looping agents to the embedded process, which must find both.
# Skipped, with the reason, where there is no Python or its packages cannot be had. `make otel` builds the program first.
set -euo pipefail
cd "$(dirname "$0")/../.."

skip() {
    echo "skipped: $1"
    exit 0
}

python=$(command -v python3) || skip "there is no python3"
program=${CARGO_TARGET_DIR:-target}/release/loopwarden
[ -x "$program" ] || { echo "there is no $program; make otel builds it" >&2; exit 1; }

# Kept between runs beside the program: the packages are a hundred megabytes.
packages=${CARGO_TARGET_DIR:-target}/otel-python
if [ ! -e "$packages/ready" ]; then
    rm -rf "$packages"
    "$python" -m venv "$packages" 2>/dev/null || skip "python3 has no venv"
    "$packages/bin/pip" install --quiet --disable-pip-version-check --timeout 20 --retries 1 \
        opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2 pydantic-ai-slim==2.68.0 ||
        skip "pip cannot install the packages"
    touch "$packages/ready"
fi

scratch=$(mktemp -d "${CARGO_TARGET_DIR:-target}/otel-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
"$python" tests/otel/drive.py "$program" "$scratch" "$packages/bin/python"
echo "both loops were found"
