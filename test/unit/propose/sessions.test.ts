import { describe, expect, test } from 'vitest';
import { HazardContext } from '../../../src/hazards/hazard-context.ts';
import type { StatementSection } from '../../../src/model/report.ts';
import { withRolledBack } from '../../../src/observe/rolled-back.ts';
import { statementFacts } from '../../../src/observe/statement-facts.ts';
import { statementsOfScript, writeVerbatim } from '../../../src/propose/write-script.ts';
import { facts, statement } from '../../helpers/facts.ts';

type Sent = readonly [session: number, transaction: number, sql: string];

/** The script of what several sessions sent, all but single statements in transactions of their own. */
async function script(
  sent: readonly Sent[],
  parameters: Readonly<Record<number, readonly [string, string][]>> = {},
) {
  const statements = sent.map(
    ([session, transaction, sql], at): StatementSection =>
      statement(at + 1, {
        session,
        transaction,
        sql,
        tag: sql.split(' ')[0] ?? '',
        explicit: sent.some((each) => each[1] === transaction && each[2] === 'BEGIN'),
      }),
  );
  const transactions = [...new Set(sent.map(([, transaction]) => transaction))].map((transaction) => ({
    transaction,
    session: 1,
    startedAt: '',
    endedAt: '',
    outcome: 'committed' as const,
  }));
  const parsed = await statementFacts(statements);
  const marked = withRolledBack(statements, transactions, parsed);
  const context = new HazardContext(facts({ statements: marked, transactions, parsed }));
  const start = (session: number) => ({
    user: 'app',
    database: 'shop',
    parameters: parameters[session] ?? [],
  });
  const { parts } = await writeVerbatim({
    context,
    sent: new Map(sent.map(([, , sql], at) => [at + 1, { sql, values: undefined }])),
    sessions: new Map(sent.map(([session]) => [session, start(session)])),
  });
  return statementsOfScript(parts);
}

const RESET = ['RESET SESSION AUTHORIZATION', 'RESET ALL'];

test('each session keeps its settings, and no other one has them', async () => {
  expect(
    await script([
      [1, 1, "SET search_path = 'a'"],
      [2, 2, 'CREATE TABLE two ()'],
      [1, 3, 'CREATE TABLE one ()'],
      [1, 4, 'SET LOCAL work_mem = 1'],
    ]),
  ).toEqual([
    ...["SET search_path = 'a'", ...RESET, 'CREATE TABLE two ()'],
    ...["SET search_path = 'a'", 'CREATE TABLE one ()', 'SET LOCAL work_mem = 1'],
  ]);
});

test('a session has the settings that it began with', async () => {
  const options = '-c search_path=a\\ b --work-mem=1MB -clock_timeout=0';
  expect(
    await script([[1, 1, 'CREATE TABLE a ()']], {
      1: [
        ['options', options],
        ['TimeZone', "O'Clock"],
      ],
    }),
  ).toEqual([
    "SELECT pg_catalog.set_config('search_path', 'a b', false)",
    "SELECT pg_catalog.set_config('work_mem', '1MB', false)",
    "SELECT pg_catalog.set_config('lock_timeout', '0', false)",
    "SELECT pg_catalog.set_config('TimeZone', 'O''Clock', false)",
    'CREATE TABLE a ()',
  ]);
});

test('transactions stand in the order in which they ended', async () => {
  expect(
    await script([
      [1, 1, 'BEGIN'],
      [1, 1, 'CREATE TABLE a ()'],
      [2, 2, 'CREATE TABLE b ()'],
      [1, 1, 'COMMIT'],
    ]),
  ).toEqual(['CREATE TABLE b ()', 'BEGIN', 'CREATE TABLE a ()', 'COMMIT']);
});

describe('a savepoint', () => {
  const within = (...texts: string[]) =>
    script(['BEGIN', ...texts, 'COMMIT'].map((sql): Sent => [1, 1, sql])).then((sql) => sql.slice(1, -1));

  test('that is gone back to undoes what came after it', async () => {
    expect(
      await within(
        'CREATE TABLE a ()',
        'SAVEPOINT s',
        'CREATE TABLE b ()',
        'ROLLBACK TO s',
        'CREATE TABLE c ()',
      ),
    ).toEqual(['CREATE TABLE a ()', 'CREATE TABLE c ()']);
  });

  test('of the same name hides another one until it is released', async () => {
    expect(
      await within(
        ...['SAVEPOINT s', 'CREATE TABLE a ()', 'SAVEPOINT s', 'CREATE TABLE b ()', 'RELEASE s'],
        ...['CREATE TABLE c ()', 'ROLLBACK TO s', 'CREATE TABLE d ()'],
      ),
    ).toEqual(['CREATE TABLE d ()']);
  });
});
