#!/usr/bin/env bash
# Packs a binary, and the loopwarden-hook beside it, into a Python wheel and prints where that is: `bash deploy/wheel.sh BINARY FOLDER`.
# `uv tool install` and `pipx install` put both programs on the path from it.
#
# auditwheel chooses the platform tag from the versions of the symbols that the binary needs. Libraries that no manylinux system has to have
# (OpenSSL, where the binary links it dynamically) it copies into the wheel.
set -euo pipefail
binary=$(realpath "${1:?the binary is missing}")
out=$(realpath -m "${2:?the folder is missing}")
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tools=$(bash .ci/python-tools)
PATH=$tools/bin:$PATH

field() { cargo metadata --locked --no-deps --format-version 1 | python -c "
import json, sys
print(next(package['$1'] for package in json.load(sys.stdin)['packages'] if package['name'] == 'loopwarden') or '')"; }
version=$(field version)
repository=$(field repository)
[ "$("$binary" --version)" = "loopwarden $version" ] || { echo "wheel: $binary is not version $version" >&2; exit 1; }
platform=$(python -c 'import sysconfig; print(sysconfig.get_platform().replace("-", "_").replace(".", "_"))')

wheel=$scratch/wheel
info=$wheel/loopwarden-$version.dist-info
mkdir -p "$wheel/loopwarden-$version.data/scripts" "$info/licenses" "$out"
scripts=$wheel/loopwarden-$version.data/scripts
install -m 755 "$binary" "$scripts/loopwarden"
install -m 755 "$(dirname "$binary")/loopwarden-hook" "$scripts/loopwarden-hook"
cp LICENSE NOTICE "$info/licenses/"
cat >"$info/WHEEL" <<WHEEL
Wheel-Version: 1.0
Generator: deploy/wheel.sh
Root-Is-Purelib: false
Tag: py3-none-$platform
WHEEL
cat >"$info/METADATA" <<METADATA
Metadata-Version: 2.4
Name: loopwarden
Version: $version
Summary: $(field description)
License-Expression: $(field license)
License-File: LICENSE
License-File: NOTICE
Requires-Python: >=3.8
Description-Content-Type: text/markdown
${repository:+Project-URL: Repository, $repository
}
$(sed -n '/^# loopwarden$/,/^## /{ /^# loopwarden$/d; /^## /d; p; }' README.md)

The wheel holds the program, \`loopwarden-hook\` for coding agents, and no Python module: \`loopwarden demo\` shows it at work.
METADATA

{
  python -m wheel pack "$wheel" --dest-dir "$scratch"
  auditwheel repair --wheel-dir "$scratch/done" "$scratch"/loopwarden-*.whl
} >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
name=$(basename "$scratch"/done/*.whl)
mv "$scratch/done/$name" "$out/$name"
echo "$out/$name"
