import type { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { clean } from '../../../src/ownership/clean.ts';
import { dropOwnedDatabase } from '../../../src/ownership/drop.ts';
import { formatMark, type Mark, ownedName } from '../../../src/ownership/mark.ts';
import { ownedDatabases } from '../../../src/ownership/owned.ts';
import { isPutAside } from '../../../src/ownership/put-aside.ts';
import {
  advisoryLockKey,
  markerConnectionLimit,
  newRunId,
  type RunId,
} from '../../../src/ownership/run-id.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { identifier, literal } from '../../../src/postgres/sql/quote.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl, withCloning } from '../../helpers/cloning.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { NEWEST } from '../../helpers/servers.ts';

/** `clean` looks at a whole server, so these are nobody else's. */
describe.each(NEWEST)('PostgreSQL %d', (version) => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(version, { settings: { max_prepared_transactions: '5', wal_level: 'logical' } });
    await admin(async (client) => {
      await client.query(`CREATE ROLE maker LOGIN CREATEDB PASSWORD 'maker'`);
      await client.query('CREATE DATABASE app');
    });
  });
  afterAll(() => server.stop());

  afterEach(async () => {
    for (const name of await databases()) {
      await admin(async (client) => {
        await client.query(`DROP DATABASE ${identifier(name)} WITH (FORCE)`);
      });
    }
  });

  const admin = <T>(use: (client: Client) => Promise<T>) => withClient(server.url, use);

  const databases = () =>
    admin(async (client) => {
      const { rows } = await client.query<{ datname: string }>(
        `SELECT datname FROM pg_database
          WHERE datname NOT IN ('postgres', 'template0', 'template1', 'app') ORDER BY 1`,
      );
      return rows.map(({ datname }) => datname);
    });

  const oidOf = (name: string) =>
    admin(async (client) => {
      const { rows } = await client.query<{ oid: string }>(
        'SELECT oid::text FROM pg_database WHERE datname = $1',
        [name],
      );
      return Number(rows[0]?.oid);
    });

  async function withSession<T>(use: (session: Session) => Promise<T>, url = server.url): Promise<T> {
    const session = await openSession(parseSettings(url, readEnvironment({}, '/')), { purpose: 'test' });
    try {
      return await use(session);
    } finally {
      await session.close();
    }
  }

  const enter = (database: string) =>
    openSession(parseSettings(server.url, readEnvironment({}, '/')), { database, purpose: 'test' });

  const cleaned = (kept = false, url = server.url) =>
    withSession((session) => {
      const settings = parseSettings(url, readEnvironment({}, '/'));
      return clean(session, { kept, enter, target: 'postgres', settings });
    }, url);

  const only = async (name: string) => {
    const found = await withSession((session) => ownedDatabases(session));
    return found.find((database) => database.name === name);
  };

  /** What a dead run has left: a database with its mark, which a test can spoil. */
  async function left(
    change: (mark: Mark) => object | string = (mark) => mark,
    more: { name?: string; run?: RunId } = {},
  ) {
    const run = more.run ?? newRunId();
    const name = more.name ?? ownedName('app', 'clone', run);
    await admin((client) => client.query(`CREATE DATABASE ${identifier(name)}`));
    const mark: Mark = {
      version: 1,
      run,
      role: 'clone',
      targetOid: await oidOf('app'),
      state: 'ready',
      at: { database: name, oid: await oidOf(name) },
      lockDatabaseOid: await oidOf('postgres'),
    };
    const changed = change(mark);
    const text = typeof changed === 'string' ? changed : formatMark(changed as Mark);
    await admin((client) => client.query(`COMMENT ON DATABASE ${identifier(name)} IS ${literal(text)}`));
    return { name, run, mark };
  }

  async function unmarked(clause: (run: RunId) => string) {
    const run = newRunId();
    const name = ownedName('app', 'clone', run);
    await admin((client) => client.query(`CREATE DATABASE ${identifier(name)} ${clause(run)}`));
    return { name, run };
  }

  const lock = (client: Client, run: RunId) =>
    client.query(`SELECT pg_advisory_lock($1::bigint)`, [advisoryLockKey(run)]);

  async function stays(name: string, reason: RegExp) {
    const { removed, left: kept, failed } = await cleaned();
    expect({ removed, failed }).toEqual({ removed: [], failed: [] });
    expect(kept.map(({ name: each, reason: why }) => [each, why])).toEqual([
      [name, expect.stringMatching(reason)],
    ]);
    expect(await databases()).toEqual([name]);
    const found = await only(name);
    const order = {
      name,
      run: found?.run ?? newRunId(),
      role: 'clone' as const,
      oid: undefined,
      ownRun: false,
      enter,
    };
    if (!found?.mark?.kept && !isPutAside(found?.role ?? null))
      await expect(withSession((session) => dropOwnedDatabase(session, order))).rejects.toMatchObject({
        code: 'NOT_OURS',
      });
    expect(await databases()).toEqual([name]);
  }

  test('what a dead run left is dropped', async () => {
    const { name } = await left();
    expect((await cleaned()).removed).toEqual([name]);
    expect(await databases()).toEqual([]);
  });

  test('a unmarked database of a dead run is dropped', async () => {
    const { name } = await unmarked(
      (run) => `ALLOW_CONNECTIONS false CONNECTION LIMIT ${markerConnectionLimit(run)}`,
    );
    expect(await only(name)).toMatchObject({ ownershipStatus: 'unmarked', owning: 'dead', role: 'clone' });
    expect((await cleaned()).removed).toHaveLength(1);
    expect(await databases()).toEqual([]);
  });

  test('a unmarked database whose run is alive stays, in whatever database its lock is', async () => {
    const { name, run } = await unmarked(
      (id) => `ALLOW_CONNECTIONS false CONNECTION LIMIT ${markerConnectionLimit(id)}`,
    );
    await withClient(changedUrl(server.url, { database: 'app' }), async (client) => {
      await lock(client, run);
      await stays(name, /alive/);
    });
  });

  test.each<[string, (run: RunId) => string]>([
    ['is open', (run) => `CONNECTION LIMIT ${markerConnectionLimit(run)}`],
    [
      'has another limit',
      (run) => `ALLOW_CONNECTIONS false CONNECTION LIMIT ${markerConnectionLimit(run) + 1}`,
    ],
    ['has no limit', () => 'ALLOW_CONNECTIONS false'],
    ['is an ordinary one', () => ''],
  ])('a database with one of our names that %s is not unmarked, and stays', async (_, clause) => {
    const { name } = await unmarked(clause);
    await stays(name, /no mark/);
  });

  test('a database with one of our names and a comment of somebody else stays', async () => {
    const { name } = await left(() => 'the shop of my aunt');
    await stays(name, /no mark/);
  });

  test('a mark that belongs to another OID is not this database’s', async () => {
    const { name } = await left((mark) => ({ ...mark, at: { ...mark.at, oid: 5 } }));
    await stays(name, /OID 5/);
  });

  test('a mark copied to the target itself, even with its name and OID, is not enough', async () => {
    const name = 'shop';
    const { run } = await left((mark) => mark, { name });
    await stays(name, /name is not one that safemigrate gives/);
    expect(run).toBeDefined();
  });

  test('a mark whose run is not that of the name is not enough', async () => {
    const { name } = await left((mark) => mark, { name: ownedName('app', 'clone', newRunId()) });
    await stays(name, /name is not one that safemigrate gives/);
  });

  test('a mark whose role is not that of the name is not enough', async () => {
    const { name } = await left((mark) => ({ ...mark, role: 'probe' }));
    await stays(name, /name is not one that safemigrate gives/);
  });

  test('a renamed clone stays', async () => {
    const { name } = await left();
    await admin((client) => client.query(`ALTER DATABASE ${identifier(name)} RENAME TO mine_now`));
    await stays('mine_now', /renamed by somebody: its mark says app_rehearsal/);
  });

  test('a clone that was renamed and made anew under its name stays', async () => {
    const { name, mark } = await left();
    await admin((client) => client.query(`DROP DATABASE ${identifier(name)}`));
    await admin((client) => client.query(`CREATE DATABASE ${identifier(name)}`));
    await admin((client) =>
      client.query(`COMMENT ON DATABASE ${identifier(name)} IS ${literal(formatMark(mark))}`),
    );
    await stays(name, /OID/);
  });

  test('a mark of a newer version stays, and so does a damaged one', async () => {
    const newer = await left((mark) => ({ ...mark, version: 2 }));
    await stays(newer.name, /another version/);
    await admin((client) =>
      client.query(`COMMENT ON DATABASE ${identifier(newer.name)} IS 'safemigrate: {'`),
    );
    await stays(newer.name, /damaged/);
  });

  test('a clone whose owner lives stays, and a lock with its key in another database does not count', async () => {
    const { name, run } = await left();
    await admin(async (client) => {
      await lock(client, run);
      await stays(name, /alive/);
    });
    await withClient(changedUrl(server.url, { database: 'app' }), async (client) => {
      await lock(client, run);
      expect(await only(name)).toMatchObject({ owning: 'dead' });
      expect((await cleaned()).removed).toHaveLength(1);
    });
  });

  test('a lock that somebody only waits for does not count, nor does one of two integers', async () => {
    const { name, run } = await left();
    const key = BigInt.asUintN(64, BigInt(advisoryLockKey(run)));
    const halves = [key >> 32n, key & 0xffffffffn].map((half) => BigInt.asIntN(32, half).toString());
    await admin(async (client) => {
      await client.query('SELECT pg_advisory_lock($1::int, $2::int)', halves);
      expect(await only(name)).toMatchObject({ owning: 'dead' });
    });
  });

  test('a kept clone stays until it is asked for', async () => {
    const { name } = await left((mark) => ({ ...mark, kept: true }));
    await stays(name, /--kept/);
    expect((await cleaned(true)).removed).toHaveLength(1);
  });

  test.each(['original', 'rolled-back'] as const)('a database put aside as %s stays', async (role) => {
    const run = newRunId();
    const name = ownedName('app', role, run);
    await left((mark) => ({ ...mark, role }), { name, run });
    await stays(name, new RegExp(role));
    expect((await cleaned(true)).removed).toEqual([]);
  });

  test('sessions inside do not keep a dead run’s clone alive, nor do prepared transactions', async () => {
    const { name } = await left();
    const inside = changedUrl(server.url, { database: name });
    await withClient(inside, (client) =>
      client.query(`BEGIN; CREATE TABLE t (); PREPARE TRANSACTION 'left'`),
    );
    await withClient(inside, async (client) => {
      await client.query('SELECT 1');
      const { removed, failed } = await cleaned();
      expect(failed).toEqual([]);
      expect(removed).toHaveLength(1);
    });
  });

  test('subscriptions do not keep a dead run’s clone alive, and the slot that they name stays', async () => {
    const { name } = await left();
    await admin((client) => client.query(`SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')`));
    await withClient(changedUrl(server.url, { database: name }), (client) =>
      client.query(
        `CREATE SUBSCRIPTION "of s" CONNECTION ${literal(server.url)} PUBLICATION p
           WITH (create_slot = false, slot_name = 'theirs', copy_data = false)`,
      ),
    );
    const { removed, failed } = await cleaned();
    expect(failed).toEqual([]);
    expect(removed).toHaveLength(1);
    const slots = await admin(async (client) => {
      const { rows } = await client.query(`SELECT pg_drop_replication_slot('theirs')`);
      return rows;
    });
    expect(slots).toHaveLength(1);
  });

  test('two who clean at once drop everything between them, and neither fails', async () => {
    for (let count = 0; count < 4; count++) await left();
    const results = await Promise.all([cleaned(), cleaned(), cleaned()]);
    expect(results.flatMap(({ failed }) => failed)).toEqual([]);
    expect(await databases()).toEqual([]);
  });

  test('a database whose DROP was cut off is dropped, marked or unmarked', async () => {
    const marked = await left();
    const bare = await unmarked(
      (run) => `ALLOW_CONNECTIONS false CONNECTION LIMIT ${markerConnectionLimit(run)}`,
    );
    for (const { name } of [marked, bare])
      await admin((client) =>
        client.query('UPDATE pg_database SET datconnlimit = -2, datallowconn = false WHERE datname = $1', [
          name,
        ]),
      );
    const { removed, failed } = await cleaned();
    expect(failed).toEqual([]);
    expect(removed).toHaveLength(2);
  });

  test('a role that is no member of the owner sees what was left, and does not drop it', async () => {
    const { name } = await left();
    const url = changedUrl(server.url, { user: 'maker', password: 'maker' });
    const result = await cleaned(false, url);
    expect(result.left).toMatchObject([{ name, reason: expect.stringContaining('postgres') }]);
    expect(result.removed).toEqual([]);
    expect(await databases()).toEqual([name]);
  });

  test('a role that is no superuser makes, loses and cleans what is its own', async () => {
    const url = changedUrl(server.url, { user: 'maker', password: 'maker', database: 'mine' });
    await admin((client) => client.query('CREATE DATABASE mine OWNER maker'));
    let name = '';
    await withCloning(url, {}, async ({ make }) => {
      const clone = await make();
      name = clone.database;
      expect(await only(name)).toMatchObject({ owning: 'alive', ownershipStatus: 'marked', owner: 'maker' });
      const result = await cleaned(false, changedUrl(url, { database: 'postgres' }));
      expect(result.left).toMatchObject([{ reason: expect.stringContaining('alive') }]);
      await clone.keep();
    });
    expect(await only(name)).toMatchObject({ owning: 'dead', mark: { kept: true } });
    const maker = changedUrl(url, { database: 'postgres' });
    expect((await cleaned(false, maker)).removed).toEqual([]);
    expect((await cleaned(true, maker)).removed).toHaveLength(1);
    expect(await databases()).toEqual(['mine']);
  });

  test('an order with another run, role or OID drops nothing, and a name that is gone is no failure', async () => {
    const { name, run } = await left();
    await withSession(async (session) => {
      const order = { name, run, role: 'clone' as const, oid: undefined, ownRun: false, enter };
      for (const wrong of [{ run: newRunId() }, { role: 'probe' as const }, { oid: 1 }])
        await expect(dropOwnedDatabase(session, { ...order, ...wrong })).rejects.toMatchObject({
          code: 'NOT_OURS',
        });
      expect(await dropOwnedDatabase(session, { ...order, name: `${name}x` })).toBe(false);
      expect(await databases()).toEqual([name]);
      expect(await dropOwnedDatabase(session, order)).toBe(true);
      expect(await dropOwnedDatabase(session, order)).toBe(false);
    });
  });
});
