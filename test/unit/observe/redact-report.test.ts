import { describe, expect, test } from 'vitest';
import type { Report } from '../../../src/model/report.ts';
import { redactReport } from '../../../src/observe/redact-report.ts';
import { renderHtml } from '../../../src/report/html.ts';
import { renderJunit } from '../../../src/report/junit.ts';
import { renderMarkdown } from '../../../src/report/markdown.ts';
import { renderJson } from '../../../src/report/render.ts';
import { renderText } from '../../../src/report/text.ts';
import { serverError } from '../../helpers/facts.ts';
import { fullReports } from '../../helpers/full-report.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

/** Planted where reports may quote them; none may come out again. */
const SECRETS = ['planted-literal', '987654321', 'row@value.example', 'prod-db.internal', 'quoted-value'];

function planted() {
  const [statement] = sampleReports['failed-command']?.statements ?? [];
  if (!statement) throw new Error('the sample has a statement');
  const sql = `ALTER TABLE t ALTER c SET DEFAULT 'planted-literal', ADD CHECK (n < 987654321)`;
  const error = serverError('22P02', {
    message: 'invalid input syntax for type integer: "quoted-value"',
    detail: 'Key (email)=(row@value.example) already exists.',
    where: 'COPY t, line 1: "row@value.example"',
  });
  const base = sampleReport();
  const { apply } = sampleReports['half-applied'] ?? base;
  const effect = { sql, statement: 1, outcome: 'committed' as const, explicit: false };
  return sampleReport({
    apply: apply && {
      ...apply,
      reasons: [`at 987654321: ${error.message}`],
      statements: [{ ...statement, index: 1, sql, error }],
      committed: [effect],
      rolledBack: [effect],
      comparedTimes: [
        { sql, rehearsed: 1, applied: 1, rehearsedMs: 1, appliedMs: 1, rehearsedRows: 1, appliedRows: 1 },
      ],
      wayBack: `ALTER TABLE t ALTER c SET DEFAULT 'planted-literal'`,
    },
    target: { host: 'prod-db.internal' },
    command: { argv: ['psql', '-h', 'prod-db.internal', '-c', sql] },
    statements: [{ ...statement, sql, error }],
    schema: base.schema && {
      ...base.schema,
      changes: [{ verb: 'alter', kind: 'column', object: 't.c', sql, dataLoss: false }],
      objects: [
        {
          verb: 'alter',
          kind: 'table',
          object: 't',
          formerly: 'prod-db.internal',
          before: `CREATE TABLE t (\n  c text DEFAULT 'quoted-value',\n  d text DEFAULT 'row@value.example'\n);`,
          after: `CREATE TABLE t (\n  c text DEFAULT 'planted-literal',\n  d text DEFAULT 'row@value.example'\n);`,
        },
        {
          verb: 'drop',
          kind: 'function',
          object: 'f()',
          formerly: null,
          after: null,
          before: `CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $f$ SELECT 'planted-literal' $f$;`,
        },
      ],
      rollbackSql: `ALTER TABLE t ALTER c SET DEFAULT 'planted-literal'`,
    },
    hazards: [
      {
        code: 'X',
        severity: 'error',
        statement: 1,
        relation: 't',
        message: `the default 'planted-literal'`,
        evidence: error.detail ?? '',
        advice: sql,
        allowed: false,
      },
    ],
    checks: [
      {
        name: 'SELECT 1',
        rule: 'same',
        passed: false,
        rowsBefore: 1,
        rowsAfter: 1,
        error: null,
        missing: ['{"email":"row@value.example"}'],
        added: [],
      },
    ],
    caveats: [{ path: 'x', kind: 'estimate', reason: 'asked prod-db.internal' }],
    verdict: { pass: false, reasons: [`the command failed: ${error.message}`] },
  });
}

test('a redacted report holds none of the literals, values and hosts, in no format', async () => {
  const report = planted();
  expect(JSON.stringify(report)).toContain('planted-literal');
  const redacted = await redactReport(report);
  const style = { columns: 100, colour: false, unicode: true };
  const outputs = {
    json: renderJson(redacted),
    text: renderText(redacted, style),
    markdown: renderMarkdown(redacted),
    html: renderHtml(redacted),
    junit: renderJunit(redacted),
  };
  for (const [format, output] of Object.entries(outputs))
    for (const secret of SECRETS) expect(output.includes(secret), `${secret} in ${format}`).toBe(false);
});

test('of a definition it stays to be seen which literals are others than before', async () => {
  const { schema } = await redactReport(planted());
  expect(schema?.objects).toMatchObject([
    {
      before: 'CREATE TABLE t (\n  c text DEFAULT ?,\n  d text DEFAULT ?\n);',
      after: 'CREATE TABLE t (\n  c text DEFAULT ? /* another */,\n  d text DEFAULT ?\n);',
    },
    { before: 'CREATE FUNCTION f() RETURNS text LANGUAGE sql AS ?;', after: null },
  ]);
});

describe('what quotes statements that are not among those of the report', () => {
  const { apply } = sampleReports['half-applied'] ?? sampleReport();
  const base = sampleReport();
  const query = { sql: "SELECT 'planted-literal'", calls: null, callsPerSecond: null };

  test.each<[string, Partial<Report>]>([
    [
      'a query of the application',
      {
        queries: {
          source: 'queries.sql',
          countedSince: null,
          checked: 1,
          planned: false,
          skipped: { utility: 0, failedBefore: 0, hidden: 0 },
          broken: [{ ...query, error: { sqlstate: '42703', message: 'm' } }],
          slower: [{ ...query, costBefore: 1, costAfter: 20, nodeBefore: null, nodeAfter: null }],
        },
      },
    ],
    [
      'a session past safemigrate',
      {
        targetConnections: [
          {
            process: { pid: 1, command: 'node' },
            user: 'app',
            application: '',
            query: query.sql,
            connectedAt: '2026-03-14T02:12:01.000Z',
            ended: true,
          },
        ],
      },
    ],
    [
      'a statement that was not let through to the target',
      {
        apply: apply && {
          ...apply,
          during: apply.during && {
            ...apply.during,
            diverged: [{ sql: query.sql, stopped: true, onlyValues: false }],
            retries: [{ sql: query.sql, failed: 1, causes: ['deadlock'], pausedMs: 1, outcome: 'gave up' }],
          },
        },
      },
    ],
    [
      'what the catalogue held before',
      {
        schema: base.schema && {
          ...base.schema,
          changes: [{ verb: 'drop', kind: 'view', object: 'v', sql: query.sql, dataLoss: false }],
          rollbackSql: `CREATE VIEW v AS ${query.sql};`,
        },
      },
    ],
    [
      'the way back as a command',
      {
        down: {
          command: `psql -c "${query.sql}"`,
          exitCode: 0,
          signal: null,
          timedOut: false,
          durationMs: 1,
          reachedClone: true,
          refused: [],
          statements: [],
          schemaEqual: true,
          differences: [],
          dataDifferences: [],
          tablesCompared: 1,
          tablesSkipped: 0,
          passed: true,
        },
      },
    ],
    [
      'rows of a check that the verdict tells',
      {
        checks: [
          {
            name: 'sums.sql',
            rule: 'same',
            passed: false,
            rowsBefore: 1,
            rowsAfter: 0,
            error: null,
            missing: ['["planted-literal"]'],
            added: [],
          },
        ],
        verdict: { pass: false, reasons: ['the check sums.sql returned other rows: - ["planted-literal"]'] },
      },
    ],
  ])('%s', async (_, sections) => {
    const report = sampleReport(sections);
    expect(JSON.stringify(report)).toContain('planted-literal');
    expect(JSON.stringify(await redactReport(report))).not.toContain('planted-literal');
  });
});

test('a host is a word of its own: names that hold it stay', async () => {
  const report = sampleReport({
    target: { host: 'db', database: 'db' },
    command: { argv: ['migrate', '--db-host', 'replica.internal', '--url=postgresql://app@db:5432/db'] },
    caveats: [{ path: 'x', kind: 'estimate', reason: 'asked db for public.dbs and db_log' }],
  });
  const redacted = await redactReport(report);
  expect(redacted.target).toMatchObject({ host: '…', database: 'db' });
  expect(redacted.caveats[0]?.reason).toBe('asked … for public.dbs and db_log');
  expect(redacted.command.argv).toEqual(['migrate', '--db-host', '…', '--url=postgresql://app@…:5432/…']);
});

test('what is measured stays as it is', async () => {
  const report = planted();
  const [first] = report.statements;
  if (first) first.sql += `, ADD CHECK (at > '${first.startedAt.slice(0, 10)}')`;
  const redacted = await redactReport(report);
  expect(redacted.run).toEqual({ ...report.run, redacted: true });
  expect(redacted.schema?.after).toBe(report.schema?.after);
  expect(redacted.apply?.fingerprints).toEqual(report.apply?.fingerprints);
  expect(redacted.statements[0]?.durationMs).toBe(report.statements[0]?.durationMs);
  expect(redacted.statements[0]?.startedAt).toBe(first?.startedAt);
  expect(redacted.apply?.startedAt).toBe(report.apply?.startedAt);
  expect(redacted.statements[0]?.error?.sqlstate).toBe('22P02');
});

test('the SQL that cannot run says so, and the advice keeps its settings', async () => {
  const [statement] = sampleReports['failed-command']?.statements ?? [];
  const base = planted();
  const [hazard] = base.hazards;
  if (!statement || !hazard) throw new Error('the sample has a statement and a hazard');
  const advice = "At the start of the session:\nSET lock_timeout = '2s';";
  const proposal = { ...fullProposal(), statements: [{ ...statement, sql: "SET lock_timeout = '2s'" }] };
  const redacted = await redactReport({ ...base, proposal, hazards: [{ ...hazard, advice }] });
  expect(redacted.hazards[0]?.advice).toBe(advice);
  for (const page of [renderMarkdown(redacted), renderHtml(redacted)])
    expect(page).toContain('stands for a hidden literal, so that this SQL does not run as shown');
  expect(renderText(redacted, { columns: 500, colour: false, unicode: true, verbose: true })).toContain(
    'redacted: ? stands for a literal',
  );
  for (const page of [renderMarkdown(base), renderHtml(base)]) expect(page).not.toContain('hidden literal');
});

function fullProposal() {
  const proposal = fullReports().find((report) => report.proposal)?.proposal;
  if (!proposal) throw new Error('the sample has a proposal');
  return proposal;
}
