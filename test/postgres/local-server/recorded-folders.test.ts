import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdir,
  mkdtemp,
  readdir,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startCloneReaper } from '../../../src/local-server/clone-reaper.ts';
import { cleanFolders, recordedFolders } from '../../../src/local-server/recorded-folders.ts';
import type { FolderMark } from '../../../src/ownership/folder-records.ts';
import {
  entryFile,
  type FolderEntry,
  registryFolder,
  writeEntry,
} from '../../../src/ownership/folder-records.ts';
import { livenessOf, ourStamp, type ProcessStamp, stampOf } from '../../../src/ownership/process-stamp.ts';
import { newRunId } from '../../../src/ownership/run-id.ts';
import { until } from '../../helpers/cutting.ts';

let parent: string;
let dead: ProcessStamp;

beforeEach(async () => {
  parent = await realpath(await mkdtemp(path.join(tmpdir(), 'folders-')));
  dead = { ...(await ourStamp()), started: '1' };
});
afterEach(async () => {
  await rm(parent, { recursive: true });
  await rm(registryFolder(), { recursive: true, force: true });
});

const isDead = (each: Awaited<ReturnType<typeof recordedFolders>>[number]) =>
  'state' in each && each.state === 'dead';

interface Changes {
  readonly entry?: Partial<FolderEntry>;
  readonly mark?: (mark: FolderMark) => object;
  readonly unmarked?: true;
}

/** What a run has left: an entry, and a folder with its mark and something in it. */
async function left({ entry, mark = (same) => same, unmarked }: Changes = {}): Promise<FolderEntry> {
  const run = newRunId();
  const folder = path.join(parent, `safemigrate_${run}`);
  const written: FolderEntry = {
    version: 1,
    run,
    holds: 'clone',
    folder,
    socketFolder: path.join(folder, 'socket'),
    target: 'localhost:5432/shop',
    endsAt: new Date().toISOString(),
    kept: false,
    owner: dead,
    watchdog: dead,
    release: null,
    ...entry,
  };
  await writeEntry(written);
  await mkdir(path.join(folder, 'data'), { recursive: true });
  await writeFile(path.join(folder, 'data', 'PG_VERSION'), '18');
  const made: FolderMark = {
    version: 1,
    run,
    at: { path: folder, inode: String((await stat(folder)).ino) },
  };
  const text = JSON.stringify(mark(made));
  if (!unmarked) await writeFile(path.join(folder, 'mark.json'), text);
  return written;
}

const states = async () =>
  (await recordedFolders()).map((found) => ('unreadable' in found ? 'unreadable' : found.state));

async function stays({ folder }: FolderEntry, reason: RegExp): Promise<void> {
  const { removed, left: stayed, failed } = await cleanFolders({ kept: false });
  expect(removed).toEqual([]);
  expect([...stayed, ...failed]).toEqual([{ name: folder, reason: expect.stringMatching(reason) }]);
  expect(await readdir(registryFolder())).toHaveLength(1);
}

test('what a dead run left is removed, with its entry', async () => {
  const { folder } = await left();
  expect(await states()).toEqual(['dead']);
  expect(await cleanFolders({ kept: false })).toEqual({ removed: [folder], left: [], failed: [] });
  expect(await readdir(parent)).toEqual([]);
  expect(await readdir(registryFolder())).toEqual([]);
});

test('an entry whose folder is gone is dropped without a word', async () => {
  const { folder } = await left();
  await rm(folder, { recursive: true });
  expect(await cleanFolders({ kept: false })).toEqual({ removed: [], left: [], failed: [] });
  expect(await readdir(registryFolder())).toEqual([]);
});

test('a folder that was made and not marked yet is removed while it is empty, and stays when it is not', async () => {
  const first = await left({ unmarked: true });
  await stays(first, /no mark/);
  await rm(path.join(first.folder, 'data'), { recursive: true });
  await writeFile(path.join(first.folder, 'mark.json.new'), '{');
  expect((await cleanFolders({ kept: false })).removed).toEqual([first.folder]);
});

test('a folder of a run that is alive stays', async () => {
  await stays(await left({ entry: { owner: await ourStamp() } }), /alive/);
});

test('a folder whose watchdog is alive stays, for that removes it', async () => {
  await stays(await left({ entry: { watchdog: await ourStamp() } }), /alive/);
});

test('a folder of a run that lives where nobody can look stays', async () => {
  const elsewhere = { ...dead, world: 'pid:[1]' };
  await stays(await left({ entry: { owner: elsewhere } }), /cannot be seen/);
  await rm(registryFolder(), { recursive: true });
  await stays(await left({ entry: { owner: { ...dead, machine: 'another' } } }), /cannot be seen/);
});

test('a kept folder stays until it is asked for, whether its watchdog lives or not', async () => {
  for (const watchdog of [dead, await ourStamp()]) {
    const kept = await left({ entry: { kept: true, watchdog } });
    await stays(kept, /--kept/);
    expect((await cleanFolders({ kept: true })).removed).toEqual([kept.folder]);
  }
});

test.each<[string, Changes, RegExp]>([
  ['of another run', { mark: (mark) => ({ ...mark, run: newRunId() }) }, /mark is that of run/],
  ['of another place', { mark: (mark) => ({ ...mark, at: { ...mark.at, path: '/' } }) }, /another place/],
  ['of another folder', { mark: (mark) => ({ ...mark, at: { ...mark.at, inode: '1' } }) }, /another folder/],
  ['of a newer version', { mark: (mark) => ({ ...mark, version: 2 }) }, /cannot be read/],
])('a folder with a mark %s stays', async (_, changes, reason) => {
  await stays(await left(changes), reason);
  expect(await readdir(parent)).toHaveLength(1);
});

test('a folder in whose place a link stands is not followed', async () => {
  const entry = await left();
  const moved = path.join(parent, 'precious');
  await rename(entry.folder, moved);
  await symlink(moved, entry.folder);
  await stays(entry, /no folder/);
  expect(await readdir(moved)).toContain('data');
});

test('an entry that names something else than one of our folders removes nothing', async () => {
  const entry = await left();
  await writeEntry({ ...entry, folder: parent });
  const { failed } = await cleanFolders({ kept: false });
  expect(failed).toEqual([{ name: parent, reason: expect.stringContaining('its name is not') }]);
});

test('an entry that cannot be read is listed, and stays', async () => {
  const { run } = await left();
  await writeFile(path.join(registryFolder(), `${run}.json`), '{');
  expect(await states()).toEqual(['unreadable']);
  expect((await cleanFolders({ kept: false })).left).toMatchObject([
    { reason: expect.stringContaining('read') },
  ]);
});

test('an entry whose writing was cut off is dropped, once it cannot be written any more', async () => {
  const { run } = await left();
  const file = path.join(registryFolder(), `${run}.json`);
  await writeFile(file, '');
  expect((await cleanFolders({ kept: false })).left).toHaveLength(1);
  await utimes(file, new Date(0), new Date(0));
  expect(await cleanFolders({ kept: false })).toEqual({ removed: [], left: [], failed: [] });
  expect(await readdir(registryFolder())).toEqual([]);
});

/** A process that works in the folder is the server, one that does not has only got its number. */
test('the process that a folder names is ended only when it works in that folder', async () => {
  const processIn = (cwd: string) => spawn('sleep', ['60'], { cwd });
  const ended = async (child: ChildProcess) => {
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    return child.signalCode;
  };
  const first = await left();
  const server = processIn(path.join(first.folder, 'data'));
  await writeFile(path.join(first.folder, 'server.pid'), `${server.pid}\n`);
  expect((await cleanFolders({ kept: false })).removed).toEqual([first.folder]);
  expect(await ended(server)).toMatch(/SIGQUIT|SIGKILL/);

  const second = await left();
  const stranger = processIn(parent);
  await writeFile(path.join(second.folder, 'server.pid'), `${stranger.pid}\n`);
  expect((await cleanFolders({ kept: false })).removed).toEqual([second.folder]);
  expect(stranger.signalCode).toBeNull();
  stranger.kill('SIGKILL');
  expect(await ended(stranger)).toBe('SIGKILL');
});

test('a process is alive under its number and start time, and dead when it has ended', async () => {
  const child = spawn('sleep', ['60']);
  await once(child, 'spawn');
  const stamp = await stampOf(child.pid ?? 0);
  if (!stamp) throw new Error('a process that runs has a stamp');
  expect(await livenessOf(stamp)).toBe('alive');
  expect(await livenessOf({ ...stamp, started: `${stamp.started}0` })).toBe('dead');
  expect(await livenessOf({ ...stamp, boot: 'before', world: 'another' })).toBe('dead');
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(await livenessOf(stamp)).toBe('dead');
});

test('the watchdog of a clone that was dropped between two of its looks ends', async () => {
  const { folder, run, socketFolder } = { ...(await left()), folder: path.join(parent, 'never-seen') };
  const reaper = await startCloneReaper({
    folder,
    run,
    socketFolder,
    ttlMs: 3_600_000,
    floorBytes: 0,
    release: null,
  });
  await reaper.keep();
  await until(
    'it has looked',
    async () => spawnSync('pgrep', ['-P', String(reaper.pid), '-x', 'sleep']).status === 0,
  );
  await rm(entryFile(run));
  expect(await reaper.ending).toEqual({ reason: 'gone' });
  expect(await reaper.end('gone')).toBe('gone');
});

test('what removes a large clone goes on after its run, and clean does it if that is killed', async () => {
  const entry = await left();
  const { folder, run, socketFolder } = entry;
  const reaper = await startCloneReaper({
    folder,
    run,
    socketFolder,
    ttlMs: 3_600_000,
    floorBytes: 0,
    // It comes between the end of the server and the removal.
    release: 'sleep 3600',
  });
  await writeEntry({ ...entry, watchdog: (await stampOf(reaper.pid)) ?? null });
  expect(await reaper.end('stopped')).toBe('removing');
  expect(await cleanFolders({ kept: false })).toMatchObject({
    removed: [],
    left: [{ name: folder }],
    failed: [],
  });
  await stat(folder);
  process.kill(-reaper.pid, 'SIGKILL');
  await until('the reaper is dead', async () => (await recordedFolders()).some(isDead));
  expect(await cleanFolders({ kept: false })).toMatchObject({ removed: [folder], failed: [] });
  await expect(stat(folder)).rejects.toThrow('ENOENT');
});

test('what cannot be released stays on record, with its folder, until it can', async () => {
  const free = path.join(parent, 'free');
  const { folder } = await left({ entry: { release: `[ -e '${free}' ]` } });
  expect(await cleanFolders({ kept: false })).toMatchObject({ removed: [], failed: [{ name: folder }] });
  await stat(path.join(folder, 'data', 'PG_VERSION'));
  await writeFile(free, '');
  expect(await cleanFolders({ kept: false })).toMatchObject({ removed: [folder], failed: [] });
});
