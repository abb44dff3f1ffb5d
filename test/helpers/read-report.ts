import { expect } from 'vitest';
import { type PrintedReport, printedReport } from '../../src/model/report.ts';

/** What the built tool printed as its JSON report: it has to be what the model says, and nothing beyond it. */
export function readReport(json: string): PrintedReport {
  const content: unknown = JSON.parse(json);
  const report = printedReport.parse(content);
  expect(content).toEqual(report);
  return report;
}
