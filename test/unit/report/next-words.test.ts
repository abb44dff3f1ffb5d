import { expect, test } from 'vitest';
import { nextWords } from '../../../src/report/sections/verdict-view.ts';
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
