import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { openDump } from '../../../src/rehearsal/from-file/dump-file.ts';
import { runDump } from '../../../src/rehearsal/from-file/restore.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'restore-'));
afterAll(() => rmSync(folder, { recursive: true }));

const { signal } = new AbortController();

async function restore(name: string, sql: string): Promise<string> {
  const file = path.join(folder, name);
  writeFileSync(file, sql);
  const database = await temporaryDatabase(18);
  const settings = parseSettings(database.url, readEnvironment({}, '/'));
  await runDump(await openDump(file, signal), settings, { name, major: 18, signal, psql: undefined });
  return database.url;
}

describe('a dump, where psql is not installed,', () => {
  test('is restored if the server alone can read it', async () => {
    const url = await restore(
      'inserts.sql',
      `\\restrict abc\nSELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.t (n int, word text);\nINSERT INTO public.t VALUES (1, 'ä');\n\\unrestrict abc\n`,
    );
    const rows = await withClient(url, async (client) => (await client.query('SELECT * FROM t')).rows);
    expect(rows).toEqual([{ n: 1, word: 'ä' }]);
  });

  test('is put where its own names lead, not into the catalogue', async () => {
    const url = await restore('own.sql', 'CREATE TABLE t (n int)');
    const sql = "SELECT relnamespace::regnamespace::text AS schema FROM pg_class WHERE oid = 't'::regclass";
    expect(await withClient(url, async (client) => (await client.query(sql)).rows)).toEqual([
      { schema: 'public' },
    ]);
  });

  test.each([
    ['rows.sql', 'CREATE TABLE t (n int);\nCOPY t (n) FROM stdin;\n1\n\\.\n'],
    ['commands.sql', '\\i other.sql\n'],
  ])('is refused with rows or commands for psql in it: %s', async (name, sql) => {
    await expect(restore(name, sql)).rejects.toThrow('psql is not installed here');
  });

  test('fails with what the server said', async () => {
    await expect(restore('wrong.sql', 'CREATE TABLE t (n nonsense)')).rejects.toThrow(
      'wrong.sql could not be restored:\n  type "nonsense" does not exist',
    );
  });
});
