#!/usr/bin/env bash
# Packs a binary, and the loopwarden-hook beside it, into the archive that people download, and prints where that is:
# `bash deploy/archive.sh BINARY FOLDER`.
# Its name and its one folder are those of `[package.metadata.binstall]` in Cargo.toml. Beside it lies its SHA-256.
set -euo pipefail
binary=$(realpath "${1:?the binary is missing}")
out=$(realpath -m "${2:?the folder is missing}")
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

version=$("$binary" --version | cut -d ' ' -f 2)
target=$(rustc -vV | sed -n 's/^host: //p')
name=loopwarden-v$version-$target
folder=$scratch/$name
mkdir -p "$folder/completions" "$folder/man" "$out"

install -m 755 "$binary" "$folder/loopwarden"
install -m 755 "$(dirname "$binary")/loopwarden-hook" "$folder/loopwarden-hook"
cp LICENSE NOTICE README.md CHANGELOG.md "$folder/"
"$binary" man >"$folder/man/loopwarden.1"
for shell in bash elvish fish zsh; do "$binary" completions "$shell" >"$folder/completions/loopwarden.$shell"; done

# Equal input gives equal bytes: names in order, no owner, the time of the commit.
time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
tar -C "$scratch" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$time" -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$out/$name.tar.gz"
