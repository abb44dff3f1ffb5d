import { describe, expect, test } from 'vitest';
import type { RunEvent } from '../../../src/events.ts';
import { statementSection } from '../../../src/model/statement-model.ts';
import { Sampler, SlowStatements } from '../../../src/observe/sampler.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Observed, Statement } from '../../../src/proxy/observed.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { pending } from '../../helpers/pending.ts';
import { reportedStatements } from '../../helpers/reported-statements.ts';
import { VERSIONS } from '../../helpers/servers.ts';

describe('the report tells of every statement', () => {
  test.each(VERSIONS)(
    'once, also of what the server refuses between our own BEGIN and COMMIT, on PostgreSQL %d',
    async (version) => {
      const database = await temporaryDatabase(version, {
        sql: `create table parted (id int) partition by range (id); create index parted_id on parted (id);
          create table part partition of parted for values from (0) to (9)`,
      });
      const sent = ['reindex table parted', 'reindex index parted_id'];
      const { statements } = await reportedStatements(database, (url) =>
        withClient(url, async (client) => {
          for (const sql of sent) await client.query(sql);
        }),
      );
      expect(statements.map(({ sql, error }) => [sql, error])).toEqual(sent.map((sql) => [sql, null]));
    },
  );

  test('its locks by name, how long they were held, and what they block', async () => {
    const database = await temporaryDatabase(18, { sql: 'create table "Orders" (id int)' });
    const { statements } = await reportedStatements(database, (url) =>
      withClient(url, async (client) => {
        await client.query('begin');
        await client.query('alter table "Orders" add column v text');
        await client.query('select pg_sleep(0.1)');
        await client.query('commit');
      }),
    );
    for (const statement of statements) expect(statementSection.parse(statement)).toEqual(statement);
    const altering = statements[1];
    expect(altering).toMatchObject({ index: 2, tag: 'ALTER TABLE', explicit: true, exactness: 'exact' });
    const lock = altering?.locks?.find(({ relation }) => relation === 'public."Orders"');
    expect(lock).toMatchObject({
      mode: 'ACCESS EXCLUSIVE',
      acquiredBy: 'ALTER TABLE',
      blocks: ['reads', 'row locks', 'writes', 'vacuum', 'DDL'],
    });
    expect(lock?.heldMs).toBeGreaterThanOrEqual(100);
  });

  test('the ten statements of one message, each with its own time and locks', async () => {
    const database = await temporaryDatabase(18);
    const text = Array.from({ length: 10 }, (_, index) => `create table made_${index} (id int)`).join(';\n');
    const { statements } = await reportedStatements(database, (url) =>
      withClient(url, async (client) => void (await client.query(text))),
    );
    expect(statements).toHaveLength(10);
    expect(statements.map(({ locks }) => locks?.map(({ relation }) => relation))).toEqual(
      Array.from({ length: 10 }, (_, index) => [`public.made_${index}`]),
    );
    expect(new Set(statements.map(({ exactness }) => exactness))).toEqual(new Set(['exact']));
    expect(new Set(statements.map(({ transaction }) => transaction)).size).toBe(1);
  });

  test("a failed one's error, and that its locks are unknown", async () => {
    const database = await temporaryDatabase(18, { sql: 'create table t (id int)' });
    const { statements } = await reportedStatements(database, (url) =>
      withClient(
        url,
        async (client) => void (await client.query('alter table t add id int').catch(() => {})),
      ),
    );
    expect(statements[0]).toMatchObject({ exactness: 'unknown', locks: null, error: { sqlstate: '42701' } });
  });

  test('the like of a loop by the locks of the first', async () => {
    const database = await temporaryDatabase(18, { sql: 'create table t (id int)' });
    const { statements } = await reportedStatements(database, (url) =>
      withClient(url, async (client) => {
        for (let index = 0; index < 5; index++) await client.query(`insert into t values (${index})`);
      }),
    );
    expect(statements.map(({ exactness }) => exactness)).toEqual([
      'exact',
      'group',
      'group',
      'group',
      'group',
    ]);
    for (const { locks } of statements)
      expect(locks).toMatchObject([{ relation: 'public.t', mode: 'ROW EXCLUSIVE' }]);
  });

  test('what CREATE INDEX CONCURRENTLY held and waited for, as it was sampled', async () => {
    const database = await temporaryDatabase(18, {
      sql: 'create table t as select g from generate_series(1, 1000) g',
    });
    const { statements, samples } = await reportedStatements(database, async (url) => {
      await withClient(database.url, async (writer) => {
        await writer.query('begin; update t set g = 0 where g = 1');
        const { rows } = await writer.query<{ pid: number }>('select pg_backend_pid() as pid');
        await withClient(url, async (client) => {
          const created = pending(client.query('create index concurrently made on t (g)'));
          await waitsFor(database.url, rows[0]?.pid ?? 0);
          await writer.query('select pg_sleep(0.2)');
          await writer.query('commit');
          await created;
        });
      });
    });
    expect(statements[0]).toMatchObject({ tag: 'CREATE INDEX', exactness: 'sampled' });
    expect(statements[0]?.locks).toContainEqual(
      expect.objectContaining({ relation: 'public.t', mode: 'SHARE UPDATE EXCLUSIVE' }),
    );
    expect(
      samples.some(
        ({ wait, progress }) => wait?.startsWith('Lock') && progress?.command === 'CREATE INDEX CONCURRENTLY',
      ),
    ).toBe(true);
    expect(samples.some(({ blockedBy }) => blockedBy.length > 0)).toBe(true);
  });

  test('and none is called slow while it is not in the server, or by the time of earlier attempts', async () => {
    const database = await temporaryDatabase(18);
    const settings = parseSettings(database.url, readEnvironment({}, '/'));
    const notices: RunEvent[] = [];
    const slow = new SlowStatements((event) => notices.push(event));
    const seen: (number | null)[] = [];
    const sampler = new Sampler(
      () => openSession(settings, { purpose: 'observe', database: 'postgres' }),
      (sample) => {
        seen.push(sample.runningMs);
        slow.sample(sample);
      },
    );
    await withClient(database.url, async (client) => {
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
      const startedAt = new Date(Date.now() - 10_000);
      const { pid } = rows[0] ?? {};
      const statement = { id: 0, session: 1, pid, sql: 'alter table t add x int', startedAt } as Statement;
      sampler.observe({ type: 'begin', statement } as Observed);
      await expect.poll(() => seen).toContain(null);
      const again = client.query('select pg_sleep(2)');
      await expect.poll(() => seen.some((ms) => ms !== null)).toBe(true);
      await again;
    });
    await sampler.close();
    expect(Math.max(...seen.map((ms) => ms ?? 0))).toBeLessThan(10_000);
    expect(notices).toEqual([]);
  });

  test('all 1,500 locks of one transaction', async () => {
    const tables = Array.from({ length: 1500 }, (_, index) => `create table t_${index} (id int)`);
    const database = await temporaryDatabase(18);
    for (let from = 0; from < tables.length; from += 300)
      await withClient(database.url, (client) => client.query(tables.slice(from, from + 300).join(';')));
    const names = tables.map((_, index) => `t_${index}`);
    const { statements } = await reportedStatements(database, (url) =>
      withClient(url, async (client) => {
        await client.query('begin');
        await client.query(`lock table ${names.join(', ')} in share mode`);
        await client.query('commit');
      }),
    );
    expect(statements[1]?.locks).toHaveLength(1500);
  });
});

/** Waits until some session waits for the transaction of the process. */
async function waitsFor(url: string, pid: number): Promise<void> {
  await withClient(url, (client) =>
    expect
      .poll(
        async () =>
          (
            await client.query(
              'select 1 from pg_stat_activity where $1 = any (pg_blocking_pids(pid)) and datname = current_database()',
              [pid],
            )
          ).rowCount,
        { timeout: 60_000 },
      )
      .toBe(1),
  );
}
