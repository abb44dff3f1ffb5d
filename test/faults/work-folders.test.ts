import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import type { FolderEntry } from '../../src/ownership/folder-records.ts';
import { identifier } from '../../src/postgres/sql/quote.ts';
import { safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { withoutClientPrograms } from '../helpers/client-programs.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { useOwnServers } from '../helpers/servers.ts';

const skip = await withoutClientPrograms('pg_dump', 'pg_restore', 'psql');

/** What a run that is killed together with the guards of its folders leaves is found by its record. */
describe.skipIf(skip)('where the guard of a folder is killed as well', () => {
  beforeAll(() => useOwnServers(15));

  /** A folder for temporary files, which a server of another user may enter too, and a state folder. */
  function place() {
    const folder = temporaryFolder();
    chmodSync(folder, 0o755);
    return { TMPDIR: folder, XDG_STATE_HOME: temporaryFolder() };
  }

  function entriesIn({ XDG_STATE_HOME }: ReturnType<typeof place>): FolderEntry[] {
    const registry = path.join(XDG_STATE_HOME, 'safemigrate', 'clones');
    if (!existsSync(registry)) return [];
    return readdirSync(registry).flatMap((name) => {
      const last = readFileSync(path.join(registry, name), 'utf8').trimEnd().split('\n').at(-1);
      // It is there before anything is written in it.
      return last ? [JSON.parse(last)] : [];
    });
  }

  /** The run and its guards, the guards first: none of them is to see the others go. */
  async function killedWithItsGuards(
    args: readonly string[],
    env: ReturnType<typeof place> & NodeJS.ProcessEnv,
    reached: () => Promise<boolean>,
  ): Promise<FolderEntry[]> {
    let pid = 0;
    const killed = safemigrate(args, { env, started: (child) => (pid = child) });
    while (!(await reached())) await delay(5);
    const entries = entriesIn(env);
    for (const { watchdog } of entries) process.kill(watchdog?.pid ?? Number.NaN, 'SIGKILL');
    process.kill(pid, 'SIGKILL');
    expect((await killed).signal).toBe('SIGKILL');
    return entries;
  }

  async function expectFoundAndRemoved(
    env: ReturnType<typeof place>,
    [entry]: FolderEntry[],
    told: string,
  ): Promise<void> {
    const folder = entry?.folder ?? '';
    expect(readdirSync(env.TMPDIR)).toContain(path.basename(folder));
    const { stdout } = await safemigrate(['list'], { env });
    expect(stdout).toContain(`${folder}  ${told}`);
    expect(stdout).toMatch(/with its run$/m);
    const cleaned = await safemigrate(['clean'], { env });
    expect(cleaned).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`removed ${folder}\n`) });
    expect(existsSync(folder)).toBe(false);
    expect(entriesIn(env)).toEqual([]);
    expect(processesIn(folder)).toEqual([]);
  }

  /** A command that says that it has begun, and ends with its parent. */
  const waiting = (begun: string) => [
    'sh',
    '-c',
    `touch '${begun}'; while kill -0 $PPID; do sleep 0.05; done`,
  ];

  /** The sandboxes of other files' runs cover every server's socket, also the one in this folder. */
  const processesIn = (folder: string) =>
    execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => line.replaceAll(`${folder}/socket`, '').includes(folder));

  test('a dump is, with the programs that still write it', async () => {
    const database = await temporaryDatabase(15, {
      sql: `CREATE TABLE big AS SELECT n, repeat(md5(n::text), 20) AS body FROM generate_series(1, 60000) n;
        CREATE INDEX ON big (body, n)`,
    });
    const env = place();
    const args = ['--url', database.url, '--clone', 'dump', '--', 'true'];
    const entries = await killedWithItsGuards(args, env, async () =>
      entriesIn(env).some(({ folder }) => processesIn(folder).length > 1),
    );
    expect(entries).toMatchObject([{ holds: 'dump' }]);
    await expectFoundAndRemoved(env, entries, `dump left by a dead run, of `);
    expect((await safemigrate(['clean', '--url', database.url], { env })).stdout).toContain(
      `dropped ${database.name}_rehearsal_`,
    );
  });

  test('a clone on a server of its own is, with the server', async () => {
    const database = await temporaryDatabase(15, { sql: 'CREATE TABLE t AS SELECT 1 AS n' });
    const role = `reader_of_${database.name}`;
    await withClient(database.url, (client) =>
      client.query(
        `CREATE ROLE ${identifier(role)} LOGIN PASSWORD 'p'; GRANT pg_read_all_data TO ${identifier(role)}`,
      ),
    );
    const env = place();
    const url = changedUrl(database.url, { user: role, password: 'p' });
    const begun = path.join(temporaryFolder(), 'begun');
    const args = ['--url', url, '--clone', 'dump', '--', ...waiting(begun)];
    const entries = await killedWithItsGuards(args, env, async () => existsSync(begun));
    expect(entries).toMatchObject([{ holds: 'clone' }, { holds: 'sockets' }]);
    expect(processesIn(entries[0]?.folder ?? '')).not.toEqual([]);
    await expectFoundAndRemoved(env, entries, `clone left by a dead run, of `);
  });

  test('a clone on a server of its own is also if only its guard was killed: the run ends as ever', async () => {
    const database = await temporaryDatabase(15, { sql: 'CREATE TABLE t AS SELECT 1 AS n' });
    const role = `reader_of_${database.name}`;
    await withClient(database.url, (client) =>
      client.query(
        `CREATE ROLE ${identifier(role)} LOGIN PASSWORD 'p'; GRANT pg_read_all_data TO ${identifier(role)}`,
      ),
    );
    const env = place();
    const url = changedUrl(database.url, { user: role, password: 'p' });
    const [begun, goOn] = ['begun', 'go-on'].map((name) => path.join(temporaryFolder(), name)) as [
      string,
      string,
    ];
    const command = [
      'sh',
      '-c',
      `touch '${begun}'; while [ ! -e '${goOn}' ]; do sleep 0.02; done; psql -c 'SELECT 1' "$DATABASE_URL"`,
    ];
    const running = safemigrate(['--clone', 'dump', '--', ...command], {
      env: { ...env, DATABASE_URL: url },
    });
    while (!existsSync(begun)) await delay(5);
    const [entry] = entriesIn(env);
    process.kill(entry?.watchdog?.pid ?? Number.NaN, 'SIGKILL');
    writeFileSync(goOn, '');
    const { exitCode, stderr } = await running;
    expect(exitCode).toBe(0);
    expect(stderr).toContain('NOT CLEANED UP  1 item left behind');
    const cleaned = await safemigrate(['clean'], { env });
    expect(cleaned).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining(`removed ${entry?.folder}\n`),
    });
    expect(existsSync(entry?.folder ?? '/')).toBe(false);
    expect(entriesIn(env)).toEqual([]);
    expect(processesIn(entry?.folder ?? '/')).toEqual([]);
  });

  test('a restored dump is, with the server', async () => {
    const database = await temporaryDatabase(15, { sql: 'CREATE TABLE t AS SELECT 1 AS n' });
    const [file, begun] = ['dump', 'begun'].map((name) => path.join(temporaryFolder(), name)) as [
      string,
      string,
    ];
    execFileSync('/usr/lib/postgresql/15/bin/pg_dump', ['--format=custom', `--file=${file}`, database.url]);
    const env = place();
    const args = ['--dump', file, '--', ...waiting(begun)];
    const entries = await killedWithItsGuards(args, env, async () => existsSync(begun));
    expect(entries).toMatchObject([{ holds: 'restored dump', target: file }, { holds: 'sockets' }]);
    await expectFoundAndRemoved(env, entries, `restored dump left by a dead run, of ${file}`);
  });

  test.each([
    ['and the run', true],
    ['and not the run, which ends with exit code 3', false],
  ])('a clone of a restored dump is, if watchdog and guard were killed %s', async (_what, withTheRun) => {
    const database = await temporaryDatabase(15, { sql: 'CREATE TABLE t AS SELECT 1 AS n' });
    const [file, begun] = ['dump', 'begun'].map((name) => path.join(temporaryFolder(), name)) as [
      string,
      string,
    ];
    execFileSync('/usr/lib/postgresql/15/bin/pg_dump', ['--format=custom', `--file=${file}`, database.url]);
    const env = place();
    let pid = 0;
    const running = safemigrate(['--dump', file, '--clone', 'cluster', '--', ...waiting(begun)], {
      env,
      started: (child) => (pid = child),
    });
    while (!existsSync(begun)) await delay(5);
    const entries = entriesIn(env);
    expect(entries.map(({ holds }) => holds).sort()).toEqual(['clone', 'restored dump', 'sockets']);
    for (const { watchdog } of entries) process.kill(watchdog?.pid ?? Number.NaN, 'SIGKILL');
    if (withTheRun) process.kill(pid, 'SIGKILL');
    expect(await running).toMatchObject(withTheRun ? { signal: 'SIGKILL' } : { exitCode: 3 });
    const { stdout } = await safemigrate(['clean'], { env });
    for (const { folder } of entries) {
      expect(existsSync(folder), stdout).toBe(false);
      await expect.poll(() => processesIn(folder), { timeout: 60_000 }).toEqual([]);
    }
    expect(entriesIn(env)).toEqual([]);
  });
});
