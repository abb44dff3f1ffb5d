import { describe, expect, test } from 'vitest';
import { StatementLog } from '../../../src/observe/statements.ts';
import type { Statement } from '../../../src/proxy/observed.ts';
import { compareRuns } from '../../helpers/compare-runs.ts';

const LOCK = { database: 1, relation: 7, mode: 'RowExclusiveLock' };

/** A log that is given the events of a command, one transaction after the other. */
class Sent {
  readonly log = new StatementLog();
  #statements = 0;
  #transactions = 0;

  transaction(
    texts: readonly string[],
    each: Partial<{ durationMs: number; failed: boolean; outcome: 'rolled back' }> = {},
  ): void {
    const transaction = ++this.#transactions;
    for (const sql of texts) this.#send({ sql, transaction, ...each });
    this.log.observe({
      type: 'transaction-end',
      session: 1,
      transaction,
      lost: false,
      at: new Date(),
      outcome: each.outcome ?? 'committed',
    });
  }

  #send({
    sql,
    transaction,
    durationMs = 1,
    failed = false,
  }: {
    sql: string;
    transaction: number;
    durationMs?: number;
    failed?: boolean;
  }): void {
    const statement: Statement = {
      id: ++this.#statements,
      session: 1,
      pid: 1,
      sql,
      note: null,
      transaction,
      explicit: false,
      shape: sql.replace(/\d+/g, '?'),
      startedAt: new Date(),
    };
    this.log.observe({ type: 'begin', statement });
    const error = failed ? new Map([['C', '23505']]) : null;
    this.log.observe({ type: 'end', statement, outcome: { tag: 'INSERT', rows: 1, error, durationMs } });
    const locks = { exactness: 'group', locks: [LOCK], walBytes: 10 } as const;
    this.log.observe({ type: 'locks', statements: [statement], ...locks });
  }

  section() {
    return this.log.section(1, new Map([[7, 'public.t']]));
  }
}

const inserts = (count: number) => Array.from({ length: count }, (_, at) => `insert into t values (${at})`);

describe('what the report says of many statements', () => {
  test('up to 2,000 are reported one by one', () => {
    const sent = new Sent();
    sent.transaction(inserts(2000));
    const statements = sent.section();
    expect(statements).toHaveLength(2000);
    expect(statements.filter(({ repeated }) => repeated)).toEqual([]);
  });

  test('of more, the first 500 and the 200 slowest are, and the others are one for each text', () => {
    const sent = new Sent();
    sent.transaction(inserts(5000));
    sent.transaction(['insert into t values (1)'], { durationMs: 900 });
    const statements = sent.section();
    const groups = statements.filter(({ repeated }) => repeated);
    expect(statements.slice(0, 500).map(({ index }) => index)).toEqual(
      Array.from({ length: 500 }, (_, at) => at + 1),
    );
    expect(statements).toHaveLength(500 + 200 + groups.length);
    expect(groups).toHaveLength(1);
    expect(groups[0]).toMatchObject({
      durationMs: 4301,
      rows: 4301,
      walBytes: 43_010,
      locks: [{ relation: 'public.t', mode: 'ROW EXCLUSIVE' }],
      repeated: { count: 4301, transactions: 1, alike: true, minMs: 1, meanMs: 1, maxMs: 1, p99Ms: 1 },
    });
    expect(statements.find(({ durationMs }) => durationMs === 900)).toMatchObject({ index: 5001 });
  });

  test('statements that failed, and those that change definitions, are reported one by one', () => {
    const sent = new Sent();
    sent.transaction(inserts(3000));
    sent.transaction(['insert into t values (1)'], { failed: true });
    const ddl = Array.from({ length: 300 }, (_, at) => `alter table t add column c${at} int`);
    sent.transaction(ddl);
    const statements = sent.section();
    expect(statements.filter(({ error }) => error)).toHaveLength(1);
    expect(statements.filter(({ sql }) => sql.startsWith('alter')).map(({ sql }) => sql)).toEqual(ddl);
  });

  test('transactions of one statement are one in the report, with the first of them', () => {
    const sent = new Sent();
    for (let at = 0; at < 20_000; at++) sent.transaction([`insert into t values (${at})`]);
    const groups = sent.section().filter(({ repeated }) => repeated);
    expect(groups).toMatchObject([{ repeated: { count: 19_300, transactions: 19_300, lastIndex: 20_000 } }]);
    const transactions = sent.log.transactions();
    expect(transactions).toHaveLength(701);
    expect(transactions.map(({ transaction }) => transaction)).toContain(groups[0]?.transaction);
  });

  test('what was committed and what was rolled back are not one', () => {
    const sent = new Sent();
    sent.transaction(inserts(2500));
    for (let at = 0; at < 3000; at++)
      sent.transaction([`insert into u values (${at})`], at % 2 === 0 ? { outcome: 'rolled back' } : {});
    const outcomes = new Map(
      sent.log.transactions().map(({ transaction, outcome }) => [transaction, outcome]),
    );
    const groups = sent.section().filter(({ repeated, sql }) => repeated && sql.startsWith('insert into u'));
    expect(groups.map(({ transaction, repeated }) => [outcomes.get(transaction), repeated?.count])).toEqual([
      ['rolled back', 1500],
      ['committed', 1500],
    ]);
  });

  test('of texts that differ in more than values an apply can still tell which were sent', async () => {
    const sent = new Sent();
    const column = (at: number) => `${'x'.repeat(at % 97)}y${'z'.repeat(at % 89)}`;
    const texts = Array.from({ length: 10_000 }, (_, at) => `insert into t (${column(at)}) values (1)`);
    sent.transaction(texts.slice(0, 6000));
    for (const text of texts.slice(6000)) sent.transaction([text]);
    const others = ['insert into t (w) values (1)', 'insert into u (y) values (1)'];
    const answers = await compareRuns(sent.section(), [...texts, ...others]);
    expect(new Set(answers.slice(0, texts.length))).toEqual(new Set(['rehearsed']));
    expect(answers.slice(texts.length)).toEqual(['not rehearsed', 'not rehearsed']);
  });

  test('texts that are all different are grouped by their first word, beyond 1,000 of them', () => {
    const sent = new Sent();
    const names = Array.from(
      { length: 10_000 },
      (_, at) => `savepoint ${'x'.repeat(at % 97)}y${'z'.repeat(at % 89)}`,
    );
    sent.transaction(names);
    const groups = sent.section().filter(({ repeated }) => repeated);
    expect(groups.length).toBeLessThanOrEqual(1001);
    const mixed = groups.filter(({ repeated }) => !repeated?.alike);
    expect(mixed).toHaveLength(1);
    const count = groups.reduce((sum, { repeated }) => sum + (repeated?.count ?? 0), 0);
    expect(count).toBe(10_000 - 700);
  });
});

describe('of a lock that was sampled', () => {
  const MINUTE = 60_000;
  const startedAt = new Date('2026-03-14T02:11:00Z');
  const at = (ms: number) => startedAt.getTime() + ms;
  const statement: Statement = {
    id: 1,
    session: 1,
    pid: 1,
    sql: 'call p()',
    note: null,
    transaction: 1,
    explicit: false,
    shape: '',
    startedAt,
  };
  const short = { database: 1, relation: 7, mode: 'AccessExclusiveLock' };
  const late = { database: 1, relation: 8, mode: 'ShareLock' };

  test('the time is that for which it was seen, if the statement released it before its end', () => {
    const log = new StatementLog();
    log.observe({ type: 'begin', statement });
    log.sample(statement, [short], at(20));
    log.sample(statement, [short, LOCK], at(40));
    log.sample(statement, [LOCK], at(60));
    log.sample(statement, [LOCK, late], at(MINUTE - 500));
    const outcome = { tag: 'CALL', rows: null, error: null, durationMs: MINUTE };
    log.observe({ type: 'end', statement, outcome });
    const end = { session: 1, transaction: 1, lost: false, outcome: 'committed' } as const;
    log.observe({ type: 'transaction-end', at: new Date(at(MINUTE)), ...end });
    const names = new Map([
      [7, 'public.t'],
      [8, 'public.u'],
    ]);
    const [own] = log.section(1, names);
    const held = own?.locks?.map(({ relation, mode, heldMs }) => [relation, mode, heldMs]);
    expect(held).toEqual([
      ['public.t', 'ACCESS EXCLUSIVE', 60],
      ['public.u', 'SHARE', 700],
      ['public.t', 'ROW EXCLUSIVE', MINUTE - 40 + 200],
    ]);
  });
});
