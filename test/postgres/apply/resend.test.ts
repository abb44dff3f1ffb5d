import { Client } from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import { encodeMessage, query } from '../../../src/postgres/protocol/messages.ts';
import { until } from '../../helpers/cutting.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../../helpers/database.ts';
import { type Guarded, withGuarded } from '../../helpers/guarded.ts';
import { pending } from '../../helpers/pending.ts';
import { RawClient } from '../../helpers/raw-client.ts';

const TABLES = `create table t (id int primary key, v text); insert into t select n, n from generate_series(1, 3) n;
  create table other (id int)`;
const ALTER = 'alter table t add column c int';
const LOCK_TIMEOUT_MS = 150;
const SETTINGS = { lock_timeout: String(LOCK_TIMEOUT_MS) };

const clients: Client[] = [];
const databases: TemporaryDatabase[] = [];

async function made(version: ServerVersion): Promise<TemporaryDatabase> {
  const database = await temporaryDatabase(version, { sql: TABLES });
  databases.push(database);
  return database;
}

/** Ends with the test at the latest. */
async function reading(database: TemporaryDatabase, table: string): Promise<Client> {
  const client = new Client({ connectionString: database.url });
  client.on('error', () => {});
  await client.connect();
  clients.push(client);
  await client.query(`begin; select count(*) from ${table}`);
  return client;
}

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.end()));
  for (const database of databases.splice(0)) await database.drop();
});

const statementsOf = (text: string) => text.split(';').map((sql) => sql.trim());

/** All of the texts was rehearsed. */
async function guarded<T>(
  database: TemporaryDatabase,
  texts: readonly string[],
  use: (guarded: Guarded) => Promise<T>,
  options: Parameters<typeof withGuarded>[2] = {},
): Promise<T> {
  const rehearsed = texts.flatMap((text) => [text, ...statementsOf(text)]);
  return await withGuarded(database.url, rehearsed, { lockTimeoutMs: LOCK_TIMEOUT_MS, ...options }, use);
}

const untilAgain = (notices: readonly string[], count = 1) =>
  until('it is to be sent again', async () => {
    return notices.filter((notice) => notice.includes('retry in')).length >= count;
  });

/** What a client of such a database is told that nobody stands before. */
async function directly(database: TemporaryDatabase, ...texts: string[]): Promise<string[]> {
  const client = await RawClient.connect(database.url, SETTINGS);
  const told: string[] = [];
  for (const text of texts) told.push(...(await client.query(text)));
  await client.close();
  return told;
}

/** From 19 on a lock timeout names the table that was waited for by its number, which is another one in each database. */
const withoutNumbers = (told: readonly string[]) =>
  told.map((line) => line.replace(/(on relation )\d+( of database )\d+/, '$1…$2…'));

const types = (told: readonly string[]) => told.map((line) => line[0]).join('');

// What is kept back and sent again is the proxy's own doing, the same with every server.
describe.each([18] as const)('a multi-statement query on PostgreSQL %i', (version) => {
  let database: TemporaryDatabase;
  const columns = async () => {
    const { fields } = await withClient(database.url, (client) => client.query('select * from t limit 0'));
    return fields.map(({ name }) => name);
  };
  const fresh = async () => {
    database = await made(version);
    return database;
  };

  test('a multi-statement query is retried as a whole, and the client sees one response', async () => {
    await fresh();
    const sent = [
      'select id, v from t order by id',
      "do $$ begin raise notice 'told once'; end $$",
      "set application_name = 'once'",
      ALTER,
      "insert into t values (3000, 'x')",
    ];
    const text = sent.join(';\n');
    const expected = await directly(await made(version), text);
    expect(types(expected)).toBe('TDDDCNCCCCSZ');
    await guarded(database, sent, async ({ url, wire, notices, events }) => {
      const reader = await reading(database, 't');
      const client = await RawClient.connect(url);
      const told = pending(client.query(text));
      await untilAgain(notices, 2);
      expect(client.upstream.socket.bytesRead).toBeLessThan(1_000);
      await reader.end();
      expect(await told).toEqual(expected);
      await client.close();
      await wire.end();
      const [retry, ...others] = wire.happened()?.retries ?? [];
      expect(retry).toMatchObject({ sql: ALTER, outcome: 'went on' });
      expect(others).toEqual([]);
      expect(events.filter(({ type }) => type === 'undone')).toHaveLength(retry?.failed ?? 0);
      expect(events.filter(({ type }) => type === 'transaction-end')).toMatchObject([
        { outcome: 'committed' },
      ]);
      const { statements, transactions } = await wire.statements({ tree: new Map() });
      expect(statements.map(({ index, sql, error }) => [index, sql, error])).toEqual(
        sent.map((sql, at) => [at + 1, sql, null]),
      );
      expect(transactions).toHaveLength(1);
    });
    expect(await columns()).toEqual(['id', 'v', 'c']);
  });

  test('a failed attempt of a multi-statement query sends no rows to the client, wherever they are split', async () => {
    // The server sends 8 kB at a time, so that its pieces begin within rows: with what might be the type of a message.
    const sent = ["select repeat('A', 3000), pg_sleep(0.02) from generate_series(1, 18)", ALTER];
    const text = sent.join('; ');
    const expected = await directly(await made(version), text);
    await fresh();
    await guarded(database, sent, async ({ url, notices }) => {
      const reader = await reading(database, 't');
      const client = await RawClient.connect(url);
      const told = pending(client.query(text));
      await untilAgain(notices);
      await reader.end();
      expect(await told).toEqual(expected);
      await client.close();
    });
  });

  test('a multi-statement query is retried for another statement that fails next', async () => {
    await fresh();
    const second = 'alter table other add column c int';
    const text = `${ALTER}; ${second}`;
    await guarded(database, [text], async ({ url, wire, notices }) => {
      const [one, two] = [await reading(database, 't'), await reading(database, 'other')];
      const client = await RawClient.connect(url);
      const told = pending(client.query(text));
      await untilAgain(notices);
      await one.end();
      await until('the second is in the way', async () =>
        notices.some((each) => each.includes('other') && each.includes('retry in')),
      );
      await two.end();
      expect(types(await told)).toBe('CCZ');
      await client.close();
      await wire.end();
      expect(wire.happened()?.retries).toMatchObject([
        { sql: ALTER, outcome: 'went on' },
        { sql: second, outcome: 'went on' },
      ]);
    });
  });

  test('a multi-statement query that is the victim of a deadlock is retried, unless retryOn leaves that out', async () => {
    await fresh();
    const second = 'alter table other add column c int';
    const text = `${ALTER}; ${second}`;
    await withClient(database.url, (client) =>
      client.query(`alter database ${database.name} set deadlock_timeout = '2s'`),
    );
    const deadlocked = async ({ url, wire }: Guarded, whenRetried: () => Promise<unknown>) => {
      const other = await reading(database, 'other');
      await other.query("set deadlock_timeout = '1h'");
      const client = await RawClient.connect(url);
      const told = pending(client.query(text));
      await withClient(database.url, (free) =>
        until('it waits', async () => {
          const waits = "select 1 from pg_locks where not granted and relation = 'other'::regclass";
          return (await free.query(waits)).rowCount === 1;
        }),
      );
      await other.query('lock table t in access share mode');
      await whenRetried();
      await other.end();
      const answer = await told;
      await client.close();
      await wire.end();
      return { answer, retries: wire.happened()?.retries };
    };
    const left = { lockTimeoutMs: 60_000, retryOn: ['lock-timeout'] } as const;
    await guarded(
      database,
      [text],
      async (parts) => {
        const { answer, retries } = await deadlocked(parts, async () => {});
        expect(types(answer)).toBe('CEZ');
        expect(answer[1]).toContain('C=40P01');
        expect(retries).toEqual([]);
      },
      left,
    );
    await guarded(
      database,
      [text],
      async (parts) => {
        const { answer, retries } = await deadlocked(parts, () => untilAgain(parts.notices));
        expect(types(answer)).toBe('CCZ');
        expect(retries).toMatchObject([{ sql: second, failed: 1, causes: ['deadlock'], outcome: 'went on' }]);
      },
      { lockTimeoutMs: 60_000 },
    );
    expect(await columns()).toEqual(['id', 'v', 'c']);
  });

  test('a multi-statement query gets its error and everything before it once the attempts are used up', async () => {
    await fresh();
    const text = `select v from t where id < 3; ${ALTER}; select 1`;
    await guarded(
      database,
      [text],
      async ({ url, wire, events }) => {
        await reading(database, 't');
        const expected = await directly(database, text);
        expect(types(expected)).toBe('TDDCEZ');
        const client = await RawClient.connect(url);
        expect(await client.query(text)).toEqual(expected);
        expect(types(await client.query('select 1'))).toBe('TDCZ');
        await client.close();
        await wire.end();
        expect(wire.happened()?.retries).toMatchObject([{ sql: ALTER, failed: 2, outcome: 'gave up' }]);
        expect(events.filter(({ type }) => type === 'transaction-end')).toMatchObject([
          { outcome: 'rolled back' },
          { outcome: 'committed' },
        ]);
      },
      { retryCount: 1 },
    );
  });

  const once: [name: string, text: string][] = [
    ['with a response of more than 64 kB', `select repeat('x', 70000); ${ALTER}`],
    [
      'with a response of more than 64 kB in many rows',
      `select repeat('x', 100) from generate_series(1, 700); ${ALTER}`,
    ],
    ['with a COMMIT in it', `create table made (id int); commit; ${ALTER}`],
    ['with a BEGIN in it', `begin; create table made (id int); ${ALTER}`],
    ['that copies out', `copy (select 1) to stdout; ${ALTER}`],
    ['with PREPARE, which no rollback undoes', `prepare p as select 1; ${ALTER}`],
    ['with a session advisory lock, which no rollback releases', `select pg_advisory_lock(7); ${ALTER}`],
    ['with NOWAIT', 'select 1; select v from t where id = 1 for update nowait'],
  ];
  test.each(once)('a multi-statement query %s is not retried', async (_name, text) => {
    await fresh();
    const nowait = text.includes('nowait');
    await guarded(database, [text], async ({ url, wire, events }) => {
      const other = await reading(database, 't');
      if (nowait) await other.query('select v from t where id = 1 for update');
      const expected = await directly(await twin(), text);
      const client = await RawClient.connect(url);
      const told = await client.query(text);
      expect(withoutNumbers(told)).toEqual(withoutNumbers(expected));
      expect(told.filter((line) => line.startsWith('E')).join()).toContain('C=55P03');
      await client.query('rollback');
      await client.close();
      await wire.end();
      expect(wire.happened()?.retries).toEqual([]);
      expect(events.filter(({ type }) => type === 'undone')).toEqual([]);
    });

    /** Another database where the same is in the way. */
    async function twin(): Promise<TemporaryDatabase> {
      const same = await made(version);
      const other = await reading(same, 't');
      if (nowait) await other.query('select v from t where id = 1 for update');
      return same;
    }
  });

  test('a multi-statement query with COPY FROM STDIN is not retried', async () => {
    await fresh();
    const text = `copy other from stdin; ${ALTER}`;
    await guarded(database, [text], async ({ url, wire }) => {
      await reading(database, 't');
      const client = await RawClient.connect(url);
      client.send(query(text));
      expect(types(await client.until('G'))).toBe('G');
      client.send(encodeMessage('d'.charCodeAt(0), '1\n'), encodeMessage('c'.charCodeAt(0)));
      expect(types(await client.until('Z'))).toBe('CEZ');
      await client.close();
      await wire.end();
      expect(wire.happened()?.retries).toEqual([]);
    });
  });

  test('a multi-statement query inside a transaction of the command is not retried', async () => {
    await fresh();
    const text = `select 1; ${ALTER}`;
    await guarded(database, [text], async ({ url, wire }) => {
      await reading(database, 't');
      const client = await RawClient.connect(url);
      await client.query('begin');
      expect(types(await client.query(text))).toBe('TDCEZ');
      await client.close();
      await wire.end();
      expect(wire.happened()?.retries).toEqual([]);
    });
  });

  test('a retried multi-statement query delays and loses no notification', async () => {
    await fresh();
    const text = `select 1; ${ALTER}`;
    const notify = async ({ url, wire, notices }: Guarded) => {
      const reader = await reading(database, 't');
      const other = new Client({ connectionString: database.url });
      await other.connect();
      clients.push(other);
      const client = await RawClient.connect(url);
      await client.query('listen c');
      client.send(query(text));
      await until('it waits for its lock', async () => {
        const { rowCount } = await other.query(
          "select 1 from pg_locks where not granted and relation = 't'::regclass",
        );
        return rowCount === 1;
      });
      await other.query("notify c, 'attempt'");
      expect(notices.join()).not.toContain('retry in');
      await untilAgain(notices);
      await other.query("notify c, 'pause'");
      expect(
        (await client.until('A', 2)).map((line) => line.replace(/^(A).*c\\u0000(\w+).*$/, '$1 $2')),
      ).toEqual(['A attempt', 'A pause']);
      await reader.end();
      expect(types(await client.until('Z'))).toBe('TDCCZ');
      await client.close();
      await wire.end();
    };
    await guarded(database, ['listen c', text], notify, { lockTimeoutMs: 1_500 });
  });

  test('a multi-statement query is not retried once its client has gone', async () => {
    await fresh();
    const text = `select 1; ${ALTER}`;
    await guarded(database, [text], async ({ url, notices, events }) => {
      const reader = await reading(database, 't');
      const client = await RawClient.connect(url);
      client.send(query(text));
      await untilAgain(notices);
      const begun = () => events.filter(({ type }) => type === 'begin').length;
      const before = begun();
      client.upstream.socket.resetAndDestroy();
      await reader.end();
      await until('the session has ended', async () => events.some(({ type }) => type === 'session-end'));
      expect(begun()).toBe(before);
      expect(events.filter(({ type }) => type === 'transaction-end')).toMatchObject([
        { outcome: 'rolled back' },
      ]);
    });
    expect(await columns()).toEqual(['id', 'v']);
  });

  test('a multi-statement query that the server cuts off passes on what the server sent before', async () => {
    await fresh();
    const text = `select 1; ${ALTER}`;
    await guarded(
      database,
      [text],
      async ({ url, events }) => {
        const reader = await reading(database, 't');
        const client = await RawClient.connect(url);
        client.send(query(text));
        await until('it waits for its lock', async () => {
          const { rowCount } = await reader.query(
            "select pg_terminate_backend(pid) from pg_locks where not granted and relation = 't'::regclass",
          );
          return rowCount === 1;
        });
        const told = await client.until('Z');
        expect(types(told)).toBe('TDCE(');
        expect(told[3]).toContain('C=57P01');
        await until('the session has ended', async () => events.some(({ type }) => type === 'session-end'));
      },
      { lockTimeoutMs: 60_000 },
    );
  });

  test('a multi-statement query holds no lock during the pauses', async () => {
    await fresh();
    const text = `insert into other values (1); ${ALTER}`;
    await guarded(database, [text], async ({ url, notices }) => {
      const reader = await reading(database, 't');
      const client = await RawClient.connect(url);
      const told = pending(client.query(text));
      await untilAgain(notices);
      await withClient(database.url, (free) => free.query("set lock_timeout = '200ms'; lock table other"));
      await reader.end();
      expect(types(await told)).toBe('CCZ');
      await client.close();
    });
    const { rows } = await withClient(database.url, (client) => client.query('select id from other'));
    expect(rows).toEqual([{ id: 1 }]);
  });
});
