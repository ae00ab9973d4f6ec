#!/usr/bin/env bash
# Makes stand-ins for base images that cannot be pulled and prints the name of the one asked for: images.sh runtime [PACKAGE...]|build|kafka
# They are made of Debian packages, as the real ones are (distroless, rust), and of Kafka's jars. Each is made once for a daemon.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
suite=bookworm
docker=${DOCKER:-docker}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

there() { "$docker" image inspect "$1" >/dev/null 2>&1; }

# The parts of gcr.io/distroless/cc-debian12 that matter: libc, libgcc and libstdc++, certificates, time zones, a user, no shell.
# Further packages are added to it.
runtime() {
  local name root=$scratch/root
  name=loopwarden-standin-runtime:$(printf '%s' "$suite" "${@/#/-}")
  if ! there "$name"; then
    mkdir -p "$scratch/packages" "$root/etc/ssl/certs" "$root/home/nonroot" "$root/tmp"
    (cd "$scratch/packages" && apt-get -o APT::Sandbox::User=root download -qq base-files ca-certificates libc6 libgcc-s1 libssl3 libstdc++6 netbase tzdata "$@") >&2
    for package in "$scratch"/packages/*.deb; do dpkg-deb -x "$package" "$root"; done
    cat "$root"/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
    rm -rf "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale "$root"/usr/sbin "$root"/usr/bin
    printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n' >"$root/etc/passwd"
    printf 'root:x:0:\nnonroot:x:65532:\n' >"$root/etc/group"
    chmod 1777 "$root/tmp"
    chown 65532:65532 "$root/home/nonroot"
    tar -C "$root" -c . | "$docker" import --change 'USER 65532' --change 'WORKDIR /home/nonroot' \
      --change 'ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt' - "$name" >&2
  fi
  echo "$name"
}

# rust:1.x-bookworm: Debian with compilers, and the Rust toolchain of this machine.
build() {
  local name=loopwarden-standin-build:$suite sysroot
  if ! there "$name"; then
    sysroot=$(rustc --print sysroot)
    mkdir -p "$scratch/root/usr/local/cargo" "$scratch/root/etc/ssl/certs"
    cp -r "$sysroot/bin" "$sysroot/lib" "$scratch/root/usr/local/"
    # Certificates of this machine: a proxy between it and the registries may have its own.
    cp "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$scratch/root/etc/ssl/certs/ca-certificates.crt"
    mmdebstrap --quiet --variant=minbase --include=build-essential,ca-certificates,clang,libclang-dev,libssl-dev,pkg-config,zlib1g-dev \
      --customize-hook="tar -C '$scratch/root' -c . | tar -C \"\$1\" -x" $suite - </dev/null |
      "$docker" import --change 'ENV CARGO_HOME=/usr/local/cargo' --change 'ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt' - "$name" >&2
  fi
  echo "$name"
}

# apache/kafka as far as deploy/compose.yaml uses it: KAFKA_* variables become settings, and the shell tools are where they are there.
kafka() {
  local name=loopwarden-standin-kafka:latest base
  if ! there "$name"; then
    base=$(bash "$here/../kafka/broker/image.sh")
    "$docker" build -q --network none --build-arg "BASE=$base" -t "$name" "$here/kafka" >&2
  fi
  echo "$name"
}

case ${1:-} in
  runtime | build | kafka) "$@" ;;
  *) echo "usage: images.sh runtime [PACKAGE...]|build|kafka" >&2 && exit 2 ;;
esac
