#!/bin/sh
# Writes release/SHA256SUMS of every file in there.
set -eu
cd "$(dirname "$0")/../release"
rm -f SHA256SUMS
sums=$(LC_ALL=C sha256sum -- *)
printf '%s\n' "$sums" > SHA256SUMS
