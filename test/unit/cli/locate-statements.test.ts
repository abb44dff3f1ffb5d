import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { locateStatements } from '../../../src/cli/ci/locate-statements.ts';
import { annotations } from '../../../src/cli/ci/log-commands.ts';
import { renderSarif } from '../../../src/report/sarif.ts';
import { temporaryFolder } from '../../helpers/cli.ts';
import { sampleReport } from '../../helpers/reports.ts';

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
  const found = await locateStatements(report, folder);
  expect([...found]).toEqual([[1, { file: 'db/002 wide ids.sql', line: 3 }]]);
  const sarif = JSON.parse(renderSarif(report, found));
  expect(sarif.runs[0].results[0].locations[0].physicalLocation).toEqual({
    artifactLocation: { uri: 'db/002%20wide%20ids.sql' },
    region: { startLine: 3 },
  });
  expect(sarif.runs[0].results[1].locations).toBeUndefined();
  expect(annotations(report, found)).toContain(
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
  const found = await locateStatements(report, folder);
  expect([...found]).toEqual([[1, { file: 'prisma/migrations/1/migration.sql', line: 1 }]]);
});

test('SARIF holds no hazard that the policy allows, and each rule once', () => {
  const report = sampleReport({ hazards: [hazard(1), hazard(2), hazard(3, true)] });
  const { runs } = JSON.parse(renderSarif(report, new Map()));
  expect(runs[0].results).toHaveLength(2);
  expect(runs[0].tool.driver.rules).toEqual([
    { id: 'TABLE_REWRITTEN', shortDescription: { text: 'Table rewritten' } },
  ]);
});
