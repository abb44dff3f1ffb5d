#!/bin/sh
# Ends a copied server and removes its folder: when its owner closes the pipe or dies in whatever way (unless the owner had
# written `keep`), when its time is up, when the file system's free space falls below a floor, or when somebody else removed the
# server's folder. It prints the reason before it does so, and `stopped` before it removes the folder.
#
# The server writes its process number to <folder>/server.pid before it becomes the server, or else to PostgreSQL's own file.
# It is signalled only while it works inside the folder, since numbers are reused. The folder is removed only if it holds the
# run's mark, or nothing. Backends are process groups of their own, and what they or a copying tool have started may miss the
# end of its parent: every process that works in the folder is ended, except those of people who have gone there to look, on
# their terminals.
#
# folder: without symbolic links, need not exist yet; life: seconds; floor: KiB; release: a shell command;
# stops: not empty if it only ends the server, and leaves the folder; space: a folder with the free space that matters.
trap '' HUP INT PIPE
folder=$1 run=$2 entry=$3 sockets=$4 life=$5 floor=$6 release=$7 stops=$8 space=$9
watchdog=$$
reason=
trap 'reason=owner' USR1
trap 'reason=asked' TERM
exec 3<&0 </dev/null
(
  trap '' USR1 TERM
  kept=
  while read -r word; do [ "$word" = keep ] && kept=yes; done
  [ -n "$kept" ] || kill -s USR1 "$watchdog"
) <&3 >/dev/null &
exec 3<&-
cd /

is_server() {
  if [ -e /proc/self/cwd ]; then
    place=$(readlink "/proc/$1/cwd")
    # The kernel's words, if somebody else removed the folder.
    place=${place%' (deleted)'}
  else
    place=$(ps -o command= -p "$1")
    case $place in *"$folder/"*) place=$folder ;; esac
  fi
  case $place in "$folder" | "$folder"/*) ;; *) return 1 ;; esac
}
server_lives() { [ -n "$pid" ] && kill -s 0 "$pid" && is_server "$pid"; }

# The name of a file system may have spaces: the free space stands before the capacity.
free_of() {
  # shellcheck disable=SC2086 # It is split into words.
  set -- ${1%%%*}
  if [ $# -gt 2 ]; then
    shift $(($# - 2))
    echo "$1"
  fi
}

# Seconds by a clock that is never set, if there is one.
uptime() { { read -r up _ < /proc/uptime && echo "${up%.*}"; } 2> /dev/null || date +%s; }

deadline=$(($(uptime) + life))
born=
while [ -z "$reason" ]; do
  # Its record is there before it, and goes after it: a clone that lived between two looks was never seen.
  if [ -e "$folder" ]; then born=yes; elif [ -n "$born" ] || [ ! -e "$entry" ]; then reason=gone; fi
  free=$(df -Pk "$space" | { read -r _; read -r line; free_of "$line"; })
  if [ -n "$free" ] && [ "$free" -lt "$floor" ]; then reason="space $free"; fi
  if [ "$(uptime)" -ge "$deadline" ]; then reason='time'; fi
  [ -n "$reason" ] && break
  sleep 1 >/dev/null &
  wait $!
done
trap '' USR1 TERM
echo "$reason"

pid=$(cat "$folder/server.pid" || head -n 1 "$folder/data/postmaster.pid")
if server_lives; then
  kill -s QUIT "$pid"
  tries=0
  while server_lives && [ $tries -lt 200 ]; do sleep 0.05; tries=$((tries + 1)); done
  if server_lives; then kill -s KILL "$pid"; fi
fi
if [ -e /proc/self/cwd ]; then
  # shellcheck disable=SC2044 # These paths hold no spaces: /proc/<number>/cwd.
  for place in $(find /proc/[0-9]*/cwd -maxdepth 0 '(' -lname "$folder" -o -lname "$folder/*" ')'); do
    number=${place#/proc/}
    number=${number%/cwd}
    case $(ps -o tty= -p "$number") in
      '?'*) ! is_server "$number" || kill -s KILL "$number" ;;
    esac
  done
fi
# From here on nothing runs any more, and its owner need not wait for what may be a million files.
echo stopped
[ -z "$stops" ] || exit 0
tries=0
# A dataset may be busy for a moment after its server has ended. One that is not released stays on record, for `clean`.
until [ -z "$release" ] || sh -c "$release"; do
  [ $tries -lt 50 ] || exit 1
  sleep 0.1
  tries=$((tries + 1))
done
tries=0
while [ -e "$folder" ] && [ ! -L "$folder" ] && [ $tries -lt 50 ]; do
  if grep -qF "$run" "$folder/mark.json"; then
    # The mark goes last: without it what is left could not be removed.
    find "$folder" -mindepth 1 -maxdepth 1 ! -name mark.json -exec rm -rf {} + && rm -rf "$folder"
  else
    rm -f "$folder/mark.json.new"
    rmdir "$folder" || break
  fi
  [ -e "$folder" ] || break
  sleep 0.1
  tries=$((tries + 1))
done
rm -rf "$sockets"
[ ! -e "$folder" ] && rm -f "$entry"
