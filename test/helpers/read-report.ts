import { expect } from 'vitest';
import { type Report, report as reportModel } from '../../src/model/report.ts';

/** What the built tool printed as its JSON report: it has to be what the model says, and nothing beyond it. */
export function readReport(json: string): Report {
  const content: unknown = JSON.parse(json);
  const report = reportModel.parse(content);
  expect(content).toEqual(report);
  return report;
}
