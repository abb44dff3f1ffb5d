#!/bin/sh
# Runs a program in a root directory of its own, as the first step in new network, mount, PID and IPC namespaces, with the right
# to mount. There are no other processes, no network but a loopback device, and only those folders that the arguments name.
#
# mountpoint: any folder outside of those to be shown, which is covered; home: the folder to work in, or nothing for a trial;
# then pairs, parents before their subfolders, up to `--`: `ro` shows a folder read-only, `rw` as it is, `hide` covers it.
#
# Process 1 is this shell and not the server, which would take the end of an orphan for the crash of a backend (before
# PostgreSQL 17). The namespace ends with it, and it with the server.
set -e
PATH=$PATH:/usr/sbin:/sbin
mountpoint=$1 home=$2
shift 2

enter() {
  # This is still the /proc of outside: there the server is known by this number.
  read -r number _ </proc/self/stat
  # A clone's own server could have put a link there before a reset.
  if [ -n "$home" ]; then (rm -f "$home/server.pid" && set -C && echo "$number" >"$home/server.pid"); fi
  # PostgreSQL 14 needs a loopback device for its statistics.
  ip link set lo up 2>/dev/null || ifconfig lo up 2>/dev/null || :
  mount -t tmpfs -o size=64m,mode=755 safemigrate "$mountpoint"
  cd "$mountpoint"
  mkdir -p dev/shm proc run tmp
  chmod 1777 tmp
  for device in null zero random urandom; do
    : >dev/$device
    mount --bind /dev/$device dev/$device
  done
  ln -s /proc/self/fd dev/fd
  mount -t tmpfs -o mode=1777 safemigrate dev/shm
  mount -t proc safemigrate proc
  while [ "$1" != -- ]; do
    case $1 in
      ro) show_read_only "$2" ;;
      rw)
        mkdir -p ".$2"
        mount --rbind "$2" ".$2"
        ;;
      hide) if [ -d ".$2" ]; then mount -t tmpfs -o size=1m,mode=755 safemigrate ".$2"; fi ;;
    esac
    shift 2
  done
  shift
  pivot_root . .
  umount -l .
  cd "${home:-/}"
  exec "$@"
}

show_read_only() {
  if [ -L "$1" ]; then
    ln -s "$(readlink "$1")" ".$1"
  elif [ -d "$1" ]; then
    mkdir -p ".$1"
    # Without these flags a user namespace may not mount again what was mounted with them.
    mount --rbind -o ro,nosuid,nodev "$1" ".$1"
  fi
}

enter "$@" &
wait $!
