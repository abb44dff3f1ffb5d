import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { readEntries, registryFolder } from '../../src/ownership/folder-records.ts';
import { CLI, plainEnvironment, safemigrate } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { debianPrograms, type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { makeAccounts, startTransfers } from '../helpers/transfers.ts';
import { upgradePrograms } from '../helpers/upgrade-programs.ts';

const run = promisify(execFile);
const MB = 2 ** 20;
/** pg_upgrade and initdb take seconds of processor time before some phases. */
const PHASE_MS = 60_000;

const old = await debianPrograms(15);
const installed = await upgradePrograms(18);
const missing = skipReason(old.obstacle ?? installed.obstacle ?? (await loopFileSystemObstacle('xfs')));

describe.skipIf(missing)('the rehearsal of an upgrade', { timeout: 2 * PHASE_MS }, () => {
  let disk: LoopFileSystem;
  let server: PlacedServer;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 1024 * MB);
    const settings = { max_wal_size: '64MB', min_wal_size: '32MB' };
    server = await placedServer(15, { parent: disk.folder, programs: old.programs, settings });
    await withClient(server.url, (client) =>
      client.query(
        `CREATE TABLE items AS SELECT i AS id, repeat('x', 100) AS filler FROM generate_series(1, 20000) i`,
      ),
    );
  });
  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  });
  afterEach(async () => {
    await until('nothing is left', async () => (await folders()).length + (await entries()).length === 0);
    await until('nothing runs there', async () => (await running()).length === 0);
    await withClient(server.url, (client) => client.query('INSERT INTO items VALUES (0)'));
  });

  const folders = async () =>
    (await readdir(server.folder)).filter((name) => name.startsWith('safemigrate_'));
  const entries = () => readdir(registryFolder()).catch((): string[] => []);
  async function running(): Promise<string[]> {
    const { stdout } = await run('ps', ['-eo', 'args=']);
    return stdout.split('\n').filter((line) => line.includes(`${server.folder}/safemigrate_`));
  }
  const reached = (name: string) => async () => {
    const [folder] = await folders();
    if (folder === undefined) return false;
    return access(path.join(server.folder, folder, name)).then(
      () => true,
      () => false,
    );
  };
  const works = (program: string) => async () =>
    (await running()).some((line) => line.includes(`/${program} `));

  function rehearsal(): ChildProcess {
    const words = ['upgrade', '--to', '18', '--url', server.url, '--new-bin', installed.programs];
    return spawn(process.execPath, [CLI, ...words], { env: plainEnvironment(), stdio: 'ignore' });
  }

  async function kill(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
    const exited = once(child, 'exit') as Promise<[number | null]>;
    child.kill(signal);
    return (await exited)[0];
  }

  const PHASES: [string, () => Promise<boolean>][] = [
    ['the cluster is copied', reached('data')],
    ['the copy recovers', reached('data/postmaster.pid')],
    ['the new cluster is made', reached('new')],
    ['pg_upgrade checks', reached('new/pg_upgrade_output.d')],
    ['pg_upgrade works', reached('copy/new/pg_upgrade_output.d')],
    ['the statistics are made', works('vacuumdb')],
  ];

  test.each(PHASES)('goes with a tool that is killed while %s', async (what, condition) => {
    const child = rehearsal();
    await until(what, condition, PHASE_MS);
    await kill(child, 'SIGKILL');
  });

  test('is removed by clean when tool and watchdog were killed while pg_upgrade works', async () => {
    const child = rehearsal();
    await until('pg_upgrade works', reached('link/new/pg_upgrade_output.d'), PHASE_MS);
    const [entry] = await readEntries();
    if (!entry || 'unreadable' in entry || !entry.watchdog) throw new Error('a rehearsal has an entry');
    process.kill(entry.watchdog.pid, 'SIGSTOP');
    await kill(child, 'SIGKILL');
    process.kill(entry.watchdog.pid, 'SIGKILL');
    const stdout = expect.stringContaining(`removed ${entry.folder}\n`);
    expect(await safemigrate(['clean'])).toMatchObject({ exitCode: 0, stdout, stderr: '' });
  });

  test('fails no transaction of the target when it is killed', async () => {
    await makeAccounts(server.url);
    const transfers = await startTransfers(server.url, 2);
    try {
      const child = rehearsal();
      await until('pg_upgrade works', reached('copy/new/pg_upgrade_output.d'), PHASE_MS);
      await kill(child, 'SIGKILL');
      await until('nothing is left', async () => (await folders()).length + (await entries()).length === 0);
    } finally {
      const { failed, committed } = await transfers.end();
      expect(failed).toBe(0);
      expect(committed).toBeGreaterThan(0);
    }
  });

  test('leaves nothing when it is interrupted', async () => {
    const child = rehearsal();
    await until('pg_upgrade works', reached('copy/new/pg_upgrade_output.d'), PHASE_MS);
    expect(await kill(child, 'SIGINT')).toBe(130);
    expect(await folders()).toEqual([]);
  });
});
