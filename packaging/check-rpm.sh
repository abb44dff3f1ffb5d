#!/bin/sh
# Installs, verifies and removes an .rpm, and fails if a step fails or leaves a file: as root: sh check-rpm.sh FILE
# On Debian, which has what it requires under other names, the requirements are not compared.
set -eu
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
nodeps=
[ ! -e /etc/debian_version ] || nodeps=--nodeps

# The folders of fish and zsh belong to packages of their own on Red Hat's systems.
files() { find /etc /usr /opt /srv ! -path '/usr/share/fish*' ! -path '/usr/share/zsh*' | LC_ALL=C sort; }

files > "$made/before"
rpm -i $nodeps "$1" 2> /dev/null
version=$(safemigrate --version)
[ "$version" = "$(rpm -q --qf '%{VERSION}' safemigrate)" ] || { echo "another version runs: $version" >&2; exit 1; }
rpm -V $nodeps safemigrate
rpm -e $nodeps safemigrate
files > "$made/after"
diff "$made/before" "$made/after" || { echo 'these files were left' >&2; exit 1; }
echo "safemigrate $version: installed, verified, removed; nothing was left"
