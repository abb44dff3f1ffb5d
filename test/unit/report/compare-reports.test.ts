import { describe, expect, test } from 'vitest';
import { compareReports, compareStatements } from '../../../src/report/compare-reports.ts';
import { sampleReport } from '../../helpers/reports.ts';

const base = sampleReport();
const hazard = {
  code: 'TABLE_REWRITTEN',
  severity: 'error' as const,
  statement: null,
  relation: 'public.orders',
  message: '',
  evidence: '',
  advice: '',
  allowed: false,
};

describe('a run against an earlier one', () => {
  test('the comparison of two runs is empty without a notable difference', () => {
    expect(compareReports(base, base)).toEqual([]);
    const alittle = sampleReport({ command: { durationMs: base.command.durationMs + 90 } });
    expect(compareReports(alittle, base)).toEqual([]);
  });

  test('the comparison of two runs says that it passes now, or no longer passes', () => {
    const failed = sampleReport({ verdict: { pass: false, reasons: ['no'] } });
    expect(compareReports(failed, base)).toEqual(['it no longer passes']);
    expect(compareReports(base, failed)).toEqual(['it passes now, but did not then']);
  });

  test('the comparison of two runs names what took notably longer, and new and former hazards', () => {
    const now = sampleReport({ command: { durationMs: 9_000 }, hazards: [hazard] });
    const then = sampleReport({ command: { durationMs: 1_000 }, hazards: [{ ...hazard, relation: null }] });
    expect(compareReports(now, then)).toEqual([
      'the command took 9.0 s (1.0 s then)',
      'new: TABLE_REWRITTEN on public.orders',
      'no longer found: TABLE_REWRITTEN',
    ]);
  });

  test('the comparison of two runs distinguishes schemas that differ before and after', () => {
    const schema = base.schema;
    if (!schema) throw new Error('the sample has a schema');
    const other = sampleReport({ schema: { ...schema, after: 'another' } });
    expect(compareReports(other, base)).toEqual(['the migrated schema is different from then']);
    const before = sampleReport({ schema: { ...schema, before: 'another' } });
    expect(compareReports(before, base)).toEqual(['the schema of the target is different from then']);
  });

  test('statements of two runs are matched by their text', () => {
    const statement = {
      index: 1,
      session: 1,
      sql: 'UPDATE a SET b = 1',
      tag: 'UPDATE',
      startedAt: base.run.startedAt,
      durationMs: 2_000,
      rows: 1,
      transaction: 1,
      explicit: false,
      exactness: 'exact' as const,
      error: null,
      locks: [],
      rewrote: [],
      walBytes: null,
    };
    const now = sampleReport({ statements: [statement, { ...statement, index: 2, sql: 'SELECT 1' }] });
    const then = sampleReport({ statements: [{ ...statement, durationMs: 500 }] });
    expect(compareStatements(now, then)).toEqual([
      '500 ms then, 2.0 s now: UPDATE a SET b = 1',
      '1 new statement',
    ]);
  });
});
