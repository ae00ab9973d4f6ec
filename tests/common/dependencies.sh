# Sourced: copies compiled dependencies from one target directory to another, without what is this package's own. A build of other
# sources in a directory of its own then compiles this package alone.
copy_dependencies() { # FROM TO
  [ ! -d "$2/release" ] && [ -d "$1/release" ] || return 0
  printf 'copying compiled dependencies to %s\n' "$2"
  mkdir -p "$2/release"
  cp "$1"/.rustc_info.json "$1"/CACHEDIR.TAG "$2" 2>/dev/null || true
  (cd "$1/release" && tar cf - --exclude='*loopwarden*' --exclude='deps/it-*' --exclude='deps/kafka-*' --exclude='deps/chaos-*' \
    .fingerprint build deps) | tar xf - -C "$2/release"
}
