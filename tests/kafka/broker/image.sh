#!/usr/bin/env bash
# Makes the image of the test broker for machines that cannot pull apache/kafka: Debian, Java and the jars that fetch.sh brings. Prints its name.
# Needs a Docker daemon, and root and mmdebstrap the first time: its file system is kept in the cache, one for each version and recipe.
# The jars lie where apache/kafka has them. There is no entrypoint: the tests bring their own, broker/run.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lib=$(bash "$here/fetch.sh")
version=$(basename "$(dirname "$lib")")
version=${version#kafka-}
name=loopwarden-kafka:$version
if docker image inspect "$name" >/dev/null 2>&1; then
  echo "$name"
  exit 0
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/loopwarden
recipe=$({ sha256sum <"$here/image.sh"; sha256sum <"$here/pom.xml"; } | sha256sum | cut -c 1-12)
tar=$cache/kafka-$version/image-$recipe.tar
if [ ! -f "$tar" ]; then
  if ! command -v mmdebstrap >/dev/null; then
    command -v apt-get >/dev/null || { echo "image: mmdebstrap is missing, and there is no apt-get to install it" >&2 && exit 1; }
    { DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap; } </dev/null >&2
  fi
  # The file appears complete or not at all.
  scratch=$(mktemp -d "$cache/kafka-$version/image.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  echo "image: making the file system of $name" >&2
  mmdebstrap --quiet --variant=minbase --include=openjdk-17-jre-headless \
    --customize-hook='mkdir -p "$1/opt/kafka"' --customize-hook="copy-in '$lib' /opt/kafka" \
    --customize-hook='mv "$1/opt/kafka/lib" "$1/opt/kafka/libs"' \
    bookworm "$scratch/image.tar" </dev/null >&2
  mv "$scratch/image.tar" "$tar"
fi
docker import --change 'LABEL dev.loopwarden.image=kafka' "$tar" "$name" >&2
echo "$name"
