import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { SafemigrateError } from '../errors.ts';

/**
 * Ends a copied server and removes its folder: when its owner closes the pipe or dies in whatever way (unless the
 * owner had written `keep`), at a deadline, when the file system's free space falls below a floor, or when the server's
 * folder was removed by somebody else. It says why on its output before it does so.
 *
 * A shell, because it stays for hours: 1 MB, where Node takes 40. The server says its number itself, in
 * `<folder>/server.pid`, before it becomes the server, or else in PostgreSQL's own file; it is signalled only while it
 * works inside the folder, since numbers are used again. The folder is removed only if it holds the run's mark, or nothing.
 * Backends are process groups of their own, and what they or a copying tool have started may miss the end of its parent:
 * whatever works in the folder is ended, but for people who have gone there to look, on their terminals.
 */
const SCRIPT = `
trap '' HUP INT PIPE
folder=$1 run=$2 entry=$3 sockets=$4 deadline=$5 floor=$6 release=$7
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
  else
    place=$(ps -o command= -p "$1")
    case $place in *"$folder/data"*) place=$folder ;; esac
  fi
  [ "$place" = "$folder" ] || [ "$place" = "$folder/data" ]
}
server_lives() { [ -n "$pid" ] && kill -s 0 "$pid" && is_server "$pid"; }

born=
while [ -z "$reason" ]; do
  if [ -e "$folder" ]; then born=yes; elif [ -n "$born" ]; then reason=gone; fi
  free=$(df -Pk "\${folder%/*}" | { read -r _; read -r _ _ _ free _; echo "$free"; })
  if [ -n "$free" ] && [ "$free" -lt "$floor" ]; then reason="space $free"; fi
  if [ "$(date +%s)" -ge "$deadline" ]; then reason=time; fi
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
  for place in $(find /proc/[0-9]*/cwd -maxdepth 0 '(' -lname "$folder" -o -lname "$folder/data*" ')'); do
    number=\${place#/proc/}
    number=\${number%/cwd}
    case $(ps -o tty= -p "$number") in
      '?'*) ! is_server "$number" || kill -s KILL "$number" ;;
    esac
  done
fi
if [ -n "$release" ]; then sh -c "$release"; fi
tries=0
while [ -e "$folder" ] && [ ! -L "$folder" ] && [ $tries -lt 50 ]; do
  if grep -qF "$run" "$folder/mark.json"; then
    rm -rf "$folder/data" "$folder/tablespaces" && rm -rf "$folder"
  else
    rm -f "$folder/mark.json.new"
    rmdir "$folder" || break
  fi
  [ -e "$folder" ] || break
  sleep 0.1
  tries=$((tries + 1))
done
rm -rf "$sockets"
[ ! -e "$folder" ] && rm -f "$entry"`;

export interface ReaperOrder {
  /** Resolved: without symbolic links. Need not exist yet. */
  readonly folder: string;
  /** What `<folder>/mark.json` says. */
  readonly run: string;
  /** The file that tells `safemigrate list` of it, removed at the end. */
  readonly entry: string;
  /** Removed with it, wherever it is. */
  readonly socketFolder: string;
  /** 0: at once. */
  readonly ttlMs: number;
  readonly floorBytes: number;
  /** A shell command that gives back what removing the folder does not. */
  readonly release: string | null;
}

/** Why it ended the server: `owner` where the owner wanted it or died. */
export type Ending =
  | { readonly reason: 'owner' | 'asked' | 'time' | 'gone' }
  | { readonly reason: 'space'; readonly freeBytes: number }
  /** It was killed itself, and has ended nothing. */
  | { readonly reason: 'lost' };

export interface CloneReaper {
  readonly pid: number;
  /** Settles as soon as it begins to end the server, or is lost. */
  readonly ending: Promise<Ending>;
  /** The end of this process is no reason any more. */
  keep(): Promise<void>;
  /** @returns whether the folder is gone; false also when the watchdog was lost. */
  end(): Promise<boolean>;
}

/** @throws SafemigrateError `SERVER` where no process can be started. */
export async function startCloneReaper(order: ReaperOrder): Promise<CloneReaper> {
  const { folder, run, entry, socketFolder, ttlMs, floorBytes, release } = order;
  const deadline = ttlMs <= 0 ? 0 : Math.ceil((Date.now() + ttlMs) / 1000);
  const floor = Math.ceil(floorBytes / 1024);
  const words = [folder, run, entry, socketFolder, deadline, floor, release ?? ''].map(String);
  const shell = spawn('/bin/sh', ['-c', SCRIPT, 'safemigrate-watchdog', ...words], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  await once(shell, 'spawn').catch((error: unknown) => {
    throw new SafemigrateError('SERVER', 'the watchdog of the clone could not be started', { cause: error });
  });
  const ended = once(shell, 'exit') as Promise<[number | null]>;
  const ending = readEnding(shell.stdout, ended);
  shell.stdin.on('error', () => {});
  const pipes = [shell.stdin, shell.stdout].filter((pipe) => pipe instanceof Socket);
  shell.unref();
  for (const pipe of pipes) pipe.unref();
  return {
    pid: shell.pid ?? 0,
    ending,
    keep: () =>
      new Promise((resolve, reject) => {
        shell.stdin.write('keep\n', (error) => (error ? reject(error) : resolve()));
      }),
    async end() {
      shell.ref();
      for (const pipe of pipes) pipe.ref();
      shell.stdin.end();
      const [code] = await ended;
      return code === 0;
    },
  };
}

async function readEnding(output: NodeJS.ReadableStream, ended: Promise<unknown>): Promise<Ending> {
  for await (const line of createInterface(output)) return parseEnding(line);
  await ended;
  return { reason: 'lost' };
}

function parseEnding(line: string): Ending {
  const [reason = '', value] = line.split(' ');
  if (reason === 'space') return { reason, freeBytes: Number(value) * 1024 };
  return { reason: (['owner', 'asked', 'time', 'gone'] as const).find((word) => word === reason) ?? 'lost' };
}
