import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { apply } from '../helpers/apply.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';

const FEW = 5;
const MANY = 500;

/** Sessions that stay until they are ended. */
class Sessions {
  readonly #open: Client[] = [];

  get count(): number {
    return this.#open.length;
  }

  async add(url: string, sql?: string): Promise<void> {
    const client = new Client(url);
    client.on('error', () => {});
    await client.connect();
    this.#open.push(client);
    if (sql !== undefined) await client.query(sql);
  }

  async end(): Promise<void> {
    await Promise.all(this.#open.splice(0).map((client) => client.end()));
  }
}

describe('a target with 500 sessions', () => {
  let server: Server;
  let url: string;
  const sessions = new Sessions();

  beforeAll(async () => {
    server = await ownServer(18, { settings: { max_connections: '600' } });
    url = withDatabase(server.url, 'shop');
    for (const name of ['shop', 'neighbour'])
      await withClient(server.url, (client) => client.query(`CREATE DATABASE ${name}`));
    await withClient(url, (client) =>
      client.query(`CREATE TABLE jobs (id int); CREATE TABLE held (id int);
        INSERT INTO held SELECT generate_series(1, ${MANY})`),
    );
  });

  afterAll(async () => {
    await sessions.end();
    await server.stop();
  });

  /** Half of them idle, the others in transactions with locks, with prepared statements, or with locks of the session. */
  async function open(count: number, at: string): Promise<void> {
    while (sessions.count < count) {
      const n = sessions.count;
      const does = [
        undefined,
        'BEGIN; SELECT count(*) FROM held',
        `PREPARE p AS SELECT ${n}; SELECT pg_advisory_lock(${n})`,
        `BEGIN; UPDATE held SET id = id WHERE id = ${n}`,
      ];
      await sessions.add(at, at === url ? does[n % does.length] : undefined);
    }
  }

  const pids = () =>
    withClient(server.url, async (client) => {
      const { rows } = await client.query<{ pid: number }>(
        "SELECT pid FROM pg_stat_activity WHERE datname <> 'postgres' AND application_name = '' ORDER BY pid",
      );
      return rows.map(({ pid }) => pid);
    });

  /** Runs it, and counts our own statements; no session is ended. */
  async function counted(run: typeof rehearse, sql: string, ...args: string[]) {
    const audit = path.join(temporaryFolder(), 'audit');
    const before = await pids();
    const result = await run(url, sqlCommand(sql), { args: [...args, '--audit', audit] });
    expect(result.exitCode, result.stderr).toBe(0);
    expect(await pids()).toEqual(before);
    const statements = readFileSync(audit, 'utf8').trim().split('\n').length;
    return { ...result, statements };
  }

  const ADD = 'ALTER TABLE jobs ADD COLUMN IF NOT EXISTS done bool';

  /** As many statements as with few sessions but for those that poll, and no list of sessions. */
  function expectAlike(many: Awaited<ReturnType<typeof counted>>, few: typeof many): void {
    expect(many.statements).toBeLessThan(1.5 * few.statements);
    expect(many.stdout.length).toBeLessThan(1.5 * few.stdout.length);
    expect(many.stderr.length).toBeLessThan(few.stderr.length + 1000);
  }

  test('with a clone in its server, while they are in another database', async () => {
    const at = withDatabase(server.url, 'neighbour');
    await open(FEW, at);
    const few = await counted(rehearse, ADD, '--clone', 'template');
    await open(MANY, at);
    const many = await counted(rehearse, ADD, '--clone', 'template');
    expectAlike(many, few);
    await sessions.end();
  });

  test('with a copy of the cluster, and applied', async () => {
    await open(FEW, url);
    const few = await counted(rehearse, ADD, '--clone', 'cluster');
    const fewApplied = await counted(apply, ADD, '--clone', 'cluster');
    await open(MANY, url);
    const many = await counted(rehearse, ADD, '--clone', 'cluster');
    const manyApplied = await counted(apply, ADD.replaceAll('done', 'seen'), '--clone', 'cluster');
    expectAlike(many, few);
    expectAlike(manyApplied, fewApplied);
  });

  test('a clone that needs the target free of them is refused, and names a few', async () => {
    await open(MANY, url);
    const before = await pids();
    const run = await safemigrate(['--', ...sqlCommand(ADD)], {
      env: { DATABASE_URL: url, SAFEMIGRATE_WAIT: '0' },
    });
    expect(run.exitCode).toBe(3);
    expect(run.stderr).toMatch(/500 other sessions are on shop/);
    expect(run.stderr.match(/^ {2}pid \d+: /gm)).toHaveLength(10);
    expect(run.stderr).toContain('… and 490 more');
    expect(await pids()).toEqual(before);
  });

  test('a lock that 250 of them hold: the apply ends undone, and names a few', async () => {
    await open(MANY, url);
    const before = await pids();
    const result = await apply(url, sqlCommand('ALTER TABLE held ADD COLUMN done bool'), {
      args: ['--clone', 'cluster'],
      env: { SAFEMIGRATE_RETRY_COUNT: '1' },
    });
    expect(result.exitCode).toBe(4);
    expect(result.apply.during?.blockers).toHaveLength(MANY / 2);
    expect(result.stderr).toContain('waits for 240 more sessions');
    expect(result.stderr.split('\n').length).toBeLessThan(40);
    expect(await pids()).toEqual(before);
  });
});

describe('a server with few connections left', () => {
  const MAX = 16;
  const RESERVED = 3;
  let server: Server;
  let url: string;
  const sessions = new Sessions();
  const as = (role: string, to: string) => to.replace(/\/\/[^@]*@/, `//${role}:a-password@`);

  beforeAll(async () => {
    server = await ownServer(18, {
      settings: { max_connections: String(MAX), superuser_reserved_connections: String(RESERVED) },
    });
    url = withDatabase(server.url, 'shop');
    for (const sql of [
      "CREATE ROLE plain LOGIN CREATEDB PASSWORD 'a-password' IN ROLE pg_read_all_settings, pg_checkpoint",
      'CREATE DATABASE shop OWNER plain',
      'GRANT EXECUTE ON FUNCTION pg_backup_start(text, boolean), pg_backup_stop(boolean) TO plain',
    ])
      await withClient(server.url, (client) => client.query(sql));
  });

  afterAll(async () => {
    await sessions.end();
    await server.stop();
  });

  const databases = () =>
    withClient(server.url, async (client) => {
      const { rows } = await client.query<{ datname: string }>('SELECT datname FROM pg_database ORDER BY 1');
      return rows.map(({ datname }) => datname);
    });

  /** Opens sessions of a plain role until so many are left for it. */
  async function leave(count: number): Promise<void> {
    await sessions.end();
    await expect
      .poll(async () =>
        withClient(server.url, async (client) => {
          const { rows } = await client.query(
            "SELECT count(*)::int AS n FROM pg_stat_activity WHERE backend_type = 'client backend'",
          );
          return rows[0].n;
        }),
      )
      .toBe(1);
    while (sessions.count < MAX - RESERVED - count) await sessions.add(as('plain', server.url));
  }

  const FULL =
    /has no connection left for "\w+" in the database "[^"]+"\. It says: .*\n {2}Close idle sessions, or raise max_connections/;

  test.each(['template', 'cluster'])(
    'a run by %s needs a few, and says so if they are not there',
    async (clone) => {
      for (const left of [0, 1, 4]) {
        await leave(left);
        const run = await safemigrate(['--clone', clone, '--', ...sqlCommand('CREATE TABLE t ()')], {
          env: { DATABASE_URL: as('plain', url) },
        });
        expect(run.exitCode, `${left} left: ${run.stderr}`).toBe(left < 4 ? 3 : 0);
        if (left < 4) expect(run.stderr).toMatch(FULL);
      }
      await sessions.end();
      expect(await databases()).toEqual(['postgres', 'shop', 'template0', 'template1']);
    },
  );

  test.each([
    ['a rehearsal', ['--', 'true']],
    ['an apply', ['apply', '--yes', '--', 'true']],
    ['doctor', ['doctor']],
  ])('not even one for a superuser: %s ends before it begins', async (_, words) => {
    await leave(0);
    for (let n = 0; n < RESERVED; n++) await sessions.add(server.url);
    const run = await safemigrate(words, { env: { DATABASE_URL: url } });
    expect(run.stderr).toMatch(FULL);
    expect(run.stderr).toContain('SQLSTATE 53300');
    expect(run.exitCode).toBe(3);
  });
});
