import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readEntries, registryFolder } from '../../src/ownership/folder-records.ts';
import { PROGRAM, plainEnvironment, safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { until } from '../helpers/cutting.ts';
import { type LoopFileSystem, loopFileSystem } from '../helpers/file-system.ts';
import { fillForLoad, type Load, pgbenchObstacle, startLoad } from '../helpers/pgbench.ts';
import { type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { EVERYTHING, inThisShare } from '../helpers/share.ts';
import { cannotUpgrade, NEW, OLD } from '../helpers/upgrading.ts';

const run = promisify(execFile);
const MB = 2 ** 20;
/** pg_upgrade and initdb take seconds of processor time before some phases. */
const PHASE_MS = 60_000;

/** A command that does not return, and as ps shows it. */
const SLEEPING_IN_SHELL = `psql -X "$DATABASE_URL" -c 'SELECT pg_sleep(600)'`;
const SLEEPING = /psql -X \S+ -c SELECT pg_sleep\(600\)$/;

const missing = cannotUpgrade || skipReason(await pgbenchObstacle());

describe.skipIf(missing)('the rehearsal of an upgrade', { timeout: 2 * PHASE_MS }, () => {
  let disk: LoopFileSystem;
  let server: PlacedServer;
  let load: Load;
  /** Of the rehearsal at hand. */
  let audit: string;
  /** When each test began and ended: in each the target has to have worked. */
  const windows: { from: number; to: number }[] = [];

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 1024 * MB);
    const settings = { max_wal_size: '64MB', min_wal_size: '32MB' };
    server = await placedServer(15, { parent: disk.folder, programs: OLD.programs, settings });
    await fillForLoad(server.url, 1);
    load = await startLoad(server.url, 2, 50);
  }, PHASE_MS);
  afterAll(async () => {
    await load?.end();
    await server?.stop();
    await disk?.destroy();
  });
  beforeEach(async () => {
    audit = path.join(temporaryFolder(), 'audit');
    windows.push({ from: Date.now(), to: Number.NaN });
  });
  afterEach(async () => {
    await until('nothing is left', async () => (await folders()).length + (await entries()).length === 0);
    await until('nothing runs there', async () => (await running()).length === 0);
    const window = windows.at(-1);
    if (window) window.to = Date.now();
  });

  const folders = async () =>
    (await readdir(server.folder)).filter((name) => name.startsWith('safemigrate_'));
  const entries = () => readdir(registryFolder()).catch((): string[] => []);
  async function processes(): Promise<string[]> {
    const { stdout } = await run('ps', ['-eo', 'args=']);
    return stdout.split('\n');
  }
  const running = async () =>
    (await processes()).filter(
      (line) => line.includes(`${server.folder}/safemigrate_`) || SLEEPING.test(line),
    );
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
  /** The last statement of safemigrate's own is the check that does not return. */
  const checks = async () =>
    (await readFile(audit, 'utf8').catch(() => '')).trimEnd().split('\n').at(-1)?.includes('FETCH') === true;

  /** The command has sent its statement to the upgraded server. */
  const sleeps = async () => {
    const lines = await processes();
    const isServed = lines.some((line) => /^postgres: safemigrate .* SELECT$/.test(line));
    return isServed && lines.some((line) => SLEEPING.test(line));
  };

  function rehearsal(more: readonly string[] = []): ChildProcess {
    const words = ['upgrade', '--to', '18', '--url', server.url, '--new-bin', NEW.programs];
    return spawn(PROGRAM[0], [...PROGRAM.slice(1), ...words, '--audit', audit, ...more], {
      env: plainEnvironment(),
      stdio: 'ignore',
    });
  }

  async function kill(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
    const exited = once(child, 'exit') as Promise<[number | null]>;
    child.kill(signal);
    return (await exited)[0];
  }

  const check = (versions: string) => [
    '--check',
    `SELECT CASE WHEN current_setting('server_version_num')::int ${versions} THEN pg_sleep(50) END`,
  ];
  const PHASES: [what: string, condition: () => Promise<boolean>, words?: readonly string[]][] = [
    ['the cluster is copied', reached('data')],
    ['the copy recovers', reached('data/postmaster.pid')],
    ['the old version is asked', checks, check('< 180000')],
    ['the new cluster is made', reached('new')],
    ['pg_upgrade checks', reached('new/pg_upgrade_output.d')],
    ['the clusters are copied for a mode', reached('copy/old')],
    ['pg_upgrade works', reached('copy/new/pg_upgrade_output.d')],
    ['the statistics are made', works('vacuumdb')],
    [
      'the command that belongs to the upgrade works',
      sleeps,
      ['--queries', 'off', '--', 'sh', '-c', `exec ${SLEEPING_IN_SHELL}`],
    ],
    [
      'the new version is asked',
      async () => (await checks()) && (await reached('copy/new.log')()),
      check('>= 180000'),
    ],
    ['another mode is tried', reached('link/new/pg_upgrade_output.d')],
  ];

  // One way for each phase, in turn: what is left depends on the phase, and who removes it does not.
  const share = inThisShare(PHASES, (phase) => PHASES.indexOf(phase) % 2);
  const inTurn = (own: number) => share.filter((phase) => EVERYTHING || PHASES.indexOf(phase) % 2 === own);

  test.each(inTurn(0))('leaves nothing if the tool is killed while %s', async (what, condition, words) => {
    const child = rehearsal(words);
    await until(what, condition, PHASE_MS);
    await kill(child, 'SIGKILL');
  });

  test.each(inTurn(1))(
    'is removed by clean if tool and watchdog are killed while %s',
    async (what, condition, words) => {
      const child = rehearsal(words);
      await until(what, condition, PHASE_MS);
      const [entry] = await readEntries();
      if (!entry || 'unreadable' in entry || !entry.watchdog) throw new Error('a rehearsal has an entry');
      process.kill(entry.watchdog.pid, 'SIGSTOP');
      await kill(child, 'SIGKILL');
      process.kill(entry.watchdog.pid, 'SIGKILL');
      const stdout = expect.stringContaining(`removed ${entry.folder}\n`);
      expect(await safemigrate(['clean'])).toMatchObject({ exitCode: 0, stdout, stderr: '' });
    },
  );

  test('leaves nothing when it is interrupted', async () => {
    const child = rehearsal();
    await until('pg_upgrade works', reached('copy/new/pg_upgrade_output.d'), PHASE_MS);
    expect(await kill(child, 'SIGINT')).toBe(130);
    expect(await folders()).toEqual([]);
  });

  test('has failed no transaction of the target, which worked all the time', async () => {
    const { transactions, errors } = await load.end();
    expect(errors).toBe('');
    for (const { from, to } of windows.slice(0, -1))
      expect(transactions.filter(({ at }) => at >= from && at <= to).length).toBeGreaterThan(0);
  });
});
