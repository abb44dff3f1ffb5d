import { expect, test } from 'vitest';
import { extraRunReasons, type RequestedExtraRuns } from '../../../src/hazards/extra-runs.ts';
import type { AtOnceSection } from '../../../src/model/report.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

const { checks, rerun, down } = sampleReports.asked ?? sampleReport();
const nothing: RequestedExtraRuns = { checks: [], rerun: null, down: null, atOnce: null, caveats: [] };
const reasons = (asked: Partial<RequestedExtraRuns>) => extraRunReasons({ ...nothing, ...asked });

test('checks and runs that were not requested are no reason', () => {
  expect(extraRunReasons(nothing)).toEqual([]);
});

test('each check that fails is a reason, one that passes is not', () => {
  expect(reasons({ checks })).toEqual([
    expect.stringContaining('checks/balances.sql returned different rows'),
    expect.stringContaining('failed after the command: column "legacy_code" does not exist (42703)'),
  ]);
});

test('a check for no rows says how many there are', () => {
  const [check] = checks.map((each) => ({ ...each, rule: 'empty' as const, passed: false, rowsAfter: 17 }));
  expect(reasons({ checks: check ? [check] : [] })).toEqual([
    expect.stringMatching(/must return no rows, but returned 17$/),
  ]);
});

test('a second run that fails is a reason', () => {
  expect(rerun && reasons({ rerun: { ...rerun, exitCode: 3, passed: false } })).toEqual([
    'the second run (--rerun) failed with exit code 3',
  ]);
});

test("a down migration that leaves differences is a reason, except those in the tool's own table", () => {
  const [reason, ...others] = reasons({ down });
  expect(others).toEqual([]);
  expect(reason).toContain(
    'does not restore the previous state: index public.customers_legacy_code_idx is missing',
  );
  expect(reason).not.toContain('_prisma_migrations');
});

test('an extra run that was requested but not possible is a reason', () => {
  const caveats = [{ path: 'down', kind: 'unmeasured' as const, reason: 'the clone was gone' }];
  expect(reasons({ caveats })).toEqual(['the down migration (--down) was not run: the clone was gone']);
});

test('runs at once that fail or leave something else are reasons, and bookkeeping is none', () => {
  const section: AtOnceSection = {
    runs: [
      { exitCode: 0, signal: null, durationMs: 10 },
      { exitCode: 1, signal: null, durationMs: 12 },
    ],
    deadlocks: 1,
    schemaEqual: true,
    tablesCompared: 2,
    tablesSkipped: 0,
    passed: false,
    dataDifferences: [
      { relation: 'public.orders', what: '2 → 4 rows', bookkeeping: false },
      { relation: 'public.knex_migrations', what: '1 → 2 rows', bookkeeping: true },
    ],
  };
  expect(extraRunReasons({ ...nothing, atOnce: section })).toEqual([
    'of 2 runs that were started together 1 failed (exit code 1), after 1 deadlock',
    'runs that were started together leave what one does not: public.orders: 2 → 4 rows',
  ]);
  expect(extraRunReasons({ ...nothing, atOnce: { ...section, passed: true } })).toEqual([]);
});
