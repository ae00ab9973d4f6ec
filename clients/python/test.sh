#!/usr/bin/env bash
# Tests the Python client: `bash clients/python/test.sh [ENVIRONMENT…]`, without names all of tests/frameworks.txt.
#
# Each framework has an environment of its own in the cache, named after its versions. LOOPWARDEN names a program to test against as
# well; without it the one of the release build is taken, where it is there. What cannot be had is said in one line.
set -euo pipefail
cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/loopwarden/clients-python
built=${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}/release/loopwarden
if [ -z "${LOOPWARDEN:-}" ] && [ -x "$built" ]; then
  export LOOPWARDEN=$built
fi
# `make vectors` writes them.
vectors=${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}/tmp/client-vectors.ndjson
if [ -z "${CLIENT_VECTORS:-}" ] && [ -e "$vectors" ]; then
  export CLIENT_VECTORS=$vectors
fi
export UV_PYTHON_DOWNLOADS=never PYTHONDONTWRITEBYTECODE=1

left_out() { echo "clients-python: $1 LEFT OUT, $2"; }

command -v python3 >/dev/null || { left_out all "there is no python3"; exit 0; }
if ! tools=$(bash ../../.ci/python-tools 2>/dev/null); then
  left_out all "its tools cannot be had from PyPI"
  exit 0
fi
uv=$tools/bin/uv

# The oldest Python that the package promises: on the path, or where pyenv keeps it.
oldest() {
  "$uv" python find 3.10 2>/dev/null || find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -path '*/3.10.*/bin/python3.10' 2>/dev/null | head -1 | grep .
}

# Prints where the environment of this name is; makes it where it is not there. It is called in a condition, where `set -e` is off.
environment() {
  local name=$1 python=python3 requirements home
  requirements=$(grep "^$name " tests/frameworks.txt | cut -d' ' -f2-)
  [ -n "$requirements" ] || { echo "clients-python: there is no environment $name" >&2; return 1; }
  [ "$name" != oldest ] || python=$(oldest)
  home=$cache/$name-$(printf '%s\n' "$("$uv" python find "$python")" "$requirements" | sha256sum | cut -c 1-16)
  if [ ! -e "$home/complete" ]; then
    rm -rf "$home"
    "$uv" venv --quiet --python "$python" "$home" || return 1
    # Requirements are words.
    # shellcheck disable=SC2086
    timeout 580 "$uv" pip install --quiet --python "$home/bin/python" $requirements >&2 || return 1
    touch "$home/complete"
  fi
  echo "$home"
}

# The wheel as a user gets it: it installs without an index, is typed, and does not collide with the one of the program.
package() {
  local home=$1 scratch
  scratch=$(mktemp -d)
  "$home/bin/python" -m build --wheel --no-isolation --outdir "$scratch" . >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; return 1; }
  "$uv" venv --quiet "$scratch/venv"
  "$uv" pip install --quiet --offline --no-index --python "$scratch/venv/bin/python" "$scratch"/loopwarden_client-*.whl
  (cd "$scratch" && venv/bin/python -c '
import importlib.metadata, pathlib, loopwarden_client
folder = pathlib.Path(loopwarden_client.__file__).parent
assert (folder / "py.typed").exists() and (folder / "adapters/langchain.py").exists()
assert importlib.metadata.metadata("loopwarden-client")["Requires-Python"] == ">=3.10"
files = [str(file) for file in importlib.metadata.files("loopwarden-client")]
assert all(file.startswith("loopwarden_client") for file in files), files')
  echo "clients-python: $(basename "$scratch"/*.whl) installs and is typed"
  rm -rf "$scratch"
}

names=("$@")
if [ $# -eq 0 ]; then
  mapfile -t names < <(grep -v '^#' tests/frameworks.txt | cut -d' ' -f1)
fi
for name in "${names[@]}"; do
  if [ "$name" = oldest ] && ! oldest >/dev/null; then
    left_out "$name" "there is no Python 3.10"
    continue
  fi
  if ! home=$(environment "$name"); then
    # Without a network nothing resolves; a version that is gone is a fault of frameworks.txt.
    if timeout 60 "$uv" pip install --quiet --dry-run --refresh --reinstall --python "$tools/bin/python" wheel >/dev/null 2>&1; then
      exit 1
    fi
    left_out "$name" "PyPI cannot be reached"
    continue
  fi
  tests=(tests/"test_$name.py")
  case $name in
    core | oldest) tests=(tests/test_guard.py tests/test_hostile.py tests/test_canonical.py tests/test_vectors.py
      tests/test_commands.py tests/test_package.py tests/test_peer.py) ;;
    kafka) tests=(tests/test_commands.py) ;;
  esac
  if [ "$name" = core ]; then
    "$home/bin/ruff" check --quiet --no-cache .
    "$home/bin/mypy" --cache-dir /dev/null >/dev/null || { "$home/bin/mypy" --cache-dir /dev/null; exit 1; }
    package "$home"
  fi
  echo "clients-python: $name"
  "$home/bin/python" -m pytest -q -rs "${tests[@]}"
done
