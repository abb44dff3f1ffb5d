import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { codeOf } from '../errors.ts';

/**
 * A control group (cgroup v2) of one run of the command: everything that its processes fork belongs to it, however they do that. It is
 * made below our own, so that the limits of that hold; root may do so, and users to whom theirs is delegated.
 */
export type CommandCgroup = ReturnType<typeof cgroupIn>;

const PREFIX = 'safemigrate-command-';
/** A name with the id of the process that made it. */
const MAKER = new RegExp(`^${PREFIX}(\\d+)-`);
const PROCESSES = 'cgroup.procs';
/** Content of cgroup.procs that stands for the process that writes it. */
const ITSELF = '0';
/** Another file system may cover the kernel's. */
const ONLY_IF_THERE = { flag: 'r+' };

/**
 * Starts a process in a cgroup of its own; in ours if there is no cgroup v2, or none may be made. Our process enters the cgroup for
 * that moment: what it forks then begins there.
 * @param spawn must fork before it returns.
 */
export function startInCgroup<T>(spawn: () => T): { started: T; cgroup: CommandCgroup | undefined } {
  const parent = ownCgroup();
  if (parent !== undefined) removeThoseOfKilled(parent);
  const folder = parent === undefined ? undefined : enterNewBelow(parent);
  if (parent === undefined || folder === undefined) return { started: spawn(), cgroup: undefined };
  const cgroup = cgroupIn(folder, parent);
  try {
    return { started: spawn(), cgroup };
  } catch (error) {
    cgroup.dissolve();
    throw error;
  } finally {
    enter(parent);
  }
}

/** Removes the empty groups beside ours of runs that were killed and could not do it themselves. */
function removeThoseOfKilled(parent: string): void {
  try {
    for (const folder of foldersIn(parent)) {
      const [, pid] = MAKER.exec(path.basename(folder)) ?? [];
      // Whoever is about to enter a new group still lives.
      if (pid !== undefined && !lives(Number(pid)) && pidsBelow(folder).length === 0) removeIfEmpty(folder);
    }
  } catch {
    // What cannot be listed is not ours.
  }
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) !== 'ESRCH';
  }
}

/** @returns undefined if it may not be done: whoever may make a group may still not put processes into it. */
function enterNewBelow(parent: string): string | undefined {
  const folder = path.join(parent, `${PREFIX}${process.pid}-${randomBytes(4).toString('hex')}`);
  try {
    mkdirSync(folder);
    enter(folder);
    return folder;
  } catch {
    removeIfEmpty(folder);
    return undefined;
  }
}

function cgroupIn(folder: string, parent: string) {
  return {
    /** Ids of the processes in it. */
    pids: () => pidsBelow(folder),
    /** Removes it; processes that still live go to our own. */
    dissolve() {
      // Processes that fork while they are moved leave children behind: these are moved in a further round.
      for (let round = 0; round < 5 && !removeIfEmpty(folder); round++) moveAll(pidsBelow(folder), parent);
    },
  };
}

function enter(folder: string): void {
  writeFileSync(path.join(folder, PROCESSES), ITSELF, ONLY_IF_THERE);
}

function moveAll(pids: readonly number[], folder: string): void {
  for (const pid of pids) {
    try {
      writeFileSync(path.join(folder, PROCESSES), String(pid), ONLY_IF_THERE);
    } catch {
      // It has ended.
    }
  }
}

function pidsBelow(folder: string): number[] {
  try {
    const own = readFileSync(path.join(folder, PROCESSES), 'utf8').split('\n').filter(Boolean).map(Number);
    return [...own, ...foldersIn(folder).flatMap(pidsBelow)];
  } catch {
    return [];
  }
}

/** The command may have made groups in it. */
function removeIfEmpty(folder: string): boolean {
  try {
    for (const inner of foldersIn(folder)) removeIfEmpty(inner);
    rmdirSync(folder);
    return true;
  } catch {
    // The kernel keeps a group with processes.
    return false;
  }
}

function foldersIn(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => path.join(folder, name));
}

/** The folder of the cgroup that we are in. */
function ownCgroup(): string | undefined {
  const mount = unifiedMount();
  if (mount === undefined) return undefined;
  const own = /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/';
  return path.join(mount.folder, path.relative(mount.root, own));
}

/** The place at which cgroup v2 is mounted, and the group that is seen there; beside those of v1 in a folder of its own. */
function unifiedMount(): { folder: string; root: string } | undefined {
  if (process.platform !== 'linux') return undefined;
  const line = /^\d+ \d+ \S+ (\S+) (\S+) .* - cgroup2 /m.exec(readFileSync('/proc/self/mountinfo', 'utf8'));
  return line?.[1] && line[2] ? { root: line[1], folder: line[2] } : undefined;
}

/** Removes the groups of dead runs: a living one has processes in it. @returns their folders. */
export function removeEmptyCgroups(): string[] {
  const mount = unifiedMount();
  return mount ? emptyBelow(mount.folder) : [];
}

function emptyBelow(folder: string): string[] {
  try {
    return foldersIn(folder).flatMap((inner) => {
      if (!path.basename(inner).startsWith(PREFIX)) return emptyBelow(inner);
      return pidsBelow(inner).length === 0 && removeIfEmpty(inner) ? [inner] : [];
    });
  } catch {
    return [];
  }
}
