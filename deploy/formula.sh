#!/usr/bin/env bash
# Writes the formula by which Homebrew installs a release from its archives: `bash deploy/formula.sh REPOSITORY_URL FOLDER`, with the
# archives of deploy/archive.sh and their checksums in FOLDER. Prints where it is. `brew install ./loopwarden.rb`, or a tap, takes it.
set -euo pipefail
repository=${1:?the URL of the repository is missing}
folder=$(realpath "${2:?the folder is missing}")
cd "$(dirname "$0")/.."
version=$(bash .ci/release-version | sed -n 's/^version=//p')
description=$(sed -n 's/^description = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

# A block of the formula for a system and a processor; nothing where the release has no archive of it.
archive() {
  local name=loopwarden-v$version-$2
  [ -f "$folder/$name.tar.gz.sha256" ] || return 0
  cat <<RUBY
    on_$1 do
      url "$repository/releases/download/v$version/$name.tar.gz"
      sha256 "$(cut -d ' ' -f 1 "$folder/$name.tar.gz.sha256")"
    end
RUBY
}

# A system of which the release has an archive.
system() {
  local blocks
  blocks=$(archive arm "aarch64-$2"; archive intel "x86_64-$2")
  [ -z "$blocks" ] || printf '\n  on_%s do\n%s\n  end\n' "$1" "$blocks"
}

blocks=$(system macos apple-darwin; system linux unknown-linux-gnu)
[ -n "$blocks" ] || { echo "formula: no archive of version $version in $folder" >&2; exit 1; }
cat >"$folder/loopwarden.rb" <<RUBY
class Loopwarden < Formula
  desc "${description%%, *}"
  homepage "$repository"
  version "$version"
  license "Apache-2.0"
$blocks

  def install
    bin.install "loopwarden", "loopwarden-hook"
    man1.install "man/loopwarden.1"
    bash_completion.install "completions/loopwarden.bash" => "loopwarden"
    zsh_completion.install "completions/loopwarden.zsh" => "_loopwarden"
    fish_completion.install "completions/loopwarden.fish"
  end

  service do
    run [opt_bin/"loopwarden", "run", "--data-dir", var/"loopwarden", "--set", "mode=live"]
    keep_alive successful_exit: false
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/loopwarden --version")
    system bin/"loopwarden", "demo"
  end
end
RUBY
echo "$folder/loopwarden.rb"
