import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { annotations } from '../../../../src/cli/ci/log-commands.ts';
import type { Report } from '../../../../src/model/report.ts';
import type { SentText } from '../../../../src/observe/statements.ts';
import { locateStatements } from '../../../../src/rehearsal/places/locate-statements.ts';
import { placeOf, placeWords } from '../../../../src/report/place.ts';
import { renderSarif } from '../../../../src/report/sarif.ts';
import { temporaryFolder } from '../../../helpers/cli.ts';
import { sampleReport } from '../../../helpers/reports.ts';

const hazard = (statement: number, allowed = false) => ({
  code: 'TABLE_REWRITTEN',
  severity: 'error' as const,
  statement,
  relation: 'public.orders',
  message: 'all of it, 100%',
  evidence: 'a\nb',
  advice: '',
  allowed,
});

function reportOf(...sqls: string[]) {
  const base = sampleReport();
  const statements = sqls.map((sql, index) => ({
    index: index + 1,
    session: 1,
    sql,
    tag: null,
    startedAt: base.run.startedAt,
    durationMs: 1,
    rows: null,
    transaction: 1,
    explicit: false,
    exactness: 'exact' as const,
    error: null,
    locks: [],
    rewrote: [],
    walBytes: null,
  }));
  return sampleReport({ statements, hazards: statements.map(({ index }) => hazard(index)) });
}

type Sent = ReadonlyMap<number, SentText>;

async function locatedIn(
  report: Report,
  folder: string,
  sent: Sent = new Map(),
  argv: readonly string[] = ['migrate'],
): Promise<Report> {
  const { statements, hazards } = report;
  return { ...report, statements: await locateStatements(statements, hazards, sent, { argv, folder }) };
}

/** The places that were found, by the index of the statement. */
function placesOf(report: Report): Record<number, string> {
  return Object.fromEntries(
    report.statements.flatMap(({ index }) => {
      const place = placeOf(report, index);
      return place ? [[index, placeWords(place)]] : [];
    }),
  );
}

function projectWith(files: Record<string, string>): string {
  const folder = temporaryFolder();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  }
  return folder;
}

test('a statement is found at its line, whatever its blanks and letters are there', async () => {
  const folder = projectWith({
    'node_modules/x/a.sql': 'ALTER TABLE orders ALTER id TYPE bigint',
    'db/002 wide ids.sql': '-- wide\n\nalter  table orders\n  ALTER id TYPE bigint;\n',
  });
  const report = reportOf(
    'ALTER TABLE orders ALTER id TYPE bigint',
    'COMMIT',
    'SELECT something_else FROM t',
  );
  const found = await locatedIn(report, folder);
  expect(placesOf(found)).toEqual({ 1: 'db/002 wide ids.sql:3' });
  const sarif = JSON.parse(renderSarif(found));
  expect(sarif.runs[0].results[0].locations[0].physicalLocation).toEqual({
    artifactLocation: { uri: 'db/002%20wide%20ids.sql' },
    region: { startLine: 3 },
  });
  expect(sarif.runs[0].results[1].locations).toBeUndefined();
  expect(annotations(found)).toContain(
    '::error file=db/002 wide ids.sql,line=3,title=TABLE_REWRITTEN on public.orders::all of it, 100%25. a',
  );
});

test('what git ignores is not searched, and migrations are searched before other files', async () => {
  const folder = projectWith({
    '.gitignore': 'generated/',
    'app/copy.ts': '// ALTER TABLE orders ALTER id TYPE bigint',
    'generated/migrations/1.sql': 'DROP TABLE customers_of_old',
    'prisma/migrations/1/migration.sql': 'ALTER TABLE orders ALTER id TYPE bigint;',
  });
  spawnSync('git', ['init', '-q'], { cwd: folder });
  const report = reportOf('ALTER TABLE orders ALTER id TYPE bigint', 'DROP TABLE customers_of_old');
  expect(placesOf(await locatedIn(report, folder))).toEqual({ 1: 'prisma/migrations/1/migration.sql:1' });
});

test('a file that the command names comes first, a way back last, and what --propose wrote never', async () => {
  const sql = 'ALTER TABLE orders ALTER id TYPE bigint;';
  const folder = projectWith({
    'db/001.down.sql': sql,
    'db/001.up.sql': sql,
    'db/001/up.sql': sql,
    'db/002/up.sql': sql,
    'safer.sql': `-- A safer form of a migration, written by safemigrate --propose.\n${sql}\nDROP TABLE customers_of_old;`,
    'wide.sql': sql,
  });
  const report = reportOf('ALTER TABLE orders ALTER id TYPE bigint', 'DROP TABLE customers_of_old');
  const placed = async (...argv: string[]) => placesOf(await locatedIn(report, folder, new Map(), argv));
  expect(await placed('alembic', 'upgrade', 'head')).toEqual({ 1: 'db/001.up.sql:1' });
  expect(await placed('psql', '-f', 'db/002/up.sql')).toEqual({ 1: 'db/002/up.sql:1' });
  expect(await placed('sh', '-c', 'psql -f wide.sql "$DATABASE_URL"')).toEqual({ 1: 'wide.sql:1' });
  expect(await placed('psql', '-f', '/srv/shop/db/001.down.sql')).toEqual({ 1: 'db/001.down.sql:1' });
  expect(await placed('psql', '-f', 'safer.sql')).toEqual({ 1: 'safer.sql:2', 2: 'safer.sql:3' });
});

test('SARIF holds no hazard that the policy allows, and each rule once', () => {
  const report = sampleReport({ hazards: [hazard(1), hazard(2), hazard(3, true)] });
  const { runs } = JSON.parse(renderSarif(report));
  expect(runs[0].results).toHaveLength(2);
  expect(runs[0].tool.driver.rules).toEqual([
    {
      id: 'TABLE_REWRITTEN',
      shortDescription: { text: 'a table is rewritten' },
      fullDescription: { text: expect.stringMatching(/^ACCESS EXCLUSIVE/) },
      help: {
        text: expect.stringMatching(/^Found when: .*\nIn production: .*\nSafer: /),
        markdown: expect.stringMatching(/^\*\*Found when:\*\* /),
      },
      defaultConfiguration: { level: 'error' },
    },
  ]);
});

const ADD = 'ALTER TABLE "orders" ADD COLUMN "paid" boolean NOT NULL';
const DROP = 'ALTER TABLE "customers" DROP COLUMN "vat"';
const DJANGO = (name: string) =>
  `INSERT INTO "django_migrations" ("app", "name", "applied") VALUES ('shop', '${name}', '2026-01-05'::timestamptz)`;

test('the migration that a tool records after the statements names their file', async () => {
  const folder = projectWith({
    'shop/migrations/0001_paid.py': 'AddField(Order, paid)',
    'shop/migrations/0002_vat.py': `RunSQL('${DROP}')`,
    'blog/migrations/0001_paid.py': '',
  });
  const report = reportOf(ADD, DJANGO('0001_paid'), DROP, DJANGO('0002_vat'), 'DROP TABLE customers_of_old');
  expect(placesOf(await locatedIn(report, folder))).toMatchObject({
    1: 'shop/migrations/0001_paid.py',
    3: 'shop/migrations/0002_vat.py:1',
  });
});

test.each([
  ['knex_migrations', 'name', "'20260105_paid.js'::text", 'migrations/20260105_paid.js'],
  ['migrations', 'name', "'Paid1767603600000'::text", 'src/migration/1767603600000-paid.ts'],
  ['schema_migrations', 'version', "'20260105090000'", 'db/migrate/20260105090000_paid.rb'],
])('%s: a record with parameters names the file by their values', async (table, column, value, file) => {
  const folder = projectWith({ [file]: '', 'db/migrate/20260106090000_other.rb': '' });
  const record = `insert into "${table}" ("batch", "${column}") values ($1, $2)`;
  const sent = new Map([[2, { sql: record, values: ['1::bigint', value] }]]);
  expect(placesOf(await locatedIn(reportOf(ADD, record), folder, sent))[1]).toBe(file);
});

test('a name that two files have, and a record that another session may have written, name no file', async () => {
  const folder = projectWith({ 'a/migrations/0001_paid.py': '', 'b/migrations/0001_paid.py': '' });
  expect(placesOf(await locatedIn(reportOf(ADD, DJANGO('0001_paid')), folder))).toEqual({});
  const report = reportOf(ADD, DJANGO('0002_vat'), DJANGO('0003_more'));
  const [first, second, third] = report.statements;
  if (!first || !second || !third) throw new Error('three statements');
  const other = projectWith({ 'shop/migrations/0003_more.py': '', 'shop/migrations/0002_vat.py': '' });
  const apart = { ...report, statements: [first, { ...second, session: 2 }, { ...third, transaction: 9 }] };
  expect(placesOf(await locatedIn(apart, other))[1]).toBeUndefined();
});
