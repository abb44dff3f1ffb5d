import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { compareQueries, withoutStatistics } from '../../../src/observe/checks/compare-queries.ts';
import { type ApplicationQueries, readStatStatements } from '../../../src/observe/checks/query-source.ts';
import { tryQueries } from '../../../src/observe/checks/try-queries.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import type { ConnectionSettings } from '../../../src/postgres/connection/connection-settings.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { withClient } from '../../helpers/client.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { scratch } from '../../helpers/scratch.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';
import { withDatabase } from '../../helpers/target-state.ts';

const SHOP = `
  CREATE TABLE orders (id int PRIMARY KEY, customer int, note text);
  CREATE INDEX orders_customer_idx ON orders (customer);
  INSERT INTO orders SELECT n, n % 5000, 'note ' || n FROM generate_series(1, 50000) n;
  ANALYZE orders`;

const trying = async <T>(
  settings: ConnectionSettings,
  use: (session: Session) => Promise<T>,
  more: { user?: string; password?: string } = {},
): Promise<T> => {
  const session = await openSession({ ...settings, ...more }, { purpose: 'test', pipelined: true });
  try {
    return await use(session);
  } finally {
    await session.close();
  }
};

const listed = (...texts: string[]): ApplicationQueries => ({
  source: 'queries.sql',
  countedSince: null,
  queries: texts.map((sql) => ({ sql, calls: null, callsPerSecond: null })),
  utility: 0,
  hidden: 0,
});

async function compared(
  settings: ConnectionSettings,
  session: Session,
  migration: string,
  ...texts: string[]
) {
  const before = await trying(settings, (own) => tryQueries(own, texts));
  await session.query(migration);
  const after = await trying(settings, (own) => tryQueries(own, texts));
  return compareQueries(listed(...texts), before, after);
}

describe.each(OLDEST_AND_NEWEST)('on %d', (version) => {
  test('a query that worked before and fails after is broken, with its error; one that failed before is counted', async () => {
    const { session, settings, drop } = await scratch(version, SHOP);
    try {
      const section = await compared(
        settings,
        session,
        'ALTER TABLE public.orders DROP COLUMN note',
        'SELECT note FROM orders WHERE id = $1',
        'SELECT id FROM orders WHERE customer = $1 ORDER BY id LIMIT $2',
        'UPDATE orders SET note = $1 WHERE id = $2',
        'SELECT nothing FROM orders',
        'SELECT $1 + $2',
      );
      expect(section).toMatchObject({ checked: 3, skipped: { failedBefore: 2 }, slower: [] });
      expect(section.broken.map(({ sql, error }) => [sql, error])).toEqual([
        [
          'SELECT note FROM orders WHERE id = $1',
          { sqlstate: '42703', message: 'column "note" does not exist' },
        ],
        [
          'UPDATE orders SET note = $1 WHERE id = $2',
          { sqlstate: '42703', message: 'column "note" of relation "orders" does not exist' },
        ],
      ]);
    } finally {
      await drop();
    }
  });

  test('an UPDATE that can be prepared, and not run without a replica identity, is broken', async () => {
    const { session, settings, drop } = await scratch(
      version,
      `${SHOP}; CREATE PUBLICATION p FOR TABLE orders`,
    );
    try {
      const update = 'UPDATE orders SET note = $1 WHERE customer = $2';
      const migration = 'ALTER TABLE public.orders DROP CONSTRAINT orders_pkey';
      const section = await compared(settings, session, migration, update, 'INSERT INTO orders VALUES ($1)');
      expect(section.broken).toMatchObject([{ sql: update, error: { sqlstate: '55000' } }]);
      expect(section.checked).toBe(2);
    } finally {
      await drop();
    }
  });

  test('queries that return other columns fail in sessions that prepared them, and no others', async () => {
    const { session, settings, drop } = await scratch(version, SHOP);
    const texts = [
      'SELECT * FROM public.orders WHERE id = $1',
      'SELECT customer FROM public.orders WHERE id = $1',
      'SELECT id FROM public.orders WHERE id = $1',
      'UPDATE public.orders SET note = $2 WHERE id = $1',
    ];
    try {
      const failed = await trying(settings, async (own) => {
        const prepared = texts.map((text, index) => `PREPARE q${index} AS ${text}`);
        for (const sql of prepared) await own.query(sql);
        for (const index of texts.keys())
          await own.query(`EXECUTE q${index}(${index === 3 ? "1, 'x'" : '1'})`);
        const section = await compared(
          settings,
          session,
          'ALTER TABLE public.orders ADD COLUMN paid boolean, ALTER COLUMN customer TYPE bigint',
          ...texts,
        );
        const outcomes: string[] = [];
        for (const [index, text] of texts.entries())
          await own
            .query(`EXECUTE q${index}(${index === 3 ? "1, 'x'" : '1'})`)
            .catch(() => outcomes.push(text));
        expect(section.changedRow?.map(({ sql }) => sql)).toEqual(outcomes);
        return outcomes;
      });
      expect(failed).toEqual(texts.slice(0, 2));
    } finally {
      await drop();
    }
  });

  test('no query is run, nor a second one that is hidden behind the first', async () => {
    const { session, settings, drop } = await scratch(version, SHOP);
    try {
      const texts = ['DELETE FROM orders', 'SELECT 1; DROP TABLE orders', "SELECT pg_notify('a', 'b')"];
      const trials = await trying(settings, (own) => tryQueries(own, texts));
      expect(trials.map(({ error }) => error?.sqlstate ?? null)).toEqual([null, '42601', null]);
      const [row] = await session.query<{ count: string }>('SELECT count(*) FROM orders');
      expect(row?.count).toBe('50000');
    } finally {
      await drop();
    }
  });

  test('a query whose index is gone is slower, with both costs and the node that changed', async () => {
    const { session, settings, drop } = await scratch(version, SHOP);
    try {
      const section = await compared(
        settings,
        session,
        'DROP INDEX public.orders_customer_idx',
        'SELECT * FROM orders WHERE customer = $1',
        'SELECT * FROM orders WHERE id = $1',
      );
      expect(section).toMatchObject({ planned: true, broken: [] });
      expect(section.slower).toEqual([
        expect.objectContaining({
          sql: 'SELECT * FROM orders WHERE customer = $1',
          nodeBefore: expect.stringMatching(/(Index|Bitmap Heap) Scan.* on orders/),
          nodeAfter: 'Seq Scan on orders',
        }),
      ]);
      const [slower] = section.slower;
      expect(slower?.costAfter).toBeGreaterThan(10 * (slower?.costBefore ?? Number.POSITIVE_INFINITY));
    } finally {
      await drop();
    }
  });

  test('what pg_stat_statements makes of literals is understood all the same', async () => {
    const { session, settings, drop } = await scratch(version, SHOP);
    try {
      const section = await compared(
        settings,
        session,
        'ALTER TABLE public.orders DROP COLUMN note',
        'SELECT json_build_object($1, note) FROM orders',
        'SELECT json_build_object($1, id) FROM orders',
        'SELECT note FROM orders WHERE now() - interval $1 > date $2',
        'SELECT id FROM orders WHERE now() - interval $1 > date $2',
      );
      expect(section.checked).toBe(4);
      expect(section.broken.map(({ sql }) => sql)).toEqual([
        'SELECT json_build_object($1, note) FROM orders',
        'SELECT note FROM orders WHERE now() - interval $1 > date $2',
      ]);
    } finally {
      await drop();
    }
  });

  test('names are found by the search path of the database, as the application finds them', async () => {
    const { session, settings, drop } = await scratch(
      version,
      'CREATE SCHEMA app; CREATE TABLE app.things (id int)',
    );
    try {
      await session.query(`ALTER DATABASE ${settings.database} SET search_path = app`);
      const [trial] = await trying(settings, (own) => tryQueries(own, ['SELECT id FROM things']));
      expect(trial?.error).toBeNull();
    } finally {
      await drop();
    }
  });
});

describe.each(OLDEST_AND_NEWEST)('pg_stat_statements on %d', (version) => {
  let server: Server;
  let url: string;

  beforeAll(async () => {
    server = await ownServer(version, {
      settings: { shared_preload_libraries: 'pg_stat_statements', autovacuum: 'off' },
    });
    url = withDatabase(server.url, 'shop');
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  });
  afterAll(() => server.stop());

  const read = async (user?: string) => {
    const settings = parseSettings(url, readEnvironment({}, '.'));
    return trying(
      settings,
      async (session) => {
        const [row] = await session.query<{ oid: string }>(
          'SELECT oid::int8 AS oid FROM pg_database WHERE datname = current_database()',
        );
        return readStatStatements(session, Number(row?.oid));
      },
      user === undefined ? {} : { user, password: 'secret' },
    );
  };

  test('is read with calls per second where it is installed, without utility statements and other databases', async () => {
    expect(await read()).toMatchObject({ unreadable: expect.stringContaining('not installed') });
    await withClient(url, async (client) => {
      await client.query('CREATE SCHEMA stats; CREATE EXTENSION pg_stat_statements SCHEMA stats');
      await client.query(SHOP);
      await client.query('SELECT stats.pg_stat_statements_reset()');
      for (let n = 0; n < 10; n++) await client.query(`SELECT note FROM orders WHERE id = ${n}`);
      await client.query('VACUUM orders');
    });
    await withClient(server.url, (client) => client.query('SELECT 4711 AS elsewhere'));
    const found = await read();
    if ('unreadable' in found) throw new Error(found.unreadable);
    const query = found.queries.find(({ sql }) => sql.includes('FROM orders'));
    expect(query).toMatchObject({ sql: 'SELECT note FROM orders WHERE id = $1', calls: 10 });
    expect(query?.callsPerSecond).toBeGreaterThan(0);
    expect(query?.callsPerSecond).toBeLessThanOrEqual(10);
    expect(found).toMatchObject({ source: 'pg_stat_statements', utility: 1, hidden: 0 });
    expect(found.queries.some(({ sql }) => sql.includes('elsewhere'))).toBe(false);
    expect(found.countedSince === null).toBe(version >= 17);
  });

  test('texts that are hidden from the role are counted', async () => {
    await withClient(url, async (client) => {
      await client.query("CREATE ROLE clerk LOGIN PASSWORD 'secret'");
      await client.query('GRANT USAGE ON SCHEMA stats TO clerk');
      await client.query('SELECT stats.pg_stat_statements_reset()');
      await client.query('SELECT 1 AS hidden');
    });
    const found = await read('clerk');
    if ('unreadable' in found) throw new Error(found.unreadable);
    expect(found.hidden).toBeGreaterThan(0);
    expect(found.queries.some(({ sql }) => sql.includes('hidden'))).toBe(false);
  });
});

test('a query that is only slower until its tables are analyzed says so, one that lacks an index does not', async () => {
  const { session, settings, drop } = await scratch(
    18,
    `${SHOP}; CREATE TABLE tags (tag text, n int); CREATE INDEX ON tags (tag);
     INSERT INTO tags SELECT 'tag ' || n, n FROM generate_series(1, 50000) n; ANALYZE tags`,
  );
  try {
    const texts = ['SELECT n FROM tags WHERE tag = $1', 'SELECT id FROM orders WHERE customer = $1'];
    const before = await trying(settings, (own) => tryQueries(own, texts));
    await session.query(`ALTER TABLE public.tags ALTER tag TYPE varchar USING tag || '';
      DROP INDEX public.orders_customer_idx`);
    const after = await trying(settings, (own) => tryQueries(own, texts));
    const source = listed(...texts);
    const section = compareQueries(source, before, after);
    expect(section.slower.map(({ sql }) => sql)).toEqual(texts);
    const trials = { source, before, after };
    const found = await trying(settings, (own) =>
      withoutStatistics(own, section, trials, async ({ queries }) => ({
        trials: await tryQueries(
          own,
          queries.map(({ sql }) => sql),
        ),
      })),
    );
    expect(found.slower.map(({ untilAnalyzed }) => untilAnalyzed)).toEqual([['public.tags'], undefined]);
  } finally {
    await drop();
  }
});

test('a connection that is lost meanwhile is no fault of the queries', async () => {
  const { session, settings, drop } = await scratch(18);
  try {
    await trying(settings, async (own) => {
      await session.query('SELECT pg_terminate_backend($1)', [own.pid]);
      await expect(tryQueries(own, ['SELECT 1'])).rejects.toMatchObject({ code: 'LOST' });
    });
  } finally {
    await drop();
  }
});

test('what breaks in the middle of many does not disturb those around it', async () => {
  const { settings, drop } = await scratch(18);
  try {
    const texts = Array.from({ length: 300 }, (_, n) => (n % 3 === 0 ? 'SELECT nothing' : `SELECT ${n}`));
    const trials = await trying(settings, (own) => tryQueries(own, texts));
    expect(trials.map(({ error, plan }) => [error === null, plan === null])).toEqual(
      texts.map((_, n) => (n % 3 === 0 ? [false, true] : [true, false])),
    );
  } finally {
    await drop();
  }
});
