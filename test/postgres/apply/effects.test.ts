import { afterAll, beforeAll, expect, test } from 'vitest';
import { effectsOf } from '../../../src/apply/effects.ts';
import type { Fate } from '../../../src/apply/own-transaction-ids.ts';
import type { StatementSection, TransactionSection } from '../../../src/model/report.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../../helpers/database.ts';
import { useOwnServers } from '../../helpers/servers.ts';

let target: TemporaryDatabase;
let session: Session;

beforeAll(async () => {
  await useOwnServers(18);
  target = await temporaryDatabase(18, {
    sql: `CREATE FUNCTION tidy_up() RETURNS void LANGUAGE sql AS '';
          CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 2 * $1'`,
  });
  session = await openSession(parseSettings(target.url, readEnvironment({}, '.')), { purpose: 'test' });
});

afterAll(async () => {
  await session.close();
  await target.drop();
});

function seen(sql: string, outcome: TransactionSection['outcome'], sqlstate?: string) {
  const startedAt = '2026-03-14T02:11:07.120Z';
  const failure = sqlstate === undefined ? null : { sqlstate };
  const statement = { index: 1, sql, transaction: 1, explicit: false, startedAt, error: failure };
  const transaction = { transaction: 1, session: 1, startedAt, endedAt: startedAt, outcome };
  // Of a statement no more is read than this.
  return { statements: [statement as unknown as StatementSection], transactions: [transaction] };
}

const effects = (what: ReturnType<typeof seen>, fates = new Map<number, Fate>()) =>
  effectsOf(what, fates, session);

test.each([
  'INSERT INTO t VALUES (1)',
  'WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone',
  'SELECT 1 AS one INTO made',
  "SELECT setval('s', 1)",
  'SELECT tidy_up()',
  'SELECT public.tidy_up()',
  'COPY t FROM STDIN',
  'EXPLAIN ANALYZE INSERT INTO t VALUES (1)',
  'EXPLAIN ANALYZE CREATE TABLE made AS SELECT 1',
  'CREATE INDEX CONCURRENTLY ON t (id)',
  '[a text of 3 MB]',
  'CALL clean()',
])('effectsOf() counts as a write: %s', async (sql) => {
  expect((await effects(seen(sql, 'committed'))).committed).toMatchObject([{ sql, outcome: 'committed' }]);
  expect((await effects(seen(sql, 'rolled back'))).rolledBack).toMatchObject([{ sql }]);
});

test.each([
  'SELECT pg_advisory_lock(1), now(), count(*) FROM t',
  'SELECT twice(2)',
  'SET lock_timeout = 1000',
  'BEGIN',
  'COPY t TO STDOUT',
  'EXPLAIN SELECT 1',
  'LOCK TABLE t',
  'NOTIFY news',
  'SHOW server_version',
])('effectsOf() does not count as a write: %s', async (sql) => {
  expect(await effects(seen(sql, 'committed'))).toMatchObject({ committed: [], rolledBack: [] });
});

test('effectsOf() counts a note instead of a text as a write, except for the end of a transaction', async () => {
  const noted = (note: StatementSection['note']) => {
    const { statements, transactions } = seen('[a note]', 'rolled back', '23503');
    return { statements: statements.map((statement) => ({ ...statement, note })), transactions };
  };
  expect((await effects(noted('unread'))).rolledBack).toHaveLength(1);
  expect((await effects(noted('prepared elsewhere'))).rolledBack).toHaveLength(1);
  expect((await effects(noted('implicit end'))).rolledBack).toEqual([]);
});

test('effectsOf() counts every function as a write if the server cannot be asked', async () => {
  const { committed } = await effectsOf(seen('SELECT twice(2)', 'committed'), new Map(), null);
  expect(committed).toHaveLength(1);
});

test('a statement that failed counts as rolled back, although its transaction was committed', async () => {
  const { committed, rolledBack } = await effects(seen('INSERT INTO t VALUES (1)', 'committed', '23505'));
  expect([committed.length, rolledBack.length]).toEqual([0, 1]);
});

test.each(['committed', 'rolled back', 'unknown'] as const)(
  'a statement cut off by a lost connection has the fate of its transaction: %s',
  async (fate) => {
    const cut = seen('INSERT INTO t VALUES (1)', 'rolled back', '08006');
    const { committed, rolledBack, transactions } = await effects(cut, new Map([[1, fate]]));
    expect([...committed, ...rolledBack]).toMatchObject([{ outcome: fate }]);
    expect(transactions).toMatchObject([{ outcome: fate }]);
  },
);
