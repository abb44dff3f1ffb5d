#!/bin/sh
# Installs the single executable of safemigrate from a folder that holds a release: sh install.sh [FOLDER] [DESTINATION]
# It downloads nothing. It verifies the file by SHA256SUMS before it moves anything, and replaces an older version in one step.
set -eu

from=${1:-.}
to=${2:-/usr/local/bin}

fail() {
  echo "install.sh: $1; nothing was installed" >&2
  exit 1
}

case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) fail "there is no executable for $(uname -s)" ;;
esac
case $(uname -m) in
  x86_64 | amd64) machine=x64 ;;
  aarch64 | arm64) machine=arm64 ;;
  *) fail "there is no executable for $(uname -m)" ;;
esac
[ -r "$from/SHA256SUMS" ] || fail "$from has no SHA256SUMS"
name=$(sed -n "s/^[0-9a-f]\{64\}  \(safemigrate-[0-9.]*-$system-$machine\.gz\)\$/\1/p" "$from/SHA256SUMS")
[ -n "$name" ] || fail "SHA256SUMS names no executable for $system-$machine"
[ "$(printf '%s\n' "$name" | wc -l)" -eq 1 ] || fail "SHA256SUMS names several versions"
[ -r "$from/$name" ] || fail "$from/$name is missing"
sum() { if command -v sha256sum > /dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1; }
wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $name\$/\1/p" "$from/SHA256SUMS")
made=$(mktemp "$to/.safemigrate.XXXXXX") || fail "$to cannot be written"
trap 'rm -f "$made"' EXIT
[ "$(sum "$from/$name")" = "$wanted" ] || fail "$name is not the file that SHA256SUMS names"
gzip -dc "$from/$name" > "$made" || fail "$name cannot be unpacked"
chmod 755 "$made"
version=$("$made" --version) || fail "it does not run on this machine"
mv -f "$made" "$to/safemigrate"
trap - EXIT
echo "safemigrate $version is $to/safemigrate"
