#!/usr/bin/env bash
# Builds the binary that is shipped and prints where it is; loopwarden-hook lies beside it. The image, the archives and the wheel take these;
# deploy/README.md has the reasons.
#
# What differs from `cargo build --profile dist` is the linking. OpenSSL, zlib and libstdc++ are linked statically, so that one binary runs on
# every distribution with glibc 2.34; libc, libm and libgcc_s stay dynamic. Features are those of every other build.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$HOME/.cache/loopwarden/target}
glibc=2.34

fail() {
  echo "binary: $1" >&2
  exit 1
}

# On a Mac libc++ is the system's, and the oldest release that runs it is named. Only OpenSSL comes from Homebrew, and is linked statically.
if [ "$(uname -s)" = Darwin ]; then
  export MACOSX_DEPLOYMENT_TARGET=12.0
  openssl=$(brew --prefix openssl@3) || fail "OpenSSL is missing: brew install openssl@3"
  OPENSSL_STATIC=1 OPENSSL_DIR=$openssl CFLAGS="${CFLAGS:-} -DWITH_STATIC_LIB_libcrypto=1" \
    cargo build --profile dist --locked --bin loopwarden --bin loopwarden-hook >&2
  binary=$CARGO_TARGET_DIR/dist/loopwarden
  for file in "$binary" "$binary-hook"; do
    needs=$(otool -L "$file" | sed -n 's/^[[:space:]]*\([^ ]*\) (.*/\1/p' | grep -vE '^(/usr/lib/|/System/)' || true)
    [ -z "$needs" ] || fail "$file needs $needs"
  done
  echo "$binary"
  exit 0
fi

# A folder with static libraries alone: the linker looks here first, and finds no shared one to prefer.
static=$CARGO_TARGET_DIR/static
mkdir -p "$static"
scratch=$(mktemp -d "$static/new.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
for library in libssl.a libcrypto.a libstdc++.a; do
  file=$("${CXX:-g++}" -print-file-name="$library")
  [ "$file" != "$library" ] || fail "$library is missing; on Debian it is in libssl-dev or libstdc++-dev"
  cp "$file" "$scratch/$library"
done
# std::random_device of Debian's libstdc++ calls arc4random, which glibc has since 2.36 only. This one takes the same bytes from the kernel.
cat >"$scratch/arc4random.c" <<'C'
#include <stdlib.h>
#include <unistd.h>
unsigned arc4random(void) {
  unsigned value;
  if (getentropy(&value, sizeof value) != 0) abort();
  return value;
}
C
"${CC:-cc}" -O2 -fPIC -c "$scratch/arc4random.c" -o "$scratch/arc4random.o"
ar -qD "$scratch/libstdc++.a" "$scratch/arc4random.o"
ranlib -D "$scratch/libstdc++.a"
for library in libssl.a libcrypto.a libstdc++.a; do
  # Replaced only when it differs: cargo looks at its time.
  cmp -s "$scratch/$library" "$static/$library" || mv -f "$scratch/$library" "$static/$library"
done
include=$(pkg-config --variable=includedir openssl) || fail "the headers of OpenSSL are missing; on Debian they are in libssl-dev"

# WITH_STATIC_LIB_libcrypto: librdkafka looks for the certificates of the system where distributions keep them, not only where Debian does.
OPENSSL_STATIC=1 OPENSSL_LIB_DIR=$static OPENSSL_INCLUDE_DIR=$include LIBZ_SYS_STATIC=1 \
  CFLAGS="${CFLAGS:-} -DWITH_STATIC_LIB_libcrypto=1" \
  cargo build --profile dist --locked --bin loopwarden --bin loopwarden-hook >&2

binary=$CARGO_TARGET_DIR/dist/loopwarden
for file in "$binary" "$binary-hook"; do
  needs=$(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc\.so\.6|libm\.so\.6|libgcc_s\.so\.1|ld-linux-.*)$' || true)
  [ -z "$needs" ] || fail "$file needs $needs"
  newest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | cut -d _ -f 2 | sort -uV | tail -n 1)
  [ "$(printf '%s\n' "$newest" "$glibc" | sort -V | tail -n 1)" = "$glibc" ] || fail "$file needs glibc $newest, more than $glibc"
done
echo "$binary"
