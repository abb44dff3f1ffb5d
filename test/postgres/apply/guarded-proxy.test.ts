import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import { order } from '../../../src/apply/guardrails/control.ts';
import { query } from '../../../src/postgres/protocol/messages.ts';
import { until } from '../../helpers/cutting.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../../helpers/database.ts';
import { bindFrames, executeFrame, parseFrame, syncFrame } from '../../helpers/frames.ts';
import { withGuarded } from '../../helpers/guarded.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { pending } from '../../helpers/pending.ts';
import { RawClient } from '../../helpers/raw-client.ts';

const TABLE =
  'create table t (id int primary key, v text); insert into t select n, n from generate_series(1, 2000) n';
const LOCK_NOT_AVAILABLE = '55P03';
const NOT_ALLOWED = '42501';
const CANCELED = '57014';

/** Somebody else's transaction, open until it is ended. */
async function holding(
  url: string,
  sql: string,
): Promise<{ pid: number; query: (sql: string) => Promise<unknown>; end: () => Promise<void> }> {
  const client = new Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  await client.query(`begin; ${sql}`);
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  const pid = rows[0]?.pid ?? 0;
  return { pid, query: (text) => client.query(text), end: () => client.end() };
}

/** Waits until a statement like this waits for a lock. */
async function untilWaiting(database: TemporaryDatabase, like: string): Promise<void> {
  await withClient(database.url, (client) =>
    until(`${like} waits`, async () => {
      const { rowCount } = await client.query(
        "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query ilike $1 and datname = current_database()",
        [like],
      );
      return (rowCount ?? 0) > 0;
    }),
  );
}

const LOCK_TIMEOUT_MS = 400;

/** Runs one statement in either protocol. */
const PROTOCOLS = {
  simple: (client: Client, sql: string) => client.query(sql),
  extended: (client: Client, sql: string) =>
    client.query({ text: sql, queryMode: 'extended' } as { text: string }),
} as const;

describe.each(['simple', 'extended'] as const)('in the %s protocol', (protocol) => {
  const run = PROTOCOLS[protocol];

  test('CREATE INDEX CONCURRENTLY waits for a long transaction for as long as it takes', async () => {
    const database = await temporaryDatabase(18, { sql: TABLE });
    const sql = 'create index concurrently i on t (v)';
    await withGuarded(database.url, [sql], { lockTimeoutMs: LOCK_TIMEOUT_MS }, async ({ url, wire }) => {
      const other = await holding(database.url, "insert into t values (0, '')");
      await withClient(url, async (client) => {
        const built = pending(run(client, sql));
        await withClient(database.url, (own) =>
          until('it has waited for longer than lock_timeout', async () => {
            const { rowCount } = await own.query(
              "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query ilike 'create index%' and clock_timestamp() - query_start > make_interval(secs => $1)",
              [(3 * LOCK_TIMEOUT_MS) / 1000],
            );
            return rowCount === 1;
          }),
        );
        await other.end();
        await built;
        const { rows } = await client.query('show lock_timeout');
        expect(rows).toEqual([{ lock_timeout: `${LOCK_TIMEOUT_MS}ms` }]);
      });
      await wire.end();
      expect(wire.happened()?.retries).toEqual([]);
      expect(wire.happened()?.blockers[0]).toMatchObject({ pid: other.pid, blocked: sql });
    });
    await withClient(database.url, async (client) => {
      const { rows } = await client.query("select indisvalid from pg_index where indexrelid = 'i'::regclass");
      expect(rows).toEqual([{ indisvalid: true }]);
    });
  });

  test('ALTER TABLE behind a reader succeeds in the end; others queue behind each attempt, and go on between them', async () => {
    const database = await temporaryDatabase(protocol === 'simple' ? 18 : 14, { sql: TABLE });
    const sql = 'alter table t add column c int';
    const lockTimeoutMs = 500;
    await withGuarded(database.url, [sql], { lockTimeoutMs }, async ({ url, wire, events }) => {
      const reader = await holding(database.url, 'select count(*) from t');
      const stop = new AbortController();
      const answered = [0, 0, 0, 0];
      const working = Promise.all(
        answered.map((_, at) =>
          hammer(database.url, stop.signal, () => {
            answered[at] = (answered[at] ?? 0) + 1;
          }),
        ),
      );
      await withClient(url, async (client) => {
        const altered = pending(run(client, sql));
        for (let attempt = 0; attempt < 2; attempt++) {
          await untilWaiting(database, 'alter table%');
          const before = [...answered];
          await untilWaiting(database, 'select v from t%');
          // The second answer is that of a query which was sent while the ALTER waited, or later.
          await until('all others go on', async () => answered.every((n, at) => n >= (before[at] ?? 0) + 2));
        }
        await reader.end();
        expect((await altered).command).toBe('ALTER');
      });
      stop.abort();
      await working;
      await wire.end();
      const [retry] = wire.happened()?.retries ?? [];
      expect(retry).toMatchObject({ sql, outcome: 'went on' });
      const ends = events.filter((event) => event.type === 'end');
      expect(ends).toHaveLength(1);
      expect(ends[0]).toMatchObject({ outcome: { error: null, tag: 'ALTER TABLE' } });
    });
  });

  test('a statement inside a transaction gets its error at once', async () => {
    const database = await temporaryDatabase(18, { sql: TABLE });
    const sql = 'alter table t add column c int';
    await withGuarded(database.url, [sql], { lockTimeoutMs: 200 }, async ({ url, wire }) => {
      const reader = await holding(database.url, 'select count(*) from t');
      await withClient(url, async (client) => {
        await client.query('begin');
        await expect(run(client, sql)).rejects.toMatchObject({ code: LOCK_NOT_AVAILABLE });
        await expect(run(client, 'select 1')).rejects.toMatchObject({ code: '25P02' });
        await client.query('rollback');
      });
      await reader.end();
      await wire.end();
      expect(wire.happened()?.retries).toEqual([]);
    });
  });

  test('a statement gets its error once its attempts are used up', async () => {
    const database = await temporaryDatabase(18, { sql: TABLE });
    const sql = 'alter table t add column c int';
    const options = { lockTimeoutMs: 100, retryCount: 2 };
    await withGuarded(database.url, [sql], options, async ({ url, wire }) => {
      const reader = await holding(database.url, 'select count(*) from t');
      await withClient(url, async (client) => {
        await expect(run(client, sql)).rejects.toMatchObject({ code: LOCK_NOT_AVAILABLE });
        await run(client, 'select 1');
      });
      await reader.end();
      await wire.end();
      expect(wire.happened()?.retries).toMatchObject([{ sql, failed: 3, outcome: 'gave up' }]);
    });
  });

  test('a statement that was not rehearsed is refused, and so are those after it', async () => {
    const database = await temporaryDatabase(18, { sql: TABLE });
    const rehearsed = ["insert into t values (3000, 'x')", 'drop table if exists gone'];
    await withGuarded(database.url, rehearsed, {}, async ({ url, wire }) => {
      await withClient(url, async (client) => {
        await run(client, "insert into t values (4000, 'y')");
        await run(client, "insert into t values (4001, 'y'), (4002, 'z')");
        await run(client, 'select relname from pg_class where oid = 1259');
        await run(client, "set application_name = 'a'");
        await expect(run(client, 'drop table t')).rejects.toMatchObject({ code: NOT_ALLOWED });
        await expect(run(client, 'delete from t')).rejects.toMatchObject({ code: NOT_ALLOWED });
        expect((await run(client, 'select current_database() as name')).rows).toEqual([
          { name: database.name },
        ]);
      });
      await wire.end();
      expect(wire.happened()?.diverged).toEqual([{ sql: 'drop table t', stopped: true, onlyValues: false }]);
    });
  });
});

async function hammer(url: string, stop: AbortSignal, answered: () => void): Promise<void> {
  await withClient(url, async (client) => {
    while (!stop.aborted) {
      await client.query('select v from t where id = 7');
      answered();
    }
  });
}

test('a statement is cancelled if it blocks other sessions for longer than --limit blocked', async () => {
  const database = await temporaryDatabase(18, { sql: TABLE });
  const sql = 'update t set v = pg_sleep(0.01)::text';
  await withGuarded(database.url, [sql], { maxBlockedMs: 1_000 }, async ({ url, wire, notices }) => {
    await withClient(url, async (client) => {
      const updated = client.query(sql).then(
        () => undefined,
        (error: unknown) => error,
      );
      const writer = new Client({ connectionString: database.url });
      await writer.connect();
      await withClient(database.url, (own) =>
        until('the first row is locked', async () => {
          const { rowCount } = await own.query('select 1 from t where id = 1 for update skip locked');
          return rowCount === 0;
        }),
      );
      const written = pending(writer.query("update t set v = 'w' where id = 1"));
      expect(await updated).toMatchObject({ code: CANCELED });
      expect((await written).rowCount).toBe(1);
      await writer.end();
    });
    await wire.end();
    expect(wire.happened()?.cancelled).toMatchObject([
      { sql, outcome: 'cancelled', reason: 'max-blocked', waiting: 1 },
    ]);
    expect(notices.some((notice) => notice.includes('--limit blocked'))).toBe(true);
  });
});

test('an idle transaction that blocks other sessions may only be ended', async () => {
  const database = await temporaryDatabase(18, { sql: TABLE });
  const rehearsed = ['alter table t add column c int', 'alter table t add column d int'];
  await withGuarded(database.url, rehearsed, { maxBlockedMs: 300 }, async ({ url, wire, notices }) => {
    await withClient(url, async (client) => {
      await client.query('begin');
      await client.query(rehearsed[0] ?? '');
      const waiter = withClient(database.url, (own) => own.query('select count(*) from t'));
      await until('it is overdue', async () => notices.some((notice) => notice.includes('must end')));
      await expect(client.query(rehearsed[1] ?? '')).rejects.toMatchObject({ code: CANCELED });
      await client.query('rollback');
      await waiter;
    });
    await wire.end();
    expect(wire.happened()?.cancelled).toMatchObject([{ sql: rehearsed[1], outcome: 'refused' }]);
  });
});

test('the invalid index of a failed CREATE INDEX CONCURRENTLY is dropped before the retry', async () => {
  const sql = 'create index concurrently i on t (v)';
  const database = await temporaryDatabase(18, { sql: TABLE });
  await withGuarded(database.url, [sql], {}, async ({ url, wire }) => {
    const other = await holding(database.url, "insert into t values (0, '')");
    await withClient(url, async (client) => {
      await client.query("set lock_timeout = '300ms'");
      const built = pending(client.query(sql));
      // Its first attempt has failed, and what is left of it is being dropped.
      await untilWaiting(database, 'drop index%');
      await other.end();
      await built;
      expect((await client.query('show lock_timeout')).rows).toEqual([{ lock_timeout: '300ms' }]);
    });
    await wire.end();
    expect(wire.happened()?.retries).toMatchObject([{ sql, outcome: 'went on' }]);
    expect(wire.happened()?.ownTimeouts).toEqual([
      { setting: 'lock_timeout', value: "'300ms'", where: 'statement' },
    ]);
  });
  await withClient(database.url, async (client) => {
    const { rows } = await client.query(
      "select c.relname, i.indisvalid from pg_index i join pg_class c on c.oid = indexrelid where indrelid = 't'::regclass order by 1",
    );
    expect(rows).toEqual([
      { relname: 'i', indisvalid: true },
      { relname: 't_pkey', indisvalid: true },
    ]);
  });
});

test('a timeout that the command starts with takes precedence', async () => {
  const database = await temporaryDatabase(18, { sql: TABLE });
  await withGuarded(
    database.url,
    [],
    { lockTimeoutMs: 700, statementTimeoutMs: 9_000 },
    async ({ url, wire }) => {
      const own = new URL(url);
      own.searchParams.set('options', '-c lock_timeout=1234');
      const client = new Client({ connectionString: own.href });
      await client.connect();
      const shown = await client.query(
        "select current_setting('lock_timeout') l, current_setting('statement_timeout') s",
      );
      expect(shown.rows).toEqual([{ l: '1234ms', s: '9s' }]);
      await client.end();
      await wire.end();
      expect(wire.happened()?.ownTimeouts).toMatchObject([{ setting: 'lock_timeout', where: 'start-up' }]);
    },
  );
});

test('a procedure or block that may commit by itself is not retried', async () => {
  const database = await temporaryDatabase(18, {
    sql: `${TABLE}; create table done (id int);
      create procedure p() language plpgsql as $$ begin insert into done values (1); commit; alter table t add c int; end $$`,
  });
  const texts = [
    'call p()',
    'do $$ begin insert into done values (2); commit; alter table t add c int; end $$',
  ];
  await withGuarded(database.url, texts, { lockTimeoutMs: 200 }, async ({ url, wire }) => {
    const reader = await holding(database.url, 'select count(*) from t');
    await withClient(url, async (client) => {
      for (const text of texts)
        await expect(client.query(text)).rejects.toMatchObject({ code: LOCK_NOT_AVAILABLE });
    });
    await reader.end();
    await wire.end();
    expect(wire.happened()?.retries).toEqual([]);
  });
  const { rows } = await withClient(database.url, (client) =>
    client.query('select id from done order by id'),
  );
  expect(rows).toEqual([{ id: 1 }, { id: 2 }]);
});

test('statements with NOWAIT, and pipelined ones, are not retried', async () => {
  const database = await temporaryDatabase(18, { sql: TABLE });
  const nowait = 'select v from t where id = 1 for update nowait';
  const rehearsed = [nowait, "update t set v = 'a' where id = 1", 'create table other (id int)'];
  await withGuarded(database.url, rehearsed, { lockTimeoutMs: 100 }, async ({ url, wire }) => {
    const other = await holding(database.url, 'select v from t where id = 1 for update');
    await withClient(url, async (client) => {
      await expect(client.query(nowait)).rejects.toMatchObject({ code: LOCK_NOT_AVAILABLE });
    });
    const raw = await RawClient.connect(url);
    raw.send(
      parseFrame('', rehearsed[2] ?? ''),
      ...bindFrames('', ''),
      executeFrame('', 0),
      parseFrame('', rehearsed[1] ?? ''),
      ...bindFrames('', ''),
      executeFrame('', 0),
      syncFrame(),
    );
    expect((await raw.until('Z')).filter((line) => line.startsWith('E'))[0]).toContain(LOCK_NOT_AVAILABLE);
    raw.send(query('begin; select 1'));
    await raw.until('Z');
    await raw.close();
    await other.end();
    await wire.end();
    expect(wire.happened()?.retries).toEqual([]);
  });
});

test('an idle transaction that blocks the command is terminated with --unblock', async () => {
  const database = await temporaryDatabase(18, { sql: TABLE });
  const sql = 'alter table t add column c int';
  await withGuarded(database.url, [sql], { unblock: 'idle-in-transaction' }, async ({ url, wire }) => {
    const reader = await holding(database.url, 'select count(*) from t');
    await withClient(url, (client) => client.query(sql));
    await wire.end();
    expect(wire.happened()?.blockers).toMatchObject([{ pid: reader.pid, ended: true, blocked: sql }]);
    await reader.end();
  });
});

test('an active transaction is named, and terminated once it has blocked the command for the time of --unblock', async () => {
  const database = await temporaryDatabase(18, { sql: TABLE });
  const sql = 'alter table t add column c int';
  const options = { lockTimeoutMs: 200, unblock: { activeAfterMs: 500 } };
  await withGuarded(database.url, [sql], options, async ({ url, wire, notices }) => {
    const reader = await holding(database.url, 'select count(*) from t');
    const sleeping = reader.query('select pg_sleep(60)').catch((error: { code: string }) => error.code);
    await withClient(url, (client) => client.query(sql));
    expect(await sleeping).toBe('57P01');
    await wire.end();
    const { blockers, retries } = wire.happened() ?? {};
    expect(blockers).toMatchObject([{ pid: reader.pid, ended: true, blocked: sql }]);
    expect(retries).toMatchObject([{ sql, causes: ['lock-timeout'], outcome: 'went on' }]);
    const about = notices.filter((notice) => notice.includes(`pid ${reader.pid}`));
    expect(about).toEqual([
      expect.stringMatching(/waits for pid .*pg_sleep/),
      expect.stringMatching(
        /^terminating pid .*pg_sleep.*its transaction has blocked the command for 500 ms/,
      ),
      expect.stringMatching(/was terminated$/),
    ]);
    await reader.end();
  });
});

test('no session of the command is terminated by --unblock', async () => {
  const database = await temporaryDatabase(18, { sql: TABLE });
  const texts = ['select count(*) from t', 'alter table t add column c int'];
  const options = { lockTimeoutMs: 2_500, retryCount: 0, unblock: { activeAfterMs: 100 } };
  await withGuarded(database.url, texts, options, async ({ url, wire }) => {
    const reader = await holding(url, texts[0] ?? '');
    const altered = withClient(url, (client) => client.query(texts[1] ?? ''));
    await expect(altered).rejects.toMatchObject({ code: LOCK_NOT_AVAILABLE });
    await reader.query('commit');
    await reader.end();
    await wire.end();
    expect(wire.happened()?.blockers).toMatchObject([{ ended: false }]);
  });
});

test('an apply obeys pause, resume and abort between statements', async () => {
  const database = await temporaryDatabase(18, { sql: TABLE });
  const rehearsed = ['create table a (id int)', 'create table b (id int)', 'create table c (id int)'];
  await withGuarded(database.url, rehearsed, {}, async ({ url, wire, run, env, aborts, events }) => {
    await withClient(url, async (client) => {
      const begun = () => events.filter((event) => event.type === 'begin').length;
      await client.query('begin');
      expect(await order(run, 'pause', env)).toContain('1 transaction of the command is open');
      await client.query(rehearsed[0] ?? '');
      await client.query('commit');
      const before = begun();
      const second = pending(client.query(rehearsed[1] ?? ''));
      await delay(300);
      expect(begun()).toBe(before);
      expect(await order(run, 'resume', env)).toBe('Resumed.');
      await second;
      expect(await order(run, 'abort', env)).toContain('Aborted');
      await expect(client.query(rehearsed[2] ?? '')).rejects.toMatchObject({ code: CANCELED });
    });
    expect(aborts.length).toBeGreaterThan(0);
    await wire.end();
    expect(wire.happened()?.pausedMs).toBeGreaterThan(0);
    await expect(order(run, 'pause', env)).rejects.toMatchObject({ code: 'CONFIGURATION' });
  });
});

test('a statement that waits for a synchronous standby is not cancelled, since it has committed', async () => {
  const server = await ownServer(18);
  const sql = 'alter table t add column c int';
  const wait = async (names: string) =>
    await withClient(server.url, async (client) => {
      await client.query(`alter system set synchronous_standby_names = '${names}'`);
      await client.query('select pg_reload_conf()');
    });
  try {
    await withClient(server.url, (client) => client.query(TABLE));
    await wait('nobody');
    await withGuarded(server.url, [sql], { maxBlockedMs: 300 }, async ({ url, wire, notices }) => {
      await withClient(url, async (client) => {
        const altered = pending(client.query(sql));
        await withClient(server.url, (own) =>
          until('it waits for a standby', async () => {
            const { rowCount } = await own.query(
              "select 1 from pg_stat_activity where wait_event = 'SyncRep'",
            );
            return rowCount === 1;
          }),
        );
        const reader = withClient(server.url, (own) => own.query('select count(*) from t'));
        await until('it is noticed', async () =>
          notices.some((notice) => notice.includes('is not cancelled')),
        );
        await wait('');
        expect((await altered).command).toBe('ALTER');
        await reader;
      });
      await wire.end();
      expect(wire.happened()?.cancelled).toMatchObject([{ sql, outcome: 'standby', reason: 'max-blocked' }]);
    });
  } finally {
    await server.stop();
  }
});

test('sessions that wait for an advisory lock of the command do not count as blocked', async () => {
  const database = await temporaryDatabase(18, { sql: TABLE });
  const sql = 'update t set v = pg_sleep(0.001)::text';
  await withGuarded(database.url, [sql], { maxBlockedMs: 200 }, async ({ url, wire }) => {
    await withClient(url, async (client) => {
      await client.query('select pg_advisory_lock(42)');
      const other = withClient(database.url, (own) => own.query('select pg_advisory_lock(42)'));
      expect((await client.query(sql)).rowCount).toBe(2_000);
      await client.query('select pg_advisory_unlock(42)');
      await other;
    });
    await wire.end();
    expect(wire.happened()?.cancelled).toEqual([]);
  });
});

test('an abort ends the pause before a retry', async () => {
  const database = await temporaryDatabase(18, { sql: TABLE });
  const sql = 'alter table t add column c int';
  await withGuarded(database.url, [sql], { lockTimeoutMs: 500 }, async ({ url, wire, run, env, aborts }) => {
    const reader = await holding(database.url, 'select count(*) from t');
    await withClient(url, async (client) => {
      const altered = client.query(sql).catch((error: { code?: string }) => error.code);
      await untilWaiting(database, 'alter table%');
      await order(run, 'abort', env);
      expect(await altered).toBe(LOCK_NOT_AVAILABLE);
    });
    await reader.end();
    expect(aborts).toHaveLength(1);
    await wire.end();
  });
});
