import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';

describe('the report of a run', () => {
  test('is kept for its user alone, and shown again in any format', async () => {
    const database = await temporaryDatabase(18, { sql: 'CREATE TABLE orders (id int)' });
    const folder = temporaryFolder();
    const env = { DATABASE_URL: database.url, XDG_STATE_HOME: folder };
    const command = sqlCommand("ALTER TABLE orders ADD note text DEFAULT 'planted-literal'");
    await safemigrate(['--', ...command], { env });
    await safemigrate(['--down', 'false', '--', ...command], { env });

    const runs = path.join(folder, 'safemigrate', 'runs');
    const names = (await readdir(runs)).sort();
    expect(names).toHaveLength(2);
    for (const name of names) expect((await stat(path.join(runs, name))).mode & 0o077).toBe(0);
    expect(await readFile(path.join(runs, names[0] ?? ''), 'utf8')).not.toContain(
      new URL(database.url).password,
    );

    const first = names[0]?.replace('.json', '') ?? '';
    const html = path.join(folder, 'report.html');
    const shown = await safemigrate(['show', first, '--report', html], { env });
    expect(shown.exitCode).toBe(0);
    expect(shown.stdout).toContain('PASSED');
    expect(await readFile(html, 'utf8')).not.toContain('planted-literal');
    const open = await safemigrate(['show', first, '--report', html, '--no-redact'], { env });
    expect(open.exitCode).toBe(0);
    expect(await readFile(html, 'utf8')).toContain('planted-literal');
    const last = await safemigrate(['show'], { env });
    expect(last.stdout).toContain('DID NOT PASS');
  });

  test('that is not kept is said so, with those that are', async () => {
    const env = { XDG_STATE_HOME: temporaryFolder() };
    const none = await safemigrate(['show'], { env });
    expect(none.exitCode).toBe(2);
    expect(none.stderr).toContain('No report is kept yet');
  });
});

test('on GitHub the summary of the step and annotations are written, without literals and hosts', async () => {
  const database = await temporaryDatabase(18, { sql: 'CREATE TABLE orders (id int)' });
  const folder = temporaryFolder();
  const summary = path.join(folder, 'summary.md');
  await writeFile(summary, '# Earlier step\n');
  const env = {
    DATABASE_URL: database.url,
    XDG_STATE_HOME: folder,
    CI: 'true',
    GITHUB_ACTIONS: 'true',
    GITHUB_STEP_SUMMARY: summary,
  };
  const { exitCode, stderr } = await safemigrate(['--', ...sqlCommand("SELECT 'planted-literal'::int")], {
    env,
  });
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/^::error title=safemigrate::/m);
  expect(stderr.slice(stderr.indexOf('::error'))).not.toContain('planted-literal');
  const text = await readFile(summary, 'utf8');
  expect(text.startsWith('# Earlier step\n<!-- safemigrate -->')).toBe(true);
  expect(text).not.toContain('planted-literal');
});

test('on GitHub a name of the database is no command for the runner', async () => {
  const name = 'a\n::add-mask::planted\nb';
  const database = await temporaryDatabase(18, { sql: `CREATE TABLE "${name}" (id int)` });
  const env = { DATABASE_URL: database.url, CI: 'true', GITHUB_ACTIONS: 'true' };
  const command = ['--', ...sqlCommand(`DROP TABLE "${name}"`)];
  const { stderr } = await safemigrate(command, { env, folder: temporaryFolder() });
  expect(stderr).toContain('add-mask');
  const commands = stderr.replaceAll(/^::stop-commands::([\w-]+)\n[\s\S]*?^::\1::\n/gm, '');
  expect(commands).not.toMatch(/^\s*::add-mask/m);
});
