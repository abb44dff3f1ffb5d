import { describe, expect, test } from 'vitest';
import { OVERDUE } from '../../../src/apply/guardrails/apply-gate.ts';
import { failureOf, type RetryEvidence, reasonAgainst } from '../../../src/apply/retry/retry-eligibility.ts';
import type { StatementSection, TransactionSection } from '../../../src/model/report.ts';
import { serverError } from '../../helpers/facts.ts';

const startedAt = '2026-03-14T02:12:01.000Z';

function sent(index: number, sql: string, others: Partial<StatementSection> = {}): StatementSection {
  return {
    index,
    sql,
    startedAt,
    session: 1,
    tag: null,
    durationMs: 1,
    rows: null,
    transaction: 1,
    explicit: true,
    exactness: 'sampled',
    error: null,
    locks: null,
    rewrote: [],
    walBytes: null,
    ...others,
  };
}

const ended = (transaction: number, outcome: TransactionSection['outcome']): TransactionSection => ({
  transaction,
  outcome,
  session: 1,
  startedAt,
  endedAt: startedAt,
});

const LOCKED: RetryEvidence = {
  facts: {
    command: { exitCode: 1, signal: null, timedOut: false, durationMs: 10 },
    reached: true,
    schemaChanged: false,
    schemaEqual: false,
    differences: [],
    failedOnlyHere: [],
    committed: [],
    leftovers: [],
    stillRunning: 0,
    mustChange: false,
    aborted: null,
    moved: null,
    unreadable: null,
  },
  statements: [sent(1, 'BEGIN'), sent(2, 'DROP TABLE t', { error: serverError('55P03') })],
  transactions: [ended(1, 'rolled back')],
  during: null,
};

const during: NonNullable<RetryEvidence['during']> = {
  retries: [],
  cancelled: [],
  diverged: [],
  ownTimeouts: [],
  blockers: [],
  pausedMs: 0,
  laggedMs: 0,
};

describe('the failure of an attempt', () => {
  test('the failure is the last error that is not a consequence of another one', () => {
    const statements = [
      ...LOCKED.statements,
      sent(3, 'SELECT 1', { error: serverError('25P02') }),
      sent(4, 'ROLLBACK'),
    ];
    expect(failureOf({ ...LOCKED, statements }, 0)).toEqual({
      statement: 2,
      sqlstate: '55P03',
      cause: 'lock',
    });
    expect(failureOf({ ...LOCKED, statements }, 2)).toBeNull();
  });

  test('a deadlock is a cause of its own', () => {
    const statements = [sent(1, 'DROP TABLE t', { error: serverError('40P01') })];
    expect(failureOf({ ...LOCKED, statements }, 0)).toMatchObject({ cause: 'deadlock' });
  });

  test.each([
    ['somebody else', 'canceling statement due to user request', [], 'other'],
    ['the watchdog', 'canceling statement due to user request', ['DROP TABLE t'], 'watchdog'],
    ['the watchdog, of another statement', 'canceling statement due to user request', ['SELECT 2'], 'other'],
    ['the gate', OVERDUE, [], 'watchdog'],
  ] as const)('failureOf() finds the cause of a cancel by %s', (_, message, cancelled, cause) => {
    const statements = [sent(1, 'DROP TABLE t', { error: serverError('57014', { message }) })];
    const entries = cancelled.map((sql) => ({
      sql,
      outcome: 'cancelled' as const,
      reason: 'max-blocked' as const,
      waiting: 1,
      waitedMs: 9,
    }));
    const evidence = { ...LOCKED, statements, during: { ...during, cancelled: entries } };
    expect(failureOf(evidence, 0)).toMatchObject({ statement: 1, cause });
  });
});

const against = (change: Partial<RetryEvidence>) => {
  const evidence = { ...LOCKED, ...change };
  return reasonAgainst(evidence, failureOf(evidence, 0), ['lock-timeout']);
};

const CREATED = { statement: 1, sql: 'CREATE TABLE a ()', outcome: 'committed' as const, explicit: true };

/** The first transaction committed these; the second is the one that failed. */
function committedBefore(...texts: string[]): Partial<RetryEvidence> {
  const committed = texts.map((sql, at) => ({ ...CREATED, statement: at + 1, sql }));
  return {
    facts: { ...LOCKED.facts, schemaChanged: true, committed },
    statements: [
      ...texts.map((sql, at) => sent(at + 1, sql)),
      sent(9, 'DROP TABLE t', { transaction: 2, error: serverError('55P03') }),
    ],
    transactions: [ended(1, 'committed'), ended(2, 'rolled back')],
  };
}

describe('a command that failed because of a lock', () => {
  test('the command may be rerun if every transaction is known to be rolled back', async () => {
    expect(await against({})).toBeNull();
    const statements = [sent(1, 'BEGIN'), sent(2, 'DROP TABLE t', { error: serverError('40P01') })];
    const deadlocked = { ...LOCKED, statements };
    expect(await reasonAgainst(deadlocked, failureOf(deadlocked, 0), ['deadlock'])).toBeNull();
  });

  test.each<[string, Partial<RetryEvidence>, string]>([
    ['the run was aborted', { facts: { ...LOCKED.facts, aborted: 'aborted' } }, 'the run ended'],
    ['the target cannot be read', { facts: { ...LOCKED.facts, unreadable: 'gone' } }, 'could not be read'],
    ['the schema cannot be read', { facts: { ...LOCKED.facts, schemaChanged: null } }, 'could not be read'],
    ['the schema has changed', { facts: { ...LOCKED.facts, schemaChanged: true } }, 'schema has changed'],
    ['another server answers', { facts: { ...LOCKED.facts, moved: 'another server' } }, 'another server'],
    ['a session still works', { facts: { ...LOCKED.facts, stillRunning: 1 } }, 'still work'],
    ['a fate is not known', { transactions: [ended(1, 'unknown')] }, 'not known'],
    [
      'it diverged',
      { during: { ...during, diverged: [{ sql: 'a', stopped: true, onlyValues: false }] } },
      'not rehearsed',
    ],
    ['it continued', { transactions: [ended(1, 'committed')] }, 'continued after'],
    [
      'its last error is another one',
      { statements: [...LOCKED.statements, sent(3, 'x', { error: serverError('42601') })] },
      'not fail because of a lock',
    ],
    [
      'retryOn leaves deadlocks out',
      { statements: [sent(1, 'BEGIN'), sent(2, 'DROP TABLE t', { error: serverError('40P01') })] },
      'retryOn leaves out what it failed of: deadlock',
    ],
    [
      'the statement was alone',
      { statements: [sent(1, 'DROP TABLE t', { explicit: false, error: serverError('55P03') })] },
      'may have left something',
    ],
  ])('the command is not rerun if %s', async (_, change, reason) => {
    expect(await against(change)).toContain(reason);
  });

  test.each([
    ['nothing', ['CREATE TABLE a ()']],
    ['what is no note', ['CREATE TABLE a ()', 'INSERT INTO b VALUES (1)']],
    ["the tool's lock alone", ['CREATE TABLE a ()', 'UPDATE knex_migrations_lock SET is_locked = 1']],
    ["the tool's table being made", ['CREATE TABLE a ()', 'CREATE TABLE schema_migrations ()']],
  ])('the command is not rerun if the committed transaction wrote %s', async (_, texts) => {
    expect(await against(committedBefore(...texts))).toContain('statement 1 was committed');
  });

  test.each([
    ['a note', ['CREATE TABLE a ()', 'INSERT INTO public.schema_migrations VALUES (1)']],
    ['a new version', ['ALTER TABLE a ADD b int', "UPDATE alembic_version SET version_num = 'b'"]],
    ['its own table alone', ['CREATE TABLE IF NOT EXISTS "DATABASECHANGELOG" (id int)']],
  ])('the command may be rerun if the tool committed %s', async (_, texts) => {
    expect(await against(committedBefore(...texts))).toBeNull();
  });
});
