import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { METHOD_IDS, type MethodId } from '../../src/clone/clone-settings.ts';
import { type CliResult, PROGRAM, runProgram, safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { withoutClientPrograms } from '../helpers/client-programs.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { asUser } from '../helpers/other-user.ts';
import { ownFolder, type PlacedServer, placedServer, SERVER_UID } from '../helpers/placed-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { majorOf, OLDEST_AND_NEWEST } from '../helpers/servers.ts';
import { digestOf } from '../helpers/target-state.ts';

const MB = 2 ** 20;
const STRANGER_UID = 65_533;
const COMMAND = sqlCommand('SELECT count(*) FROM items');

const diagnosis = z.object({
  methods: z.array(
    z.object({
      method: z.enum(METHOD_IDS),
      possible: z.boolean(),
      reason: z.string(),
      enable: z.string().optional(),
      strategy: z.string().optional(),
      bytes: z.number().optional(),
    }),
  ),
  taken: z.enum(METHOD_IDS).nullable(),
  privileges: z.array(
    z.object({
      right: z.string(),
      held: z.boolean(),
      grant: z.string(),
      revoke: z.string(),
      methods: z.array(z.string()),
    }),
  ),
  recommended: z.enum(METHOD_IDS).nullable(),
  advice: z.array(z.string()),
});
type Told = z.infer<typeof diagnosis>;

const skipped =
  skipReason(await loopFileSystemObstacle('xfs')) ||
  (await withoutClientPrograms('pg_dump', 'pg_restore', 'pg_basebackup'));

/** Who asks: as which role, as which user of the operating system, through which program. */
interface Asking {
  readonly role?: string;
  readonly through?: readonly string[];
}

test.each(OLDEST_AND_NEWEST)('doctor says of PostgreSQL %i whether it still gets fixes', async (version) => {
  const { url } = await temporaryDatabase(version);
  const { stdout } = await safemigrate(['doctor'], { env: { DATABASE_URL: url } });
  expect(stdout).toContain(`PostgreSQL ${majorOf(version)}`);
  const ended = 'PostgreSQL 14 has had no fixes since 2026-11-12: safemigrate upgrade --to 18';
  expect(stdout.replaceAll(/\s+/g, ' ').includes(ended)).toBe(version === 14);
});

/** What doctor says is held against what happens: each method is then forced. */
describe.skipIf(skipped)('doctor tells the truth', () => {
  let disk: LoopFileSystem;
  let server: PlacedServer;
  let url: string;
  let home: string;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 768 * MB);
    server = await placedServer(15, { parent: disk.folder, settings: { max_wal_size: '64MB' } });
    url = changedUrl(server.url, { database: 'shop' });
    await withClient(server.url, (client) =>
      client.query(
        `CREATE ROLE owner LOGIN; CREATE ROLE reader LOGIN; CREATE ROLE nobody LOGIN; CREATE ROLE granted LOGIN; CREATE ROLE replicator LOGIN REPLICATION`,
      ),
    );
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop OWNER owner'));
    await withClient(url, (client) =>
      client.query(`SET ROLE owner;
        CREATE TABLE items AS SELECT n AS id FROM generate_series(1, 1000) n;
        GRANT SELECT ON items TO reader`),
    );
    home = await mkdtemp(path.join(tmpdir(), 'safemigrate-doctor-'));
    await runProgram(['chmod', '755', home]);
    for (const who of ['root', 'stranger']) await ownFolder(path.join(home, who));
    await runProgram(['chown', String(STRANGER_UID), path.join(home, 'stranger')]);
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
    await rm(home, { recursive: true, force: true });
  });

  function run(words: readonly string[], { role = 'postgres', through = [] }: Asking): Promise<CliResult> {
    const state = path.join(home, through === STRANGER ? 'stranger' : 'root');
    return runProgram([...through, ...PROGRAM, ...words], {
      env: { DATABASE_URL: changedUrl(url, { user: role }), HOME: state, XDG_STATE_HOME: state },
    });
  }

  async function ask(asking: Asking): Promise<Told> {
    const { exitCode, stdout, stderr } = await run(['doctor', '--format', 'json'], asking);
    expect(stdout, stderr).toMatch(/^\{/);
    const told = diagnosis.parse(JSON.parse(stdout));
    expect(exitCode).toBe(told.taken === null ? 3 : 0);
    expect(told.methods.map(({ method }) => method).sort()).toEqual([...METHOD_IDS].sort());
    return told;
  }

  /** @returns what was said, after each of these methods has shown that it is so. */
  async function proven(asking: Asking, proving: readonly MethodId[] = METHOD_IDS): Promise<Told> {
    const told = await ask(asking);
    const happened: Record<string, boolean> = {};
    const outputs: string[] = [];
    for (const method of proving) {
      const { exitCode, stderr } = await run(['--clone', method, '--', ...COMMAND], asking);
      expect([0, 3], stderr).toContain(exitCode);
      happened[method] = exitCode === 0;
      outputs.push(`${method}: ${stderr}`);
    }
    expect(possible(told), outputs.join('\n')).toMatchObject(happened);
    return told;
  }

  function possible({ methods }: Told): Record<string, boolean> {
    return Object.fromEntries(methods.map(({ method, possible }) => [method, possible]));
  }

  const STRANGER = asUser(STRANGER_UID);
  const WITHOUT_CLIENTS = [
    'unshare',
    '--mount',
    'sh',
    '-c',
    'mount -t tmpfs none /usr/lib/postgresql && exec "$@"',
    'sh',
  ];
  const NONE = { cluster: false, template: false, dump: false, basebackup: false, external: false };

  test("to a superuser on the server's machine", { timeout: 180_000 }, async () => {
    // The rest is proved by a role with fewer rights, below.
    const told = await proven({}, ['cluster', 'external']);
    expect(possible(told)).toEqual({ ...NONE, cluster: true, template: true, dump: true, basebackup: true });
    expect(told.methods.find(({ method }) => method === 'cluster')).toMatchObject({
      strategy: 'reflink',
      bytes: 0,
    });
    expect(told.privileges.every(({ held }) => held)).toBe(true);
    expect(told.advice.join()).toContain('XFS');
  });

  test("to a superuser who cannot reach the server's files", { timeout: 180_000 }, async () => {
    const told = await proven({ through: STRANGER });
    expect(possible(told)).toEqual({ ...NONE, template: true, dump: true, basebackup: true });
    const cluster = told.methods.find(({ method }) => method === 'cluster');
    expect(cluster?.enable).toContain('root');
  });

  test('to an owner who may not create databases', { timeout: 180_000 }, async () => {
    const told = await proven({ role: 'owner' });
    expect(possible(told)).toEqual({ ...NONE, dump: true });
    expect(told.taken).toBe('dump');
    expect(told.methods.find(({ method }) => method === 'template')?.enable).toBe(
      'ALTER ROLE "owner" CREATEDB;',
    );
  });

  test('to a role that may only read', { timeout: 180_000 }, async () => {
    expect(possible(await proven({ role: 'reader' }))).toEqual({ ...NONE, dump: true });
  });

  test('to a role that may do nothing', { timeout: 180_000 }, async () => {
    const told = await proven({ role: 'nobody' });
    expect(possible(told)).toEqual(NONE);
    expect(told.taken).toBe(null);
    expect(told.privileges.filter(({ held }) => held)).toEqual([]);
    expect(told.recommended).toBe('cluster');
    const block = told.privileges.filter(({ methods }) => methods.includes('cluster'));
    const { stdout } = await run(['doctor'], { role: 'nobody' });
    expect(stdout).toContain(block.map(({ grant }) => `    ${grant}\n`).join(''));
    expect(stdout).toMatch(
      /what would help: GRANT pg_read_all_settings TO "nobody";\n +in the database postgres:/,
    );
    const asSuperuser = (statements: readonly string[]) =>
      withClient(server.url, (client) => client.query(statements.join(' ')));
    await asSuperuser(block.map(({ grant }) => grant));
    expect(await ask({ role: 'nobody' })).toMatchObject({ taken: 'cluster', recommended: null });
    await asSuperuser(block.map(({ revoke }) => revoke));
    expect(await ask({ role: 'nobody' })).toMatchObject({ taken: null });
  });

  test('to a role that may replicate, but is not let in for it from here', { timeout: 180_000 }, async () => {
    const rules = path.join(server.data, 'pg_hba.conf');
    const before = await readFile(rules, 'utf8');
    await writeFile(rules, `host replication replicator all reject\n${before}`);
    await withClient(server.url, (client) => client.query('SELECT pg_reload_conf()'));
    const told = await proven({ role: 'replicator' }, ['basebackup']);
    expect(possible(told).basebackup).toBe(false);
    expect(told.methods.find(({ method }) => method === 'basebackup')).toMatchObject({
      reason: expect.stringContaining('pg_hba.conf'),
      enable: expect.stringContaining('replication "replicator"'),
    });
  });

  test('where no client programs are installed', { timeout: 180_000 }, async () => {
    const told = await proven({ through: WITHOUT_CLIENTS }, ['dump', 'basebackup']);
    expect(possible(told)).toEqual({ ...NONE, cluster: true, template: true });
    expect(told.methods.find(({ method }) => method === 'dump')).toMatchObject({
      reason: expect.stringContaining('not installed here'),
      enable: expect.stringContaining('postgresql-client-15'),
    });
  });

  test('in the statements that it prints: after them, everything is possible', {
    timeout: 180_000,
  }, async () => {
    const before = await ask({ role: 'granted' });
    // Rights to functions are a database's own, and safemigrate sits in this one.
    await withClient(server.url, async (client) => {
      for (const { grant } of before.privileges) await client.query(grant);
    });
    const after = await proven({ role: 'granted' });
    expect(after.privileges.filter(({ held }) => !held)).toEqual([]);
    expect(possible(after)).toEqual({ ...NONE, cluster: true, template: true, dump: true, basebackup: true });
  });

  test('and changes nothing, leaves nothing, and provokes no error in the log', async () => {
    const temporary = path.join(home, 'temporary');
    await ownFolder(temporary);
    const look = async () => ({
      catalogue: await digestOf(url),
      shared: await digestOf(server.url),
      disk: await readdir(disk.folder),
      server: await readdir(server.folder),
      data: await readdir(path.join(server.data, 'base')),
      slots: await readdir(path.join(server.data, 'pg_replslot')),
      temporary: await readdir(temporary),
      state: await readdir(path.join(home, 'root'), { recursive: true }),
      errors:
        (await readFile(path.join(server.folder, 'log'), 'utf8')).match(/^.*(ERROR|FATAL|PANIC):.*$/gm) ?? [],
    });
    const before = await look();
    for (const role of ['postgres', 'reader', 'nobody'])
      await runProgram([...PROGRAM, 'doctor'], {
        env: {
          DATABASE_URL: changedUrl(url, { user: role }),
          TMPDIR: temporary,
          HOME: path.join(home, 'root'),
          XDG_STATE_HOME: path.join(home, 'root'),
        },
      });
    expect(await look()).toEqual(before);
  });

  test('also when it is the user of the server who asks', { timeout: 180_000 }, async () => {
    const state = path.join(home, 'server');
    await ownFolder(state);
    const { exitCode, stdout } = await runProgram([...asUser(SERVER_UID), ...PROGRAM, 'doctor'], {
      env: { DATABASE_URL: url, HOME: state, XDG_STATE_HOME: state },
    });
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/cluster +yes(, taken)?: reflink/);
  });
});
