import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { Server } from '../../src/local-server/embedded.ts';
import { readEntries, registryFolder } from '../../src/ownership/folder-records.ts';
import { PROGRAM, plainEnvironment, safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { until } from '../helpers/cutting.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { ownServer } from '../helpers/own-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { inThisShare } from '../helpers/share.ts';

const run = promisify(execFile);
const MB = 2 ** 20;
const MARK = `-- of ${process.pid}`;
const skipped = skipReason(await loopFileSystemObstacle('xfs'));

/** The original and its clone share a file system of which a tenth is the floor. */
describe.skipIf(skipped)('a clone on a server of its own', () => {
  let disk: LoopFileSystem;
  let server: Server;
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 700 * MB);
    server = await ownServer(18, {
      parent: disk.folder,
      settings: { max_wal_size: '64MB', min_wal_size: '32MB' },
    });
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    env = { DATABASE_URL: changedUrl(server.url, { database: 'shop' }) };
    await withClient(env.DATABASE_URL ?? '', (client) =>
      client.query('CREATE TABLE items AS SELECT 1 AS id'),
    );
  });
  afterAll(async () => {
    await server.stop();
    await disk.destroy();
  });
  afterEach(async () => {
    await expectNothingLeft();
    await withClient(server.url, (client) => client.query('CHECKPOINT'));
  });

  const folders = async () =>
    (await readdir(server.folder)).filter((name) => name.startsWith('safemigrate_'));
  const entries = () => readdir(registryFolder()).catch((): string[] => []);

  async function expectNothingLeft(): Promise<void> {
    await until('nothing is left', async () => (await folders()).length + (await entries()).length === 0);
    await until('its server is gone', async () => (await clonesRunning()).length === 0);
  }

  async function clonesRunning(): Promise<string[]> {
    const { stdout } = await run('ps', ['-eo', 'args=']);
    return stdout.split('\n').filter((line) => line.includes(`${server.folder}/safemigrate_`));
  }

  const SLEEP = sqlCommand(`SELECT pg_sleep(60) ${MARK}`);

  function rehearsal(): ChildProcess {
    return spawn(PROGRAM[0], [...PROGRAM.slice(1), '--clone', 'cluster', '--', ...SLEEP], {
      env: { ...plainEnvironment(), ...env },
      stdio: 'ignore',
    });
  }

  async function kill(child: ChildProcess): Promise<void> {
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  const reached = (name: string) => async () => {
    const [folder] = await folders();
    if (folder === undefined) return false;
    const place = path.join(server.folder, folder, name);
    return readFile(place).then(
      () => true,
      (error: NodeJS.ErrnoException) => error.code === 'EISDIR',
    );
  };
  const commandRuns = async () => {
    const { stdout } = await run('ps', ['-eo', 'args=']);
    return stdout.split('\n').some((line) => /^\S+ \S+run-sql\.mjs /.test(line) && line.endsWith(MARK));
  };

  const STAGES: [string, () => Promise<boolean>][] = [
    ['when its folder is recorded', async () => (await readEntries()).some((entry) => 'run' in entry)],
    ['when its folder is made', reached('mark.json')],
    ['while it is copied', reached('data')],
    ['while its server starts', reached('data/postmaster.pid')],
    ['while the command runs', commandRuns],
  ];

  test.each(inThisShare(STAGES))('goes with a tool that is killed %s', async (what, condition) => {
    const child = rehearsal();
    await until(what, condition);
    await kill(child);
    // An entry without a watchdog yet is for clean.
    if ((await entries()).length > 0 && (await folders()).length === 0) await safemigrate(['clean']);
    await expectNothingLeft();
    await withClient(server.url, (client) => client.query('SELECT 1'));
  });

  /** Neither of them sees the other go. */
  async function killedWithItsWatchdog() {
    const child = rehearsal();
    await until('the command runs', commandRuns);
    const [entry] = await readEntries();
    if (!entry || 'unreadable' in entry || !entry.watchdog) throw new Error('a clone that runs has an entry');
    process.kill(entry.watchdog.pid, 'SIGSTOP');
    await kill(child);
    process.kill(entry.watchdog.pid, 'SIGKILL');
    return entry;
  }

  test('is found and removed by clean when its watchdog was killed with the tool', async () => {
    const entry = await killedWithItsWatchdog();

    const list = await safemigrate(['list', '--format', 'json']);
    expect(JSON.parse(list.stdout)).toMatchObject([{ folder: entry.folder, owning: 'dead', present: true }]);
    expect(await clonesRunning()).not.toEqual([]);
    const clean = await safemigrate(['clean']);
    // The empty cgroup of the killed run goes as well.
    const stdout = expect.stringContaining(`removed ${entry.folder}\n`);
    expect(clean).toMatchObject({ exitCode: 0, stdout, stderr: '' });
  });

  test('whose folder somebody removed by hand, after tool and watchdog were killed, is ended by clean', async () => {
    const entry = await killedWithItsWatchdog();
    await rm(entry.folder, { recursive: true });
    expect(await clonesRunning()).not.toEqual([]);
    expect(await safemigrate(['clean'])).toMatchObject({ exitCode: 0, stderr: '' });
    expect(await clonesRunning()).toEqual([]);
  });

  test('ends with the run if only its watchdog was killed, and nothing is left', async () => {
    const running = safemigrate(['--clone', 'cluster', '--', ...SLEEP], { env });
    await until('the command runs', commandRuns);
    const [entry] = await readEntries();
    if (!entry || 'unreadable' in entry || !entry.watchdog) throw new Error('a clone that runs has an entry');
    process.kill(entry.watchdog.pid, 'SIGKILL');
    const { exitCode, stderr } = await running;
    expect({ exitCode, stderr }).toEqual({
      exitCode: 3,
      stderr: expect.stringContaining('its watchdog was lost'),
    });
  });

  test('ends when the disk fills up, with the reason, and the original goes on', async () => {
    const filler = path.join(disk.folder, 'filler');
    const running = safemigrate(['--clone', 'cluster', '--', ...SLEEP], { env });
    await until('the command runs', commandRuns);
    const { stdout } = await run('df', ['-Pk', disk.folder]);
    const freeKb = Number(stdout.split('\n')[1]?.split(/\s+/)[3]);
    await run('fallocate', ['-l', `${freeKb - 40 * 1024}K`, filler]);
    const { exitCode, stderr } = await running;
    expect({ exitCode, stderr }).toEqual({
      exitCode: 3,
      stderr: expect.stringMatching(/The clone was ended: free space on .* fell to .* MB, below \d\d MB/),
    });
    await withClient(server.url, (client) => client.query('CREATE TABLE lives AS SELECT 1'));
    await withClient(server.url, (client) => client.query('DROP TABLE lives'));
    await run('rm', [filler]);
  });

  test('ends when its time is up, with the reason', async () => {
    const { exitCode, stderr } = await safemigrate(['--clone', 'cluster', '--', ...SLEEP], {
      env: { ...env, SAFEMIGRATE_CLONE_TTL: '4s' },
    });
    expect({ exitCode, stderr }).toEqual({
      exitCode: 3,
      stderr: expect.stringContaining('The clone was ended: its time was up.'),
    });
  });

  test('that was kept outlives the tool, is left by clean, and goes with clean --kept', async () => {
    const command = sqlCommand('CREATE TABLE jobs (id int)');
    const kept = await safemigrate(['--clone', 'cluster', '--keep', '--', ...command], { env });
    expect(kept).toMatchObject({
      exitCode: 0,
      stderr: expect.stringMatching(/psql "host=\S+ port=5432 dbname=shop"/),
    });
    const [row] = z
      .array(z.object({ folder: z.string(), kept: z.boolean(), owning: z.string() }))
      .parse(JSON.parse((await safemigrate(['list', '--format', 'json'])).stdout));
    expect(row).toMatchObject({ kept: true, owning: 'kept' });
    expect((await safemigrate(['list'])).stdout).toMatch(
      /kept clone of 127\.0\.0\.1:\d+\/shop .* in \d h|min/,
    );
    expect((await safemigrate(['clean'])).stdout).toMatch(/^left +\/.*clean --kept/m);
    expect(await clonesRunning()).not.toEqual([]);
    expect((await safemigrate(['clean', '--kept'])).stdout).toContain(`removed ${row?.folder}\n`);
  });
});
