#!/bin/sh
# Installs the single executable of safemigrate from a folder that holds a release: sh install.sh [FOLDER] [DESTINATION]
# It downloads nothing. It verifies the file by SHA256SUMS, and that by its signature if gh or cosign is here, before it moves anything.
set -eu
from=${1:-.} to=${2:-/usr/local/bin}
# The release writes here which repository's workflow has signed it.
repository=

fail() { echo "install.sh: $1; nothing was installed" >&2; exit 1; }
has() { command -v "$1" > /dev/null; }
sum() { if has sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1; }

case $(uname -s) in Linux) place=linux ;; Darwin) place=darwin ;; *) fail "there is no executable for $(uname -s)" ;; esac
case $(uname -m) in
  x86_64 | amd64) place=$place-x64 ;;
  aarch64 | arm64) place=$place-arm64 ;;
  *) fail "there is no executable for $(uname -m)" ;;
esac
if [ -e "/lib/ld-musl-$(uname -m).so.1" ] && ! getconf GNU_LIBC_VERSION > /dev/null 2>&1; then place=$place-musl; fi
sums=$from/SHA256SUMS signature=$from/SHA256SUMS.sigstore.json
[ -r "$sums" ] || fail "$from has no SHA256SUMS"
if [ -n "$repository" ] && has gh && gh attestation verify --help > /dev/null 2>&1; then
  gh attestation verify "$sums" --bundle "$signature" --repo "$repository" ||
    fail "gh did not confirm that $repository signed SHA256SUMS"
elif [ -n "$repository" ] && has cosign; then
  cosign verify-blob-attestation --bundle "$signature" --new-bundle-format --type slsaprovenance1 \
    --certificate-oidc-issuer https://token.actions.githubusercontent.com \
    --certificate-identity-regexp "^https://github\.com/$repository/\.github/workflows/release\.yml@refs/tags/" "$sums" ||
    fail "cosign did not confirm that $repository signed SHA256SUMS"
fi
name=$(sed -n "s/^[0-9a-f]\{64\}  \(safemigrate-[0-9.]*-$place\.gz\)\$/\1/p" "$sums")
[ "$(printf '%s' "$name" | grep -c .)" -eq 1 ] || fail "SHA256SUMS does not name one executable for $place"
[ -r "$from/$name" ] || fail "$from/$name is missing"
made=$(mktemp "$to/.safemigrate.XXXXXX") || fail "$to cannot be written"
trap 'rm -f "$made"' EXIT
grep -Fqx "$(sum "$from/$name")  $name" "$sums" || fail "$name is not the file that SHA256SUMS names"
gzip -dc "$from/$name" > "$made" || fail "$name cannot be unpacked"
chmod 755 "$made"
version=$("$made" --version) || fail "it does not run on this machine"
mv -f "$made" "$to/safemigrate"
echo "safemigrate $version is $to/safemigrate"
