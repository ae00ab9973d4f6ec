#!/usr/bin/env bash
# Can the suite fail? Each patch here is one wrong idea, applied to a copy of the sources; the tests it names must turn red.
# A patch that no longer applies, a mutant that does not compile, and one that survives fail the run.
#
#   bash tests/mutants/run.sh            all of them
#   bash tests/mutants/run.sh 07 22      those whose names begin so
#
# The copy lives below the target directory and shares it, so that only this package compiles again. CARGO may name a wrapper.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
target=${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}
export CARGO_TARGET_DIR=$target
copy=$target/mutants
cargo=${CARGO:-cargo}
log=$target/mutants.log

fresh() {
  mkdir -p "$copy"
  # Only what differs is written: what did not change is not compiled again.
  git ls-files -z --cached --others --exclude-standard -- src config tests examples Cargo.toml Cargo.lock .cargo .clippy.toml README.md |
    while IFS= read -r -d '' file; do
      [ -f "$file" ] || continue
      cmp -s "$file" "$copy/$file" || { mkdir -p "$copy/$(dirname "$file")" && cp "$file" "$copy/$file"; }
    done
}

# Lines `target test` of the patches given, each once.
named() { sed -n 's/^Caught by: //p' "$@" | sort -u; }

# Builds the test programs of some targets, and prints `target path` for each.
build() {
  local arguments=()
  for one in "$@"; do
    case $one in lib) arguments+=(--lib) ;; *) arguments+=(--test "$one") ;; esac
  done
  (cd "$copy" && $cargo test --release --locked --quiet --no-run "${arguments[@]}" --message-format=json 2>"$log") |
    sed -n 's/.*"kind":\["\(lib\|test\)"\].*"name":"\([a-z]*\)".*"executable":"\([^"]*\)".*/\1 \2 \3/p' |
    while read -r kind name path; do
      [ "$kind" = lib ] && echo "lib $path" || echo "$name $path"
    done
}

# Runs one test of a program from the copy; its exit code.
try() { (cd "$copy" && timeout 300 nice "$1" --exact "$2" >"$log" 2>&1); }

patches=()
for patch in tests/mutants/[0-9]*.patch; do
  name=$(basename "$patch" .patch)
  [ $# -eq 0 ] && patches+=("$patch")
  for wanted in "$@"; do
    case $name in "$wanted"*) patches+=("$patch") ;; esac
  done
done
[ ${#patches[@]} -gt 0 ] || { echo "no such mutant"; exit 2; }

fresh
targets=$(named "${patches[@]}" | cut -d' ' -f1 | sort -u)
# shellcheck disable=SC2086
built=$(build $targets)
program() { awk -v target="$1" '$1 == target { print $2 }' <<<"$built"; }
red=0
while read -r kind test; do
  grep -q '^test result: ok. 1 passed' <(cd "$copy" && timeout 300 "$(program "$kind")" --exact "$test" 2>&1) ||
    { echo "RED WITHOUT A MUTANT, OR NO SUCH TEST: $kind $test"; red=1; }
done < <(named "${patches[@]}")
[ $red = 0 ] || exit 1

caught=0
bad=()
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch)
  fresh
  if ! patch -d "$copy" -p1 -s --fuzz=0 <"$patch" >"$log" 2>&1; then
    echo "STALE     $name"
    bad+=("$name")
    continue
  fi
  kinds=$(named "$patch" | cut -d' ' -f1 | sort -u)
  # shellcheck disable=SC2086
  built=$(build $kinds)
  if [ -z "$built" ]; then
    echo "NO BUILD  $name"
    tail -20 "$log"
    bad+=("$name")
    continue
  fi
  survived=""
  while read -r kind test; do
    try "$(program "$kind")" "$test" && survived="$survived $test"
  done < <(named "$patch")
  if [ -n "$survived" ]; then
    echo "SURVIVED  $name:$survived"
    bad+=("$name")
  else
    echo "caught    $name"
    caught=$((caught + 1))
  fi
done
fresh
echo "$caught caught of ${#patches[@]}"
[ ${#bad[@]} -eq 0 ] || { echo "not caught: ${bad[*]}"; exit 1; }
