#!/bin/sh
# Fetches the jars of the test broker into the cache, once. Prints their directory. The directory appears complete or not at all,
# and two runs at a time do not disturb each other.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/loopwarden
target=$cache/kafka-4.1.0/lib
if [ -d "$target" ]; then
    echo "$target"
    exit 0
fi
mkdir -p "$cache/kafka-4.1.0"
scratch=$(mktemp -d "$cache/kafka-4.1.0/fetch.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
tries=1
until mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$scratch/lib" >&2; do
    # A mirror that refuses once may answer the next time; what came is kept.
    [ "$tries" -lt 3 ] || exit 1
    tries=$((tries + 1))
done
# Another run may have been faster: its directory is as good as ours. (Plain mv would move into it.)
mv -T "$scratch/lib" "$target" 2>/dev/null || [ -d "$target" ]
echo "$target"
