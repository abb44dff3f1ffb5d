import { chmodSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Report } from '../../src/model/report.ts';
import { safemigrate, temporaryFolder } from '../helpers/cli.ts';

test('the demo shows a rehearsal that passes and one that is stopped, and leaves no server behind', {
  timeout: 300_000,
}, async () => {
  const [folder, reports] = [temporaryFolder(), temporaryFolder()];
  chmodSync(folder, 0o755);
  const file = path.join(reports, 'demo.json');
  const { exitCode, stderr } = await safemigrate(['demo', '--report', file], { env: { TMPDIR: folder } });
  expect(exitCode, stderr).toBe(0);
  const [first = '', second = '', third = ''] = stderr.split(
    /^\$ safemigrate (?:-- node migrate\.js|--propose safer\.sql .*)\n/m,
  );
  expect(first).toContain('$ safemigrate -- node migrate.js --to 003_index_orders\n');
  expect(first).toMatch(/^✓ PASSED: \d warnings?, \d notices\s.*node migrate\.js/m);
  expect(first).toContain('▲ COLUMN_RENAMED  migrations/001_rename_mail.sql:1\n');
  expect(first).toMatch(/^ {2}Schema {3}\+ orders\.total_cents, /m);
  expect(first).toMatch(/^✓ Passed, nothing was changed\./m);
  expect(first).not.toContain('DID NOT PASS');
  expect(second).toMatch(/^✗ DID NOT PASS: 1 error, /m);
  expect(second).toContain('✗ COLUMN_DROPPED  migrations/004_drop_legacy_code.sql:1\n');
  expect(second).toMatch(/^✗ Did not pass, nothing was changed\./m);
  expect(second).toContain('20,000 of 20,000 rows had a value');
  expect(second).toContain('A pipeline would end here, with exit code 1.');
  expect(third).toMatch(/SAFER FORM {2}proved/);
  expect(third).toMatch(/reads blocked, at most +[\d.]+ m?s +[\d.]+ m?s/);
  expect(third).toContain('The shop itself was touched by none of them.');
  expect(stderr).not.toMatch(/postgresql:\/\/postgres:/);
  const report: Report = JSON.parse(readFileSync(file, 'utf8'));
  expect(report.verdict.pass).toBe(true);
  expect(readdirSync(folder)).toEqual([]);
});
