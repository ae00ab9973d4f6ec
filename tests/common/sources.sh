# Sourced, from the root of the repository: the sources in directories of their own, for builds that change them.

# The sources as they are now, with the setting that points cargo at the compiled RocksDB: without it a build compiles RocksDB again.
snapshot() { # TO
  rm -rf "$1"
  { git ls-files -z --cached --others --exclude-standard; [ ! -f .cargo/native.toml ] || printf '.cargo/native.toml\0'; } |
    while IFS= read -r -d '' file; do
      [ ! -f "$file" ] || { mkdir -p "$1/$(dirname "$file")" && cp -p "$file" "$1/$file"; }
    done
}

# Brings a copy back to a snapshot. Only what differs is written: what did not change is not compiled again.
fresh() { # SNAPSHOT COPY
  mkdir -p "$2"
  (diff -rq "$1" "$2" || true) | while read -r what file rest; do
    case "$what $file" in
      "Files $1"/*) cp "$file" "$2/${file#"$1"/}" ;;
      "Only in") rest=${rest/: //}
        case $rest in
          "$1"/*) mkdir -p "$2/$(dirname "${rest#"$1"/}")" && cp -rp "$rest" "$2/${rest#"$1"/}" ;;
          "$2"/*) rm -rf "$rest" ;;
        esac ;;
    esac
  done
}
