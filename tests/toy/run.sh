#!/usr/bin/env bash
# Is a detector described in one place? `new-detector.patch` adds one, in at most four files. It is applied to a copy of the sources; the
# program is built from them, and the golden case in the patch must pass.
#
#   bash tests/toy/run.sh            apply, build, run the case
#   bash tests/toy/run.sh --check    only whether the patch applies, and to how many files: nothing is built
#
# Sources and target directory are copies of their own (TOY_DIR): a run disturbs no other build. Compiled dependencies are copied once, and
# the crates of the workspace are compiled without optimisations.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/common/dependencies.sh
. tests/common/sources.sh
target=${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}
dir=${TOY_DIR:-$HOME/.cache/loopwarden/toy}
patch=$PWD/tests/toy/new-detector.patch
files_max=4

files=$(grep -c '^+++ ' "$patch")
[ "$files" -le $files_max ] || { echo "the new detector touches $files files, but must not touch more than $files_max"; exit 1; }
only_check=0
if [ "${1:-}" = --check ]; then
  only_check=1
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
fi
copy=$dir/copy

snapshot "$dir/sources"
fresh "$dir/sources" "$copy"
patch -d "$copy" -p1 -s --fuzz=0 --no-backup-if-mismatch <"$patch"
echo "the patch applies to $files files"
[ $only_check = 0 ] || exit 0

copy_dependencies "$target" "$dir/target"
case=$(grep '^+++ .*\.yaml' "$patch" | cut -f1 | sed 's/^+++ b\///')
cd "$copy"
export CARGO_TARGET_DIR=$dir/target
# Only of these crates: with other settings the compiled dependencies would be others.
fast=()
for crate in loopwarden $(sed -n 's/^loopwarden-\([a-z]*\) = .*/loopwarden-\1/p' Cargo.toml); do
  fast+=(--config "profile.release.package.$crate.opt-level=0")
done
cargo build --release --locked --quiet --bin loopwarden "${fast[@]}"
"$CARGO_TARGET_DIR/release/loopwarden" test "$case"
