import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { printedReport } from '../../../src/model/report.ts';
import { formatOfFile } from '../../../src/report/formats.ts';
import { printedReportOf } from '../../../src/report/printed-report.ts';
import { render } from '../../../src/report/render.ts';
import { reportJsonSchema } from '../../../src/report/report-schema.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

const style = { columns: 80, colour: false, unicode: true };
const schema = reportJsonSchema();
const published = z.fromJSONSchema(schema);

describe.each(Object.entries(sampleReports))('the report %s as JSON', async (_, report) => {
  const json = await render(report, 'json', style);

  test('the JSON report is valid by the model and the published schema', () => {
    expect(JSON.parse(json)).toEqual(printedReportOf(report));
    expect(printedReport.parse(JSON.parse(json))).toEqual(JSON.parse(json));
    expect(published.safeParse(JSON.parse(json)).error).toBeUndefined();
  });

  test('the JSON report ends in a newline and cannot control a terminal', () => {
    expect(json.endsWith('}\n')).toBe(true);
    expect(json).not.toMatch(/[^\P{Cc}\n]/u);
  });
});

test('the keys of the JSON report have the order of the model', async () => {
  const backwards = Object.fromEntries(Object.entries(sampleReport()).reverse());
  expect(await render(backwards as ReturnType<typeof sampleReport>, 'json', style)).toBe(
    await render(sampleReport(), 'json', style),
  );
});

test('a report that is invalid by the model is printed nevertheless', async () => {
  const broken = sampleReport({ target: { sizeBytes: 1.5 } });
  expect(JSON.parse(await render(broken, 'json', style))).toEqual(printedReportOf(broken));
});

test('the published schema rejects what is not a report', () => {
  expect(published.safeParse({ ...printedReportOf(sampleReport()), version: 2 }).success).toBe(false);
  expect(published.safeParse(printedReportOf(sampleReport({ command: { exitCode: 1.5 } }))).success).toBe(
    false,
  );
  const { verdict, ...incomplete } = printedReportOf(sampleReport());
  expect(verdict).toBeDefined();
  expect(published.safeParse(incomplete).success).toBe(false);
});

test('the published schema lets later versions add paths', () => {
  expect(published.safeParse({ ...printedReportOf(sampleReport()), later: true }).error).toBeUndefined();
});

test.each([
  'run.tool.version',
  'target.serverVersion',
  'clone.uniqueBytes',
  'command.exitCode',
  'statements.locks.blocks',
  'statements.error.sqlstate',
  'schema.changes.dataLoss',
  'schema.rollbackSql',
  'data.tables.rewritten',
  'data.written.updated',
  'data.lost.rowsWithValue',
  'forecast.locks.queued',
  'forecast.locks.waitsFor.ageMs',
  'forecast.wal.standbys.behindBytes',
  'forecast.disk.neededBytes',
  'hazards.evidence',
  'caveats.reason',
  'verdict.pass',
  'cleanup.failed.reason',
])('the published schema has the stable path %s', (path) => {
  expect(lookUp(schema, path.split('.'))).toBeDefined();
});

/** Follows a path through objects, and through what arrays and nullable sections hold. */
function lookUp(node: unknown, path: string[]): unknown {
  const { properties, items, anyOf } = node as {
    properties?: Record<string, unknown>;
    items?: unknown;
    anyOf?: unknown[];
  };
  if (items) return lookUp(items, path);
  if (anyOf) return anyOf.map((each) => lookUp(each, path)).find((found) => found !== undefined);
  const [key, ...rest] = path;
  if (key === undefined) return node;
  const next = properties?.[key];
  return next === undefined ? undefined : lookUp(next, rest);
}

test.each([
  ['report.json', 'json'],
  ['out/Report.TXT', 'text'],
  ['report', undefined],
  ['report.json.gz', undefined],
  ['.json', undefined],
])('the file %s asks for the format %s', (path, format) => {
  expect(formatOfFile(path)).toBe(format);
});
