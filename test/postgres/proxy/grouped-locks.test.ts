import { expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { withProxy } from '../../helpers/proxy.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

/** As in src/proxy/lock-ledger.ts. */
const QUICK_MS = 20;

/** Sends statements one by one; returns of each how its locks are known, and the relations that it added locks on. */
async function sentOneByOne(version: ServerVersion, setup: string, sent: readonly string[]) {
  const database = await temporaryDatabase(version, { sql: setup });
  return await withProxy(database.url, {}, async ({ url, statements, events }) => {
    await withClient(url, async (client) => {
      for (const sql of sent) await client.query(sql).catch(() => {});
    });
    const names = await withClient(database.url, async (client) => {
      const { rows } = await client.query('select oid::int, relname from pg_class');
      return new Map(rows.map(({ oid, relname }) => [oid, relname]));
    });
    const readings = events.filter(({ type }) => type === 'reading').length;
    const seen = statements().map(({ statement, outcome, locks }) => ({
      sql: statement.sql,
      isQuick: (outcome?.durationMs ?? 0) < QUICK_MS,
      exactness: locks?.exactness,
      locks: locks?.locks
        ?.filter(({ mode }) => mode === 'AccessExclusiveLock' || mode === 'ShareRowExclusiveLock')
        .map(({ relation, mode }) => `${mode} ${names.get(relation)}`),
    }));
    return { readings, seen };
  });
}

const columns = (table: string, count: number) =>
  Array.from({ length: count }, (_, at) => `alter table ${table} add column c${at} int`);

test.each(OLDEST_AND_NEWEST)(
  'the locks of ALTER TABLE on one table in one transaction are read twice for all, on PostgreSQL %d',
  async (version) => {
    const sent = ['begin', ...columns('t', 30), 'commit'];
    const { readings, seen } = await sentOneByOne(version, 'create table t (id int)', sent);
    expect(seen.map(({ sql }) => sql)).toEqual(sent);
    const [, first, ...others] = seen.slice(0, -1);
    expect(first).toMatchObject({ exactness: 'exact', locks: ['AccessExclusiveLock t'] });
    expect(others.flatMap(({ locks }) => locks)).toEqual([]);
    // On a busy machine some take long enough to have their locks read.
    const quick = others.filter(({ isQuick }) => isQuick);
    expect(quick.length).toBeGreaterThan(0);
    expect(readings).toBeLessThanOrEqual(6 + 2 * (others.length - quick.length));
  },
);

test('what one of them locks beyond the others is not lost', async () => {
  const sent = [
    'begin',
    ...columns('t', 2),
    'alter table t add column r int references other',
    'alter table t add column last int',
    'select 1',
    'commit',
  ];
  const { seen } = await sentOneByOne(
    18,
    'create table t (id int); create table other (id int primary key)',
    sent,
  );
  const all = seen.flatMap(({ locks }) => locks ?? []);
  expect(all).toContain('ShareRowExclusiveLock other');
  expect(all.filter((lock) => lock === 'AccessExclusiveLock t')).toEqual(['AccessExclusiveLock t']);
});

test('locks that a savepoint released are found again', async () => {
  const sent = [
    'begin',
    'savepoint s',
    ...columns('t', 2),
    'rollback to s',
    ...columns('t', 2),
    'select count(*) from other',
    'commit',
  ];
  const { seen } = await sentOneByOne(18, 'create table t (id int); create table other (id int)', sent);
  const behind = seen.slice(seen.findIndex(({ sql }) => sql === 'rollback to s'));
  expect(behind.flatMap(({ locks }) => locks ?? [])).toContain('AccessExclusiveLock t');
});

const SLOW = `create table t (id int, v text); insert into t values (1, 'x');
  create function slow(v text) returns text immutable language plpgsql as 'begin perform pg_sleep(0.05); return v; end'`;

test('a slow statement has its own locks, whatever was like it before', async () => {
  const sent = ['begin', 'create index a on t (v)', 'create index b on t (slow(v))', 'commit'];
  const { seen } = await sentOneByOne(18, SLOW, sent);
  expect(seen.map(({ exactness }) => exactness).slice(1, 3)).toEqual(['exact', 'exact']);
});

test.each([
  ['simple', undefined],
  ['extended', ['x']],
])(
  'the locks of a loop in one transaction are read from time to time, so that it takes no memory (%s)',
  async (_, values) => {
    const database = await temporaryDatabase(18, { sql: 'create table t (v text)' });
    await withProxy(database.url, {}, async ({ url, events }) => {
      await withClient(url, async (client) => {
        await client.query('begin');
        for (let at = 0; at < 2500; at++)
          await client.query(
            values ? { text: 'insert into t values ($1)', values } : "insert into t values ('x')",
          );
        const known = events.flatMap((event) => (event.type === 'locks' ? event.statements : []));
        expect(known.length).toBeGreaterThan(2000);
        await client.query('commit');
      });
    });
  },
);
