#!/bin/sh
# Runs a program in a root directory of its own, as the first step in new network, mount, PID and IPC namespaces, with the right
# to mount. There are no other processes, no network but a loopback device, and only those folders that the arguments name.
#
# mountpoint: any folder outside of those to be shown, which is covered; home: the folder to work in, or nothing for a trial;
# then, up to `--`, three words for each folder, parents before their subfolders: `ro` shows it read-only, `rw` as it is, `hide`
# covers it inside a folder that is shown; its path; and its path as it is written in a table of mounts (fstab).
#
# One process makes all mounts, and one all links: with a process for each, this script took 100 ms and not 25.
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
  if [ -n "$home" ]; then
    # A clone's own server could have put a link there before a reset.
    rm -f "$home/server.pid"
    set -C
    echo "$number" >"$home/server.pid"
    set +C
  fi
  # PostgreSQL 14 needs a loopback device for its statistics.
  ip link set lo up 2>/dev/null || ifconfig lo up 2>/dev/null || :
  mount -t tmpfs -o size=1m,mode=755 safemigrate "$mountpoint"
  cd "$mountpoint"
  mkdir -p dev/shm proc run tmp
  plan safemigrate /dev/shm tmpfs mode=1777
  plan safemigrate /tmp tmpfs size=64m,mode=1777
  for device in null zero random urandom; do
    : >dev/$device
    plan /dev/$device /dev/$device none bind
  done
  links=/dev/fd
  while [ "$1" != -- ]; do
    case $1 in
      ro) show_read_only "$2" "$3" ;;
      rw) plan "$3" "$3" none rbind,X-mount.mkdir ;;
      hide) if [ -d "$2" ]; then plan safemigrate "$3" tmpfs size=1m,mode=755; fi ;;
    esac
    shift 3
  done
  shift
  # shellcheck disable=SC2086 # It is split into words.
  cp -P --parents $links .
  # The last one, since it covers the table.
  plan safemigrate /proc proc defaults
  mount -a -T proc/table
  pivot_root . .
  umount -l .
  cd "${home:-/}"
  exec "$@"
}

plan() { printf '%s %s %s %s\n' "$1" "$mountpoint$2" "$3" "$4" >>proc/table; }

show_read_only() {
  if [ -L "$1" ]; then
    case $1 in
      /*/*)
        # What it is in may be planned.
        mount -a -T proc/table
        : >proc/table
        cp -P --parents "$1" .
        ;;
      *) links="$links $1" ;;
    esac
  elif [ -d "$1" ]; then
    # Without these flags a user namespace may not mount again what was mounted with them.
    plan "$2" "$2" none rbind,ro,nosuid,nodev,X-mount.mkdir
  fi
}

# A job in the background has no input of its own.
exec 3<&0
enter "$@" <&3 3<&- &
exec 3<&-
wait $!
