#!/bin/sh
# Installs, upgrades, removes and purges a .deb, and fails if a step fails or leaves a file: as root, on Debian or Ubuntu: sh check-deb.sh FILE
set -eu
deb=$1
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
export DEBIAN_FRONTEND=noninteractive

files() { find /etc /usr /opt /srv /var/lib -path /var/lib/dpkg -prune -o -path /var/lib/apt -prune -o -print | LC_ALL=C sort; }
state() { dpkg-query -W -f '${db:Status-Status} ${Version}' safemigrate 2> /dev/null || echo none; }
expect() { [ "$2" = "$3" ] || { echo "$1: expected $3, found $2" >&2; exit 1; }; }

# The version before: the same files, of which one has gone since.
version=$(dpkg-deb -f "$deb" Version)
dpkg-deb -R "$deb" "$made/older"
sed -i 's/^Version: .*/Version: 0.0.1/' "$made/older/DEBIAN/control"
touch "$made/older/usr/share/doc/safemigrate/gone"
dpkg-deb --root-owner-group -Znone -b "$made/older" "$made/older.deb" > /dev/null

files > "$made/before"
dpkg -i "$made/older.deb" > /dev/null
expect 'after the installation of the older version' "$(state)" 'installed 0.0.1'
dpkg -i "$deb" > /dev/null
expect 'after the upgrade' "$(state)" "installed $version"
[ ! -e /usr/share/doc/safemigrate/gone ] || { echo 'a file of the older version was left' >&2; exit 1; }
expect 'the version that runs' "$(safemigrate --version)" "$version"
expect 'files of the package that differ' "$(dpkg --verify safemigrate)" ''
dpkg -r safemigrate > /dev/null
dpkg -P safemigrate > /dev/null 2>&1
expect 'after the removal' "$(state)" none
files > "$made/after"
diff "$made/before" "$made/after" || { echo 'these files were left' >&2; exit 1; }
echo "safemigrate $version: installed, upgraded, removed; nothing was left"
