#!/bin/sh
# Makes a virtual environment with Kafka's Python client in the directory given, once. Prints its interpreter. The directory appears
# complete or not at all.
set -eu
target=$1
if [ -x "$target/bin/python" ]; then
    echo "$target/bin/python"
    exit 0
fi
mkdir -p "$(dirname -- "$target")"
scratch=$(mktemp -d "$target.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv" >&2
timeout 180 "$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: 'confluent-kafka==2.12.0' >&2
"$scratch/venv/bin/python" -c 'import confluent_kafka' >&2
# An interpreter finds its packages by its own place, so the directory may be moved.
mv -T "$scratch/venv" "$target" 2>/dev/null || [ -x "$target/bin/python" ]
echo "$target/bin/python"
