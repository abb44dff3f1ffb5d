#!/bin/sh
# Keeps the first state of a clone in the folder `first` of the clone's folder $2, and copies it by reference. It runs as the owner of
# the folder, who could put links there; `sweep` follows none.
#
# save: what is there becomes the first state; take: the first state of the clone in $3 becomes that of this one; prepare: makes a copy
# in `reset`; swap: puts it in place, and what was there into `reset`; clear: removes what the server wrote for us; sweep: removes
# `reset`.
set -e
what=$1 folder=$2 from=$3
cd "$folder"

is_subvolume() {
  [ -d "$1" ] && [ ! -L "$1" ] && [ "$(stat -f -c %T "$1")" = btrfs ] && [ "$(stat -c %i "$1")" = 256 ]
}
copy() {
  if [ "$(uname)" = Darwin ]; then
    cp -Rpc "$1" "$2"
  elif is_subvolume "$1"; then
    btrfs subvolume snapshot "$1" "$2" >/dev/null
  else
    cp -a --reflink=always "$1" "$2"
  fi
}
there() { [ -e "$1" ] || [ -L "$1" ]; }
copy_all() {
  mkdir "$2"
  for part in data tablespaces; do
    if there "$1/$part"; then copy "$1/$part" "$2/$part"; fi
  done
  if [ -d "$1/parts" ]; then
    mkdir "$2/parts"
    for part in "$1"/parts/*; do copy "$part" "$2/parts/${part##*/}"; done
  fi
}
move_all() {
  for part in data tablespaces parts; do
    if there "$1/$part"; then mv "$1/$part" "$2/$part"; fi
  done
}
remove_reset() {
  for part in reset/parts/* reset/old/parts/*; do
    if is_subvolume "$part"; then btrfs subvolume delete "$part" >/dev/null 2>&1 || :; fi
  done
  rm -rf reset
}

case $what in
  save)
    mkdir first
    move_all . first
    rm -f log server.pid
    ;;
  take)
    cp "$from/pg_hba.conf" "$from/pg_ident.conf" .
    copy_all "$from/first" first
    for link in first/data/pg_wal first/data/pg_tblspc/*; do
      if [ -L "$link" ]; then
        to=$(readlink "$link")
        ln -sfn "$folder${to#"$from"}" "$link"
      fi
    done
    ;;
  prepare)
    copy_all first reset
    ;;
  swap)
    mkdir reset/old
    move_all . reset/old
    move_all reset .
    rm -f log server.pid
    ;;
  clear) rm -f log server.pid ;;
  sweep) remove_reset ;;
esac
