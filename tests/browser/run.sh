#!/usr/bin/env bash
# The live page and the report in headless Chromium. Installs it where that is a matter of a package; elsewhere says why nothing is tested.
set -euo pipefail
cd "$(dirname "$0")/../.."
target="${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}"
binary="${LOOPWARDEN_BINARY:-$target/release/loopwarden}"

skip() { echo "browser: skipped, $1"; exit 0; }

command -v python3 >/dev/null || skip "python3 is missing"
[ -x "$binary" ] || { echo "browser: $binary is missing; cargo build --release --locked makes it" >&2; exit 1; }

find_chromium() {
  local name
  for name in chromium chromium-browser google-chrome; do
    command -v "$name" && return 0
  done
  return 1
}

if ! chromium=$(find_chromium); then
  command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ] || skip "there is no chromium, and it can be installed by root on Debian only"
  export DEBIAN_FRONTEND=noninteractive
  timeout 60 apt-get update -qq </dev/null >/dev/null 2>&1 || skip "there is no chromium, and no package list to get it from"
  timeout 240 apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core </dev/null >/dev/null 2>&1 \
    || skip "there is no chromium, and it could not be installed in time"
  chromium=$(find_chromium) || skip "the package of chromium holds no program of that name"
fi

timeout 30 "$chromium" --version </dev/null >/dev/null 2>&1 || skip "$chromium does not run here"

export PYTHONDONTWRITEBYTECODE=1
python3 tests/browser/page.py "$binary" "$chromium" "$target/tmp"
python3 tests/browser/report.py "$binary" "$chromium" "$target/tmp"
