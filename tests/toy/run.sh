#!/usr/bin/env bash
# Are a detector and a kind of whom described in one place? Each patch adds one, in at most so many files. They are applied to a copy of
# the sources, and the program is built from them: the golden case in the patch of the detector must pass, and a budget must block agents
# of the new kind.
#
#   bash tests/toy/run.sh            apply, build, run
#   bash tests/toy/run.sh --check    only whether the patches apply, and to how many files: nothing is built
#
# Sources and target directory are copies of their own (TOY_DIR): a run disturbs no other build. Compiled dependencies are copied once, and
# the crates of the workspace are compiled without optimisations.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/common/dependencies.sh
. tests/common/sources.sh
target=${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}
dir=${TOY_DIR:-$HOME/.cache/loopwarden/toy}
patches=$PWD/tests/toy
declare -A files_max=([detector]=4 [kind]=7)

only_check=0
if [ "${1:-}" = --check ]; then
  only_check=1
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
fi
copy=$dir/copy

snapshot "$dir/sources"
fresh "$dir/sources" "$copy"
for new in detector kind; do
  patch=$patches/new-$new.patch
  files=$(grep -c '^+++ ' "$patch")
  [ "$files" -le "${files_max[$new]}" ] || { echo "the new $new touches $files files, but must not touch more than ${files_max[$new]}"; exit 1; }
  patch -d "$copy" -p1 -s --fuzz=0 --no-backup-if-mismatch <"$patch"
  echo "the new $new touches $files files"
done
[ $only_check = 0 ] || exit 0

copy_dependencies "$target" "$dir/target"
case=$(grep '^+++ .*\.yaml' "$patches/new-detector.patch" | cut -f1 | sed 's/^+++ b\///')
cd "$copy"
export CARGO_TARGET_DIR=$dir/target
# Only of these crates: with other settings the compiled dependencies would be others.
fast=()
for crate in loopwarden $(sed -n 's/^loopwarden-\([a-z]*\) = .*/loopwarden-\1/p' Cargo.toml); do
  fast+=(--config "profile.release.package.$crate.opt-level=0")
done
cargo build --release --locked --quiet --bin loopwarden "${fast[@]}"
program=$CARGO_TARGET_DIR/release/loopwarden
"$program" test "$case"

# Three agents that one agent started, and a budget of two calls for those of one parent.
for number in 1 2 3; do
  echo '{"id":"'$number'","session_id":"s'$number'","agent":{"id":"a'$number'","parent_id":"boss"},"time":"2026-01-05T09:00:0'$number'Z",' \
    '"kind":"tool","tool":"t","args":{"n":'$number'},"result":"'$number'"}'
done >"$dir/events.ndjson"
cat >"$dir/policy.toml" <<END
profile = "toy"
base = "default"
[[budget]]
name = "b"
scope = "parent"
mode = "block"
calls = 2
warn_share = 0.0
nudge_share = 0.0
END
"$program" replay "$dir/events.ndjson" --policy "$dir/policy.toml" --output ndjson >"$dir/commands.ndjson"
grep -q '"action":"block","scope":{"kind":"parent","name":"boss","by":"budget/b/day"}' "$dir/commands.ndjson" || {
  echo "the budget of the new kind blocks nobody: $(cat "$dir/commands.ndjson")"
  exit 1
}
echo "a budget blocks agents of the new kind"
