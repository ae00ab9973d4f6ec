#!/usr/bin/env bash
# Can the suite fail? Each patch here is one wrong idea, applied to a copy of the sources; the tests it names must turn red.
# A patch that no longer applies, a mutant that does not compile, and one that survives fail the run.
#
#   bash tests/mutants/run.sh            all of them
#   bash tests/mutants/run.sh 07 22      those whose names begin so
#   bash tests/mutants/run.sh --check    only whether every patch applies: seconds, nothing is built
#
# Sources and target directory are copies of their own (MUTANTS_DIR), so that a run disturbs no other build and is disturbed by none;
# compiled dependencies are copied once, and of a mutant only this package is compiled again, without optimisations.
# CARGO may name a wrapper. A build and a test have a time bound each; a test that exceeds it is red: a mutant may hang.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/common/dependencies.sh
. tests/common/sources.sh
target=${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}
dir=${MUTANTS_DIR:-$HOME/.cache/loopwarden/mutants}
copy=$dir/copy
sources=$dir/sources
cargo=${CARGO:-cargo}
build_s=900
test_s=240
export CARGO_TARGET_DIR=$dir/target CARGO_TERM_COLOR=never

say() { printf '%s\n' "$*"; }

# Lines `target test` of the patches given, each once.
named() { sed -n 's/^Caught by: //p' "$@" | sort -u; }

# Builds the test programs of some targets, and prints `target path` for each. A target is a test program of the root package, the name
# of a package, which means the tests beside its code, or a package and a test program of it: `loopwarden-lane/exactly_once`.
build() {
  local arguments=(--config 'profile.release.opt-level=0' --config 'profile.release.debug=0'
    --config 'profile.release.package."*".opt-level=3' --config 'profile.release.package."*".debug="line-tables-only"') one lib=()
  for one in "$@"; do
    case $one in loopwarden*/*) arguments+=(-p "${one%/*}" --test "${one#*/}") ;; loopwarden*) lib+=(--lib); arguments+=(-p "$one") ;; *) arguments+=(-p loopwarden --test "$one") ;; esac
  done
  (cd "$copy" && timeout -k 10 $build_s $cargo test --release --locked --quiet --no-run "${arguments[@]}" "${lib[@]:0:1}" --message-format=json 2>"$dir/build.log") |
    sed -n 's/.*"kind":\["\(lib\|test\)"\].*"name":"\([a-z_]*\)".*"executable":"\([^"]*\)".*/\2 \3/p' |
    while read -r name path; do say "${name//_/-} $path"; done
}

# Runs one test of a program from the copy; green, red, slow or missing.
try() {
  local code=0
  (cd "$copy" && timeout -k 10 $test_s nice "$1" --exact "$2" >"$dir/test.log" 2>&1) || code=$?
  case $code in
    0) grep -q '^test result: ok. 1 passed' "$dir/test.log" && say green || say missing ;;
    124 | 137) say slow ;;
    *) say red ;;
  esac
}

# Applies a patch to the copy, and fails where it does not fit exactly.
apply() { patch -d "$copy" -p1 -s --fuzz=0 --no-backup-if-mismatch <"$1" >"$dir/patch.log" 2>&1; }

only_check=0
if [ "${1:-}" = --check ]; then
  only_check=1
  shift
  # Beside a run that may be going on, not in its copy.
  dir=$(mktemp -d)
  copy=$dir/copy sources=$dir/sources
  trap 'rm -rf "$dir"' EXIT
fi
# The run goes on with these, whatever becomes of the sources meanwhile.
snapshot "$sources"
patches=()
for patch in "$sources"/tests/mutants/[0-9]*.patch; do
  name=$(basename "$patch" .patch)
  [ $# -eq 0 ] && patches+=("$patch")
  for wanted in "$@"; do
    case $name in "$wanted"*) patches+=("$patch") ;; esac
  done
done
[ ${#patches[@]} -gt 0 ] || { say "no such mutant"; exit 2; }

bad=()
fresh "$sources" "$copy"
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch)
  [ -n "$(named "$patch")" ] || { say "NO TEST   $name names none"; bad+=("$name"); }
  apply "$patch" || { say "STALE     $name: $(head -1 "$dir/patch.log")"; bad+=("$name"); }
  fresh "$sources" "$copy"
done
[ ${#bad[@]} -eq 0 ] || { say "${#bad[@]} of ${#patches[@]} patches are of no use: ${bad[*]}"; exit 1; }
[ $only_check = 0 ] || { say "${#patches[@]} patches apply"; exit 0; }

copy_dependencies "$target" "$CARGO_TARGET_DIR"
program() { local target=${1#*/} && awk -v target="${target//_/-}" '$1 == target { print $2 }' <<<"$built"; }
# shellcheck disable=SC2046
built=$(build $(named "${patches[@]}" | cut -d' ' -f1 | sort -u))
while read -r kind test; do
  found=$(try "$(program "$kind")" "$test")
  [ "$found" = green ] || { say "WITHOUT A MUTANT $found: $kind $test"; tail -n 5 "$dir/test.log" "$dir/build.log"; exit 1; }
done < <(named "${patches[@]}")
say "$(named "${patches[@]}" | wc -l) tests are green without a mutant"

caught=0
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch)
  began=$SECONDS
  fresh "$sources" "$copy"
  apply "$patch" || { say "STALE     $name"; bad+=("$name"); continue; }
  # shellcheck disable=SC2046
  built=$(build $(named "$patch" | cut -d' ' -f1 | sort -u)) || built=
  if [ -z "$built" ]; then
    say "NO BUILD  $name"
    grep -m1 -A8 '^error' "$dir/build.log" || tail -n 20 "$dir/build.log"
    bad+=("$name")
    continue
  fi
  built_s=$((SECONDS - began))
  survived=
  while read -r kind test; do
    found=$(try "$(program "$kind")" "$test")
    case $found in red | slow) ;; *) survived="$survived $test" ;; esac
  done < <(named "$patch")
  if [ -n "$survived" ]; then
    say "SURVIVED  $name:$survived"
    bad+=("$name")
  else
    say "caught    $name (built in $built_s s, tested in $((SECONDS - began - built_s)) s)"
    caught=$((caught + 1))
  fi
done
fresh "$sources" "$copy"
say "$caught caught of ${#patches[@]}"
[ ${#bad[@]} -eq 0 ] || { say "not caught: ${bad[*]}"; exit 1; }
