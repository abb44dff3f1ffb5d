import { describe, expect, test } from 'vitest';
import type { Hazard, Report } from '../../../src/model/report.ts';
import { summary } from '../../../src/model/summary-model.ts';
import { printedReportOf } from '../../../src/report/printed-report.ts';
import { renderSummary } from '../../../src/report/summary.ts';
import { fullReports } from '../../helpers/full-report.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

const ALL: [string, Report][] = [
  ...Object.entries(sampleReports),
  ...fullReports().map((report, at): [string, Report] => [`full ${at}`, report]),
];

const dropped = (number: number): Hazard => ({
  code: 'COLUMN_DROPPED',
  severity: 'error',
  statement: 1,
  relation: `public."${'o'.repeat(40)}${number}"`,
  message: `drops the column ${number} ${'é'.repeat(300)}`,
  evidence: '',
  advice: 'Keep the values:\nCREATE TABLE kept AS SELECT 1;',
  allowed: false,
  lostRows: 7,
});

describe('the summary', () => {
  test.each(ALL)('of %s is what its schema says, in at most 2 kB', (_, report) => {
    const text = renderSummary(report);
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(2048);
    expect(() => summary.strict().parse(JSON.parse(text))).not.toThrow();
  });

  test('leaves out the least important findings, and says how many', () => {
    const hazards = Array.from({ length: 40 }, (_, number) => dropped(number));
    const objections = hazards.slice(0, 30).map(({ code, message }, hazard) => ({
      code,
      message,
      hazard,
      statement: 1,
    }));
    const verdict = { pass: false, reasons: objections.map(({ message }) => message), objections };
    const text = renderSummary(sampleReport({ hazards, verdict }));
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(2048);
    const { findings, more } = summary.parse(JSON.parse(text));
    expect(findings.length).toBeGreaterThan(1);
    expect(findings.length + more).toBe(40);
    expect(findings[0]).toMatchObject({
      code: 'COLUMN_DROPPED',
      stops: true,
      fix: 'Keep the values: CREATE TABLE kept AS SELECT 1;',
      accept: expect.stringContaining('--accept'),
    });
  });
});

describe('the printed report', () => {
  test('gives each hazard and each objection all that a program acts on', () => {
    const [statement] = sampleReports.rewrite?.statements ?? [];
    if (!statement) throw new Error('a statement');
    const locks = [
      { relation: 'public.t', mode: 'SHARE', acquiredBy: '', heldMs: 40, blocks: ['writes'] },
      {
        relation: 'public.t_i',
        indexOf: 'public.t',
        mode: 'SHARE',
        acquiredBy: '',
        heldMs: 60,
        blocks: ['writes'],
      },
      { relation: 'public.t', mode: 'ROW SHARE', acquiredBy: '', heldMs: 90, blocks: [] },
    ];
    const at = { ...statement, index: 1, sql: 'DROP', file: 'db/1.sql', line: 4, locks };
    const hazard = { ...dropped(1), relation: 'public.t' };
    const objections = [{ code: hazard.code, message: hazard.message, hazard: 0, statement: 1 }];
    const printed = printedReportOf(
      sampleReport({
        statements: [at],
        hazards: [hazard],
        verdict: { pass: false, reasons: ['it drops'], objections },
      }),
    );
    const expected = {
      relation: 'public.t',
      file: 'db/1.sql',
      line: 4,
      sql: 'DROP',
      lockedMs: 60,
      lostRows: 7,
      fix: { advice: 'Keep the values:', sql: ['CREATE TABLE kept AS SELECT 1;'] },
      accept: `--accept 'COLUMN_DROPPED:public.t="…"'`,
    };
    expect(printed.hazards[0]).toMatchObject(expected);
    expect(printed.verdict.objections[0]).toMatchObject(expected);
  });

  test('makes objections of the reasons of an older version', () => {
    const report = sampleReport({ verdict: { pass: false, reasons: ['it failed'] } });
    expect(printedReportOf(report).verdict.objections).toEqual([
      expect.objectContaining({ code: 'NOT_PASSED', message: 'it failed', fix: null, file: null }),
    ]);
  });
});
