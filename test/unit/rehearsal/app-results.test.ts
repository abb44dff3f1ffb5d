import { describe, expect, test } from 'vitest';
import { findAppHazards } from '../../../src/hazards/app-hazards.ts';
import type { Outcome, Statement } from '../../../src/proxy/observed.ts';
import {
  type AppAttempt,
  appCaveats,
  FailureLog,
  resultOf,
  sectionOf,
} from '../../../src/rehearsal/app-results.ts';
import type { App } from '../../../src/rehearsal/locate-apps.ts';

const pass = { passed: true };
const fail = { passed: false };

describe('what the runs say', () => {
  test.each([
    ['old', null, pass, null, 'works'],
    ['old', fail, pass, null, 'works'],
    ['old', fail, fail, null, 'fails either way'],
    ['old', pass, fail, fail, 'breaks'],
    ['old', pass, fail, pass, 'unsteady'],
    ['new', pass, pass, null, 'works'],
    ['new', fail, pass, fail, 'needs migration'],
    ['new', fail, pass, pass, 'unsteady'],
    ['new', pass, fail, fail, 'breaks'],
    ['new', fail, fail, null, 'fails either way'],
  ] as const)(
    'of the %s release: before %o, after %o, again %o: %s',
    (release, before, after, again, result) => {
      expect(resultOf({ before, after, again }, release)).toBe(result);
    },
  );
});

let ids = 0;
function end(log: FailureLog, sql: string, failure?: { sqlstate: string; message: string }): Statement {
  ids += 1;
  const statement = { id: ids, sql, note: null } as Statement;
  const error = failure ? new Map([['C', failure.sqlstate] as const, ['M', failure.message] as const]) : null;
  const outcome: Outcome = { tag: null, rows: null, error, durationMs: 1 };
  log.observe({ type: 'end', statement, outcome });
  return statement;
}

const MISSING = { sqlstate: '42703', message: 'column "nick" does not exist' };

function attempt(exitCode: number, log = new FailureLog(), reachedClone = true): AppAttempt {
  return {
    exitCode,
    signal: null,
    timedOut: false,
    durationMs: 5,
    statements: log.ended,
    passed: exitCode === 0,
    reachedClone,
    failures: log.failures(),
    refused: [],
  };
}

const app = {
  release: 'old',
  folder: '/old',
  input: { argv: ['sh', '-c', 'npm test'] },
  logins: { logins: [] },
} as unknown as App;

test('failed statements are counted by SQLSTATE and text without values, and consequences are left out', () => {
  const log = new FailureLog();
  end(log, "SELECT nick FROM people WHERE name = 'Ada'", MISSING);
  end(log, "SELECT nick FROM people WHERE name = 'Bob'", MISSING);
  end(log, 'SELECT 1', { sqlstate: '25P02', message: 'current transaction is aborted' });
  end(log, "SELECT '7x'::int", {
    sqlstate: '22P02',
    message: 'invalid input syntax for type integer: "7x"',
  });
  const undone = end(log, 'DELETE FROM people', { sqlstate: '40001', message: 'could not serialize' });
  log.observe({ type: 'undone', session: 1, transaction: 1, statements: [undone] });
  expect(log.ended).toBe(5);
  const [first, second, ...others] = log.failures();
  expect(first).toMatchObject({ ...MISSING, count: 2, sql: expect.not.stringContaining('Ada') });
  expect(second?.message).not.toContain('7x');
  expect(others).toEqual([]);
});

test('only statements that failed on one of the two clones are evidence', () => {
  const [before, after] = [new FailureLog(), new FailureLog()];
  end(before, 'SELECT broken', { sqlstate: '42703', message: 'column "broken" does not exist' });
  end(after, 'SELECT broken', { sqlstate: '42703', message: 'column "broken" does not exist' });
  end(after, 'SELECT nick FROM people', MISSING);
  const section = sectionOf({
    app,
    before: attempt(0, before),
    after: attempt(1, after),
    again: attempt(1, after),
  });
  expect(section).toMatchObject({ result: 'breaks', command: 'npm test', failed: [MISSING] });
  expect(findAppHazards([section])).toEqual([
    expect.objectContaining({
      code: 'APPLICATION_BREAKS',
      severity: 'error',
      message: 'npm test of the old release passes before the migration and fails after it',
      evidence:
        'exit code 1; failed only there: 42703 column "nick" does not exist, 1 time: SELECT nick FROM people',
    }),
  ]);
});

test('what fails either way and what fails by chance is said, and is no hazard', () => {
  for (const [runs, words] of [
    [{ before: attempt(1), after: attempt(1), again: null }, /fails without the migration too/],
    [{ before: attempt(0), after: attempt(1), again: attempt(0) }, /passed when it was run again/],
  ] as const) {
    const tried = { app, ...runs };
    expect(findAppHazards([sectionOf(tried)])).toEqual([]);
    expect(appCaveats(tried)).toEqual([
      { path: 'app', kind: 'estimate', reason: expect.stringMatching(words) },
    ]);
  }
});

test('a check that never connected to the clone has shown nothing', () => {
  const tried = { app, before: null, after: attempt(0, new FailureLog(), false), again: null };
  expect(appCaveats(tried)).toEqual([
    { path: 'app', kind: 'unmeasured', reason: 'npm test never connected to the clone' },
  ]);
});
