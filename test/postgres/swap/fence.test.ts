import { Client } from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { readServerIdentity } from '../../../src/database/server-identity.ts';
import { inTransaction, openingStatements } from '../../../src/ownership/reopen.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { closeDatabase, stillClosed } from '../../../src/swap/fence.ts';
import { renameInto, wasRenamed } from '../../../src/swap/rename.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../../helpers/database.ts';
import { OLDEST_AND_NEWEST, serverUrl } from '../../helpers/servers.ts';

const opened: Session[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((session) => session.close()));
});

async function sessionOn(version: (typeof OLDEST_AND_NEWEST)[number]): Promise<Session> {
  const settings = parseSettings(serverUrl(version), readEnvironment({}, '/'));
  const session = await openSession(settings, { purpose: 'test' });
  opened.push(session);
  return session;
}

async function oidOf(session: Session, name: string): Promise<number> {
  const [row] = await session.query<{ oid: string }>(
    'SELECT oid::int8 AS oid FROM pg_database WHERE datname = $1',
    [name],
  );
  return Number(row?.oid);
}

const signal = new AbortController().signal;

async function close(session: Session, { name }: TemporaryDatabase, timeoutMs = 5_000) {
  const oid = await oidOf(session, name);
  return closeDatabase(session, { database: name, oid }, 'ours', signal, timeoutMs);
}

async function commentOf(session: Session, name: string): Promise<string | null> {
  const [row] = await session.query<{ comment: string | null }>(
    "SELECT shobj_description(oid, 'pg_database') AS comment FROM pg_database WHERE datname = $1",
    [name],
  );
  return row?.comment ?? null;
}

describe.each(OLDEST_AND_NEWEST)('a fenced database on PostgreSQL %d', (version) => {
  test('a fenced database has no sessions, accepts none, and can be reopened', async () => {
    const database = await temporaryDatabase(version);
    const session = await sessionOn(version);
    await withClient(database.url, async (client) => {
      const fence = await close(session, database);
      expect(fence.ended).toBe(1);
      await expect(client.query('SELECT 1')).rejects.toThrow();
      await expect(withClient(database.url, async () => {})).rejects.toMatchObject({ code: '55000' });
      expect(await stillClosed(session, fence)).toBe(true);
      expect(await commentOf(session, database.name)).toBe('ours');
      await inTransaction(session, openingStatements(database.name, "the users' own"));
      expect(await stillClosed(session, fence)).toBe(false);
      expect(await commentOf(session, database.name)).toBe("the users' own");
      await withClient(database.url, (again) => again.query('SELECT 1'));
    });
  });

  test('the fence terminates backends that were still starting', async () => {
    const database = await temporaryDatabase(version, { sql: 'CREATE TABLE written (id int)' });
    const session = await sessionOn(version);
    const starting = Array.from({ length: 4 }, async () => {
      const client = new Client({ connectionString: database.url, options: '-c post_auth_delay=1' });
      client.on('error', () => {});
      await client.connect();
      await client.query('INSERT INTO written VALUES (1)');
      await client.end();
    });
    const settled = Promise.allSettled(starting);
    // They are on their way when the server has a process for each of them.
    for (let seen = 0; seen < 4; ) {
      const [row] = await session.query<{ count: string }>(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 1262 AND objid = $1",
        [await oidOf(session, database.name)],
      );
      const [visible] = await session.query<{ count: string }>(
        'SELECT count(*) FROM pg_stat_activity WHERE datname = $1',
        [database.name],
      );
      seen = Math.max(Number(row?.count), Number(visible?.count));
    }
    const fence = await close(session, database, 10_000);
    const outcomes = await settled;
    const acknowledged = outcomes.filter(({ status }) => status === 'fulfilled').length;
    expect(await stillClosed(session, fence)).toBe(true);
    await inTransaction(session, openingStatements(database.name, null));
    await withClient(database.url, async (client) => {
      const { rows } = await client.query(
        'SELECT count(*)::int AS rows, count(*) FILTER (WHERE xmin::text::int8 > $1)::int AS late FROM written',
        [fence.xmin],
      );
      expect(rows).toEqual([{ rows: acknowledged, late: 0 }]);
    });
  });

  test('the fence gives up if another transaction locks the row of the database', async () => {
    const database = await temporaryDatabase(version);
    const session = await sessionOn(version);
    await withClient(serverUrl(version), async (client) => {
      await client.query(`BEGIN; COMMENT ON DATABASE "${database.name}" IS 'busy'`);
      await expect(close(session, database, 200)).rejects.toMatchObject({ code: 'STALL' });
      await client.query('ROLLBACK');
    });
    expect(await commentOf(session, database.name)).toBeNull();
    await withClient(database.url, (client) => client.query('SELECT 1'));
  });

  test('the rename is atomic, and wasRenamed() finds it out afterwards', async () => {
    const [target, clone] = [
      await temporaryDatabase(version, { sql: 'CREATE TABLE old (id int)' }),
      await temporaryDatabase(version, { sql: 'CREATE TABLE new (id int)' }),
    ];
    const keptAs = `${target.name}_before`;
    const [session, witness] = [await sessionOn(version), await sessionOn(version)];
    const fences = { original: await close(session, target), successor: await close(session, clone) };
    expect(await wasRenamed(witness, fences)).toBe(false);
    const server = await readServerIdentity(session);
    const rename = { ...fences, server, keptAs, originalMark: 'kept', comment: 'its own' };
    const promoted = { ...rename, server: { ...server, timeline: Number(server.timeline) - 1 } };
    await expect(renameInto(session, witness, promoted)).rejects.toThrow(
      /another server took over in the meantime/,
    );
    expect(await wasRenamed(witness, fences)).toBe(false);
    await renameInto(session, witness, rename);
    expect(await wasRenamed(witness, fences)).toBe(true);
    await withClient(target.url, (client) => client.query('SELECT FROM new'));
    expect(await commentOf(session, target.name)).toBe('its own');
    expect(await commentOf(session, keptAs)).toBe('kept');
    await session.query(`DROP DATABASE "${keptAs}"`);
  });

  test('the rename is refused if somebody has reopened the database, even right before the COMMIT', async () => {
    const [target, clone] = [await temporaryDatabase(version), await temporaryDatabase(version)];
    const [session, witness] = [await sessionOn(version), await sessionOn(version)];
    const fences = { original: await close(session, target), successor: await close(session, clone) };
    await inTransaction(witness, openingStatements(target.name, null));
    await withClient(target.url, (client) => client.query('CREATE TABLE written ()'));
    await expect(
      renameInto(session, witness, {
        ...fences,
        server: await readServerIdentity(session),
        keptAs: `${target.name}_before`,
        originalMark: 'kept',
        comment: null,
      }),
    ).rejects.toMatchObject({ code: 'REFUSED' });
    expect(await wasRenamed(witness, fences)).toBe(false);
    await withClient(target.url, (client) => client.query('SELECT FROM written'));
  });
});
