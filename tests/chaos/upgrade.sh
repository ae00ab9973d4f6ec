#!/usr/bin/env bash
# The kill loop with two programs (T19): one built from an earlier revision, and this one. Each start draws one of the two, so that
# either goes on from the other's state, beside the other, again and again.
#
#   bash tests/chaos/upgrade.sh REVISION
#
# Both must decide alike: what they say is compared with an uninterrupted run of this one, every byte but those that name the program
# and its policy.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/common/dependencies.sh
revision=$(git rev-parse --short "${1:?usage: upgrade.sh REVISION}^{commit}")
target=${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}
dir=$HOME/.cache/loopwarden/upgrade
rm -rf "$dir/sources"
mkdir -p "$dir/sources"
# Sources are as old as they are unpacked: what was built of another revision is not taken for built of this one.
git archive "$revision" | tar xf - -m -C "$dir/sources"
copy_dependencies "$target" "$dir/target"
(cd "$dir/sources" && CARGO_TARGET_DIR=$dir/target cargo build --release --locked --quiet)
cp "$dir/target/release/loopwarden" "$dir/loopwarden-$revision"
printf 'an earlier program: %s, with this one\n' "$revision"
export LOOPWARDEN_CHAOS_OLD=$dir/loopwarden-$revision
export LOOPWARDEN_CHAOS_KILLS=${LOOPWARDEN_CHAOS_KILLS:-60} LOOPWARDEN_CHAOS_EVENTS=${LOOPWARDEN_CHAOS_EVENTS:-600000}
cargo test --release --locked --test chaos
