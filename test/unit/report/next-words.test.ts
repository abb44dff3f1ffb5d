import { expect, test } from 'vitest';
import type { Hazard } from '../../../src/model/report.ts';
import { nextWords } from '../../../src/report/sections/verdict-view.ts';
import { serverError, statement } from '../../helpers/facts.ts';
import { sampleReport } from '../../helpers/reports.ts';

test('after a success without effect, what to look at is the place of the migrations', () => {
  const reason = 'nothing changed';
  const report = sampleReport({ hazards: [] });
  const verdict = { ...report.verdict, pass: false, reasons: [reason] };
  const objection = { code: 'NOTHING_APPLIED', message: reason, hazard: null, statement: null };
  expect(nextWords({ ...report, verdict: { ...verdict, objections: [objection] } })).toContain(
    'from which folder',
  );
  expect(nextWords({ ...report, verdict: { ...verdict, objections: [] } })).toContain('fix the error above');
});

test('after a statement that failed by the rows, what to do with them comes first', () => {
  const report = sampleReport({ hazards: [] });
  const failed = statement(1, {
    error: serverError('23502', {
      message: 'column "code" of relation "items" contains null values',
      schema: 'public',
      table: 'items',
      column: 'code',
    }),
  });
  const hazard: Hazard = {
    code: 'ROWS_VIOLATE_CONSTRAINT',
    severity: 'warning',
    statement: 1,
    relation: 'public.items',
    message: '',
    evidence: '',
    advice: 'Fill the 100 rows first:\nSELECT 1;',
    allowed: false,
  };
  const other: Hazard = { ...hazard, code: 'LOCK_TIMEOUT_MISSING', severity: 'error', advice: 'Set one.' };
  const nextOf = (...hazards: Hazard[]) =>
    nextWords({
      ...report,
      command: { ...report.command, exitCode: 1 },
      verdict: { pass: false, reasons: [] },
      statements: [failed],
      hazards,
    });
  expect(nextOf(other, hazard)).toBe(
    'Fill the 100 rows first: see the statements at ROWS_VIOLATE_CONSTRAINT',
  );
  expect(nextOf({ ...hazard, statement: 2 })).toMatch(/fix the error above/);
});
