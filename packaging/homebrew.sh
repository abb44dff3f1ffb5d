#!/bin/sh
# Prints Homebrew's formula of a release: homebrew.sh https://github.com/OWNER/NAME VERSION SHA256SUMS
set -eu
repository=$1 version=$2 sums=$3
script="s#@REPOSITORY@#$repository#g; s#@VERSION@#$version#g"
for place in darwin-arm64 darwin-x64 linux-arm64 linux-x64; do
  sum=$(sed -n "s/^\([0-9a-f]\{64\}\)  safemigrate-$version-$place\.gz\$/\1/p" "$sums")
  [ -n "$sum" ] || { echo "homebrew.sh: $sums has no executable of $version for $place" >&2; exit 1; }
  script="$script; s/@$place@/$sum/"
done
sed -e 1d -e "$script" "$(dirname "$0")/safemigrate.rb"
