import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { otherSessions, preparedTransactions } from '../../../src/database/activity.ts';
import { inspectTarget } from '../../../src/database/inspect.ts';
import type { AuditEntry } from '../../../src/postgres/connection/audit.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import type { ConnectionSettings } from '../../../src/postgres/connection/connection-settings.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../../helpers/database.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { majorOf, VERSIONS } from '../../helpers/servers.ts';

const settingsOf = (url: string): ConnectionSettings => parseSettings(url, readEnvironment({}, '.'));

describe.each(VERSIONS)('the target on PostgreSQL %i', (version) => {
  let database: TemporaryDatabase;
  let role: string;

  beforeAll(async () => {
    database = await temporaryDatabase(version, {
      sql: 'CREATE TABLE big AS SELECT n, repeat(n::text, 50) AS t FROM generate_series(1, 5000) n; CREATE INDEX ON big (n)',
    });
    role = `role_${database.name}`;
    await withClient(database.url, (client) => client.query(`CREATE ROLE ${role} LOGIN PASSWORD 'pw'`));
    await withClient(database.url, (client) => client.query('VACUUM ANALYZE'));
  });

  afterAll(async () => {
    await withClient(database.url, (client) => client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`));
    await database.drop();
  });

  test('is known after a few statements that only read', async () => {
    const entries: AuditEntry[] = [];
    const target = await inspectTarget(settingsOf(database.url), '--url', {
      audit: (entry) => entries.push(entry),
    });
    expect(target).toMatchObject({
      source: '--url',
      server: {
        version: expect.stringMatching(new RegExp(`^${majorOf(version)}(?:\\.|rc)\\d+$`)),
        systemIdentifier: expect.stringMatching(/^\d+$/),
        blockSize: 8192,
        inRecovery: false,
        maxConnections: 200,
      },
      role: {
        name: 'postgres',
        superuser: true,
        createdb: true,
        mayCheckpoint: true,
        maySignal: true,
        seesActivity: true,
      },
      database: {
        name: database.name,
        owner: 'postgres',
        owned: true,
        ownerHasPowers: true,
        isTemplate: false,
        tablespace: 'pg_default',
      },
    });
    expect(target.settings.hosts).toHaveLength(1);
    expect(Math.floor(target.server.versionNum / 10_000)).toBe(majorOf(version));
    expect(entries).toHaveLength(4);
  });

  test('has about as many files as the catalogue says, and its size to the byte', async () => {
    const { database: facts } = await inspectTarget(settingsOf(database.url), '--url');
    await withClient(database.url, async (client) => {
      const { rows } = await client.query(
        `SELECT count(*)::int AS files, pg_database_size(current_database())::float8 AS size
           FROM pg_ls_dir('base/' || $1::text) AS file WHERE file ~ '^\\d'`,
        [facts.oid],
      );
      expect(Math.abs(facts.files - rows[0].files) / rows[0].files).toBeLessThan(0.15);
      expect(facts.sizeBytes).toBe(rows[0].size);
    });
  });

  test('is known to an ordinary role as far as that may see', async () => {
    const url = new URL(database.url);
    url.username = role;
    url.password = 'pw';
    const target = await inspectTarget(settingsOf(url.href), '--url');
    expect(target.role).toEqual({
      name: role,
      superuser: false,
      createdb: false,
      mayCheckpoint: false,
      maySignal: false,
      seesActivity: false,
      runsPrograms: false,
      readsFiles: false,
      writesFiles: false,
      mayReplicate: false,
    });
    expect(target.database).toMatchObject({ owned: false, owner: 'postgres' });
  });

  test('predefined roles are privileges', async () => {
    const url = new URL(database.url);
    url.username = role;
    url.password = 'pw';
    const granted = ['pg_signal_backend', 'pg_read_all_stats', ...(version >= 15 ? ['pg_checkpoint'] : [])];
    await withClient(database.url, async (client) => {
      await client.query(`GRANT ${granted.join(', ')} TO ${role}; ALTER ROLE ${role} CREATEDB`);
      await client.query(`ALTER DATABASE ${database.name} OWNER TO ${role}`);
    });
    const target = await inspectTarget(settingsOf(url.href), '--url');
    await withClient(database.url, (client) =>
      client.query(`ALTER DATABASE ${database.name} OWNER TO postgres`),
    );
    expect(target.role).toMatchObject({
      createdb: true,
      mayCheckpoint: version >= 15,
      maySignal: true,
      seesActivity: true,
    });
    expect(target.database).toMatchObject({ owned: true, owner: role });
  });

  test('where the system identifier may not be read it is null', async () => {
    const url = new URL(database.url);
    url.username = role;
    url.password = 'pw';
    // Functions are of one database: the revocation touches nobody else.
    await withClient(database.url, (client) =>
      client.query('REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC'),
    );
    const target = await inspectTarget(settingsOf(url.href), '--url');
    expect(target.server.systemIdentifier).toBeNull();
  });

  describe('with somebody connected', () => {
    let session: Session;
    let oid: number;

    beforeAll(async () => {
      session = await openSession(settingsOf(database.url), { purpose: 'inspect' });
      oid = (await inspectTarget(settingsOf(database.url), '--url')).database.oid;
    });
    afterAll(() => session.close());

    test('names who it is, and not ourselves', async () => {
      await withClient(database.url, async (client) => {
        await client.query(`SET application_name = 'shop'`);
        await client.query('BEGIN');
        await client.query('SELECT 42');
        await vi.waitFor(async () => {
          const sessions = await otherSessions(session, oid);
          expect(sessions).toEqual([
            {
              pid: expect.any(Number),
              user: 'postgres',
              application: 'shop',
              clientAddress: '127.0.0.1',
              state: 'idle in transaction',
              since: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
              query: 'SELECT 42',
              backendType: 'client backend',
            },
          ]);
        }, 60_000);
        const [other] = await otherSessions(session, oid);
        expect(await otherSessions(session, oid, [other?.pid ?? 0])).toEqual([]);
      });
    });

    test('names prepared transactions, of this database only', async () => {
      const gid = `gid_${database.name}`;
      await withClient(database.url, async (client) => {
        await client.query('BEGIN; CREATE TABLE prepared (); SELECT 1');
        await client.query(`PREPARE TRANSACTION '${gid}'`);
        try {
          expect(await preparedTransactions(session, database.name)).toEqual([
            { gid, owner: 'postgres', preparedAt: expect.stringMatching(/^\d{4}-/) },
          ]);
          expect(await preparedTransactions(session, 'postgres')).toEqual([]);
        } finally {
          await client.query(`ROLLBACK PREPARED '${gid}'`);
        }
      });
    });
  });
});

test('a standby is refused, with the way out', async () => {
  const server = await ownServer(18);
  try {
    const { execFileSync } = await import('node:child_process');
    const data = join(server.folder, 'data');
    expect(readdirSync(data)).toContain('PG_VERSION');
    execFileSync('touch', [join(data, 'standby.signal')]);
    await server.restart();
    const attempt = inspectTarget(settingsOf(server.url), '--url');
    await expect(attempt).rejects.toMatchObject({
      code: 'SERVER',
      message: expect.stringContaining('standby'),
    });
    const primary = inspectTarget(settingsOf(`${server.url}?target_session_attrs=primary`), '--url');
    await expect(primary).rejects.toMatchObject({
      code: 'CONNECTION',
      message: expect.stringContaining('standby'),
    });
    const standby = openSession(settingsOf(`${server.url}?target_session_attrs=standby`), {
      purpose: 'test',
    });
    await (await standby).close();
  } finally {
    await server.stop();
  }
});
