import { describe, expect, test } from 'vitest';
import type { SchemaChange } from '../../../src/model/report.ts';
import { countStatements } from '../../../src/report/sections/schema-view.ts';
import { renderText } from '../../../src/report/text.ts';
import { displayWidth } from '../../../src/report/width.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are escape sequences
const SGR = /\x1b\[[0-9;]*m/g;
const plain = { columns: 80, colour: false, unicode: true };
const whole = { ...plain, verbose: true };

const SAMPLES = Object.entries(sampleReports);

describe('the text report', () => {
  test.each(SAMPLES)('the text report of %s reads well at 80 columns', async (name, report) => {
    const text = renderText(report, { ...plain, colour: true });
    await expect(text).toMatchFileSnapshot(`snapshots/${name}.80.txt`);
  });

  test.each(['passed', 'rewrite', 'asked', 'failed-command'] as const)(
    'the text report of %s has everything with --verbose',
    async (name) => {
      const report = sampleReports[name] ?? sampleReport();
      const text = renderText(report, whole);
      await expect(text).toMatchFileSnapshot(`snapshots/${name}.verbose.txt`);
      const short = renderText(report, plain).split('\n');
      expect(text.split('\n').length).toBeGreaterThan(short.length);
    },
  );

  test('privileges and comments do not look like changes of the object, nor an interim name like one of the schema', () => {
    const sample = sampleReport();
    if (!sample.schema) throw new Error('a sample without a schema');
    const change = (verb: SchemaChange['verb'], kind: string, object: string, sql: string): SchemaChange => ({
      verb,
      kind,
      object,
      sql,
      dataLoss: false,
    });
    const changes = [
      change('create', 'column', 'public.t.a_new', 'ALTER TABLE "public"."t" ADD COLUMN "a_new" uuid'),
      change('grant', 'table', 'public.t', 'GRANT SELECT ON TABLE "public"."t" TO "app"'),
      change('comment', 'table', 'public.t', `COMMENT ON TABLE "public"."t" IS 'x'`),
      change('rename', 'column', 'public.t.a', 'ALTER TABLE "public"."t" RENAME COLUMN "a_new" TO "a"'),
    ];
    const text = renderText({ ...sample, schema: { ...sample.schema, changes, renames: [] } }, plain);
    expect(text).toMatch(/Schema +\+ t\.a, \+ grant on table t, ~ comment on table t\n/);
  });

  test.each(SAMPLES)('the text report of %s has no line that is wider than the terminal', (_name, report) => {
    for (const columns of [20, 40, 57, 80, 100])
      for (const unicode of [true, false])
        for (const line of renderText(report, { columns, colour: false, unicode }).split('\n'))
          expect(displayWidth(line), line).toBeLessThanOrEqual(columns);
    for (const line of renderText(report, whole).split('\n'))
      expect(displayWidth(line), line).toBeLessThanOrEqual(whole.columns);
  });

  test.each(SAMPLES)(
    'the text report of %s has no words of its own beyond ASCII if only ASCII is wanted',
    (_name, report) => {
      const given = new Set(JSON.stringify(report));
      const text = renderText(report, { ...plain, unicode: false });
      expect([...text].filter((character) => character > '\x7f' && !given.has(character))).toEqual([]);
    },
  );

  test.each(SAMPLES)('the text report of %s says the same with and without colour', (_name, report) => {
    const coloured = renderText(report, { ...plain, colour: true });
    expect(coloured.replace(SGR, '')).toBe(renderText(report, plain));
    expect(coloured).not.toBe(renderText(report, plain));
  });

  test.each(SAMPLES)(
    'the text report of %s lets nothing but line ends control the terminal',
    (_name, report) => {
      expect(renderText(report, plain)).not.toMatch(/[^\P{Cc}\n]/u);
      expect(renderText(report, plain)).not.toMatch(/[\u202a-\u202e\u2066-\u2069\u200b]/);
    },
  );
});

test('a name cannot fake a verdict: its escape sequence is shown, not obeyed', () => {
  expect(renderText(sampleReports.hostile ?? sampleReport(), plain)).toContain('\\x1b[2J\\x1b]0;owned\\x07');
});

test('the first line is the verdict, even when the policy gave no reason', () => {
  const failed = sampleReport({ command: { exitCode: 7 }, verdict: { pass: false, reasons: [] } });
  for (const style of [plain, whole])
    expect(renderText(failed, style)).toMatch(
      /^✗ DID NOT PASS: the command failed with exit code 7 after 2\.2 s/,
    );
});

test('a table that is dropped and re-created is shown once as dropped and once as new', () => {
  const row = (before: number, after: number) => ({
    relation: 'public.sums',
    exact: true,
    rewritten: false,
    rowsBefore: before,
    rowsAfter: after,
    bytesBefore: before * 100,
    bytesAfter: after * 100,
  });
  const change = (verb: 'create' | 'drop') => ({
    verb,
    kind: 'materialized view',
    object: 'public.sums',
    sql: '',
    dataLoss: verb === 'drop',
  });
  const sample = sampleReport();
  const tables = [row(24, 0), row(0, 25)];
  const text = renderText(
    {
      ...sample,
      schema: sample.schema && { ...sample.schema, changes: [change('drop'), change('create')] },
      data: sample.data && { ...sample.data, tables },
    },
    whole,
  );
  const rows = text.split('\n').filter((line) => /^ *public\.sums .* rows /.test(line));
  expect(rows).toEqual([
    expect.stringMatching(/0 → 25 rows .*NEW/),
    expect.stringMatching(/24 → 0 rows .*DROPPED, LOST 24 ROWS/),
  ]);
});

test('a hazard on many tables is shown once, with one SQL statement a line', () => {
  const hazard = (relation: string) => ({
    code: 'INDEX_NOT_CONCURRENT',
    severity: 'warning' as const,
    statement: 1,
    relation,
    message: `writes to ${relation} wait`,
    evidence: `SHARE on ${relation} for 2.0 s`,
    advice: `Outside a transaction:\nCREATE INDEX CONCURRENTLY ON ${relation} (id);\nANALYZE ${relation};`,
    allowed: false,
  });
  const text = renderText(sampleReport({ hazards: ['a', 'b', 'c'].map(hazard) }), whole);
  expect(text).toContain(
    [
      '      Evidence: SHARE on a for 2.0 s',
      '      Fix: Outside a transaction:',
      '        CREATE INDEX CONCURRENTLY ON a (id);',
      '        ANALYZE a;',
      '      Also: b, c',
    ].join('\n'),
  );
});

test('what else is wrong with the same table is said in its own words', () => {
  const hazard = (relation: string, message: string) => ({
    code: 'WRITES_BREAK',
    severity: 'error' as const,
    statement: 1,
    relation,
    message,
    evidence: '',
    advice: '',
    allowed: false,
  });
  const hazards = [hazard('a', 'names no plan'), hazard('a', 'violates known'), hazard('b', 'names no plan')];
  for (const style of [plain, whole])
    expect(renderText(sampleReport({ hazards }), style)).toContain('    Also: violates known; b');
});

test('a list that is cut keeps the changes that lose data', () => {
  const text = renderText(sampleReports.large ?? sampleReport(), whole);
  expect(text).toContain('… and 4,985 more changes; 5 of them lose data, see the JSON report');
  expect(text.match(/LOSES DATA/g)).toHaveLength(15);
});

test('a statement of several megabytes is cut without being measured whole', () => {
  const [statement] = sampleReports['failed-command']?.statements ?? [];
  const sql = `INSERT INTO t VALUES ${"('x'),".repeat(500_000)}`;
  const text = renderText(sampleReport({ statements: statement ? [{ ...statement, sql }] : [] }), whole);
  expect(text).toContain('1. INSERT INTO t VALUES');
  expect(text.length).toBeLessThan(4000);
});

test.each([
  ['', 0],
  ['-- only; a comment', 0],
  ['select 1', 1],
  ['insert into t values (\'a;b\'); drop table "x;y";', 2],
  ["select E'it\\'s; one';", 1],
  ['create function f() returns int as $f$ begin; $$;$$; end; $f$ language plpgsql; select 1;', 2],
  ['select 1; /* ; */ ;', 1],
])('the rollback SQL %j has %j statements', (sql, count) => {
  expect(countStatements(sql)).toBe(count);
});

test('the rollback SQL has no number of statements if a function body makes it uncertain', () => {
  expect(countStatements('create function f() begin atomic select 1; select 2; end;')).toBeUndefined();
});

test('the changes of one column are one line, which says what changed', () => {
  const sample = sampleReport();
  const alter = (sql: string) => ({
    verb: 'alter' as const,
    kind: 'column',
    object: 'public.orders.status',
    sql: `ALTER TABLE "public"."orders" ALTER COLUMN "status" ${sql}`,
    dataLoss: false,
  });
  const changes = [alter('DROP DEFAULT'), alter('TYPE order_status'), alter('SET NOT NULL')];
  const report = { ...sample, schema: sample.schema && { ...sample.schema, changes } };
  const lines = renderText(report, whole)
    .split('\n')
    .filter((line) => line.includes('public.orders.status'));
  expect(lines).toEqual([expect.stringMatching(/TYPE order_status, NOT NULL$/)]);
  expect(renderText(report, plain)).toMatch(
    /Schema +~ orders\.status: no DEFAULT, TYPE order_status, NOT NULL/,
  );
});

test('a change that the comparison does not model is named in its place', () => {
  const sample = sampleReport();
  const summary = (unmodeled: { kind: string; detail: string }[]) => {
    const schema = sample.schema && { ...sample.schema, changes: [], renames: [], unmodeled, after: 'other' };
    return /^ *Schema +(.*)$/m.exec(renderText({ ...sample, schema }, plain))?.[1];
  };
  const dropped = (name: string) => ({ kind: 'statistics object', detail: `public.${name} dropped` });
  expect(summary([dropped('a')])).toBe('statistics object public.a dropped');
  expect(summary([])).toBe('no change found, although the fingerprints differ');
});

test('the time of a run that changed the target is not called the rehearsal’s', () => {
  const { applied, swapped, passed } = sampleReports;
  const times = [applied ?? sampleReports['half-applied'], swapped, passed].map(
    (report) => /Time .*; (.* took) /.exec(renderText(report ?? sampleReport(), whole))?.[1],
  );
  expect(times).toEqual(['the whole run took', 'the whole run took', 'the rehearsal took']);
});

test('a dump is not spoken of as a target at work', () => {
  const sample = sampleReport({
    target: { origin: 'dump', source: '--dump shop.sql', unchanged: null },
    clone: { containment: 'target-server' },
    forecast: null,
    caveats: [
      { path: 'target.unchanged', kind: 'unmeasured', reason: 'REASON' },
      { path: 'forecast', kind: 'unmeasured', reason: 'REASON' },
    ],
  });
  for (const style of [plain, whole]) {
    const text = renderText(sample, style);
    expect(text).toMatch(/Target +shop from --dump shop\.sql, restored on PostgreSQL 16\.4 for this run/);
    expect(text).not.toMatch(/REASON|isolated|proved|; unchanged|unchanged by|FORECAST|db\.internal/);
    expect(text.trimEnd()).toMatch(/✓ Passed, nothing was changed\. +Details: safemigrate show$/);
  }
});
