#!/usr/bin/env bash
# The TypeScript client and the plugin of opencode, with the real frameworks and fake models. Where npm cannot be reached, says so.
set -euo pipefail
cd "$(dirname "$0")"

skip() { echo "clients-typescript: skipped, $1"; exit 0; }

command -v node >/dev/null && command -v npm >/dev/null || skip "node or npm is missing"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || skip "node $(node --version) is older than 20"

# What is installed belongs to a lock file; another one installs anew.
install() {
  local lock
  lock=$(sha256sum "$1/package-lock.json" | cut -c 1-64)
  [ "$(cat "$1/node_modules/.lock" 2>/dev/null)" != "$lock" ] || return 0
  timeout 60 npm ping >/dev/null 2>&1 || skip "npm does not reach its registry"
  (cd "$1" && timeout 600 npm ci --no-audit --no-fund --loglevel=error)
  mkdir -p "$1/node_modules"
  echo "$lock" > "$1/node_modules/.lock"
}
install .
install ../opencode

rm -rf dist .build
npx --no-install tsc -p .
npx --no-install tsc -p tests
npx --no-install tsc -p tests/tsconfig.opencode.json

# The program itself, where it is built: a real guard.
binary="${LOOPWARDEN_BINARY:-${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}/release/loopwarden}"
[ ! -x "$binary" ] || export LOOPWARDEN_BINARY="$binary"
# `make vectors` writes them.
vectors="${CLIENT_VECTORS:-${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}/tmp/client-vectors.ndjson}"
[ ! -e "$vectors" ] || export CLIENT_VECTORS="$vectors"

echo "clients-typescript: the client on node $(node --version)"
node --test --test-reporter=spec .build/guard.test.js .build/identity.test.js .build/commands.test.js .build/vectors.test.js .build/page.test.js .build/peer.test.js

# Some frameworks want a later Node than the client: it comes from npm too.
later=node_modules/.bin/node
"$later" --version >/dev/null 2>&1 || skip "the Node that the frameworks want is not installed"
echo "clients-typescript: the frameworks on node $("$later" --version)"
"$later" --test --test-reporter=spec --test-concurrency=1 .build/*.test.js
