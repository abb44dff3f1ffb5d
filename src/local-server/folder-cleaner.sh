#!/bin/sh
# Reads process groups from its input, one a line; the last one is the group that lives (an empty line: none). The input ends
# when its owner closes it or dies in whatever way: then it ends the group and removes the folder $1, and then the record $2.
# postmaster.pid is checked too, because a dead process that was not waited for still answers to its number.
trap '' HUP INT TERM
group=
while read -r line; do group=$line; done
if [ -n "$group" ]; then
  kill -s QUIT -- "-$group"
  tries=0
  while [ -e "$1/data/postmaster.pid" ] && kill -s 0 -- "-$group" && [ $tries -lt 100 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
  kill -s KILL -- "-$group"
fi
tries=0
until rm -rf "$1" || [ $tries -ge 50 ]; do
  sleep 0.1
  tries=$((tries + 1))
done
[ ! -e "$1" ] || exit 1
[ -z "$2" ] || rm -f "$2"
