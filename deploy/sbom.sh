#!/usr/bin/env bash
# Writes what the program is made of as CycloneDX, and prints where it is: `bash deploy/sbom.sh FOLDER`.
# It lists the crates of this platform, with the native libraries that some of them carry; nothing that only tests or builds need.
set -euo pipefail
out=$(realpath -m "${1:?the folder is missing}")
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/loopwarden/tools
version=0.5.9
tool=$cache/cargo-cyclonedx-$version/bin/cargo-cyclonedx
[ -x "$tool" ] || cargo install --locked --quiet --version "$version" --root "$cache/cargo-cyclonedx-$version" --target-dir "$cache" cargo-cyclonedx >&2

target=$(rustc -vV | sed -n 's/^host: //p')
name=loopwarden-$target.cdx
# It writes one file beside the manifest of each package. What is wanted is the program's; its dependencies are all in it.
trap 'find . -name "$name.json" -not -path "./target/*" -delete' EXIT
"$tool" cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --target "$target" --override-filename "$name"
mkdir -p "$out"
cp "$name.json" "$out/$name.json"
echo "$out/$name.json"
