import { chmodSync, readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { safemigrate, temporaryFolder } from '../helpers/cli.ts';

test('the demo shows a rehearsal from beginning to end, and leaves no server behind', async () => {
  const folder = temporaryFolder();
  chmodSync(folder, 0o755);
  const { exitCode, stderr } = await safemigrate(['demo'], { env: { TMPDIR: folder } });
  expect(exitCode, stderr).toBe(0);
  expect(stderr).toContain('$ safemigrate -- node migrate.js');
  expect(stderr).toContain('DID NOT PASS: COLUMN_DROPPED on public.customers');
  expect(stderr).toContain('20,000 of 20,000 rows had a value');
  expect(stderr).toMatch(/SCHEMA {2}\d+ changes/);
  expect(stderr).not.toMatch(/postgresql:\/\/postgres:/);
  expect(stderr).toContain('The shop itself was not touched.');
  expect(readdirSync(folder)).toEqual([]);
});
