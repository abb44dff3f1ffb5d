import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { apply } from '../helpers/apply.ts';
import { temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { psqlCommand, rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

/** The rows of public.t1 and other.t1 are what a command must not lose unless it lost them in the rehearsal. */
const SCHEMA = `
  CREATE SCHEMA other;
  CREATE TABLE t1 (id int); INSERT INTO t1 SELECT generate_series(1, 900);
  CREATE TABLE other.t1 (id int); INSERT INTO other.t1 SELECT generate_series(1, 900);
  CREATE TABLE log (note text);
  CREATE FUNCTION to_archive() RETURNS void LANGUAGE sql AS 'DELETE FROM t1';
  CREATE FUNCTION run_text(text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE $1; END';
  CREATE FUNCTION keep_note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (TG_OP); RETURN OLD; END';
  CREATE TRIGGER keep AFTER DELETE ON t1 FOR EACH STATEMENT EXECUTE FUNCTION keep_note();
  CREATE SEQUENCE numbers START 1000`;

let target: TemporaryDatabase;
let receipt: string;
let script: string;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, { sql: SCHEMA });
  const folder = temporaryFolder();
  receipt = path.join(folder, 'receipt.json');
  script = path.join(folder, 'migration.sql');
});

afterEach(() => target.drop());

/** Rehearses a script with a receipt, and applies by that receipt what the script holds then. */
async function applied(rehearsed: string, sent: string, between?: string) {
  writeFileSync(script, rehearsed);
  const first = await rehearse(target.url, psqlCommand('-f', script), { args: ['--receipt', receipt] });
  expect(first.report.command.exitCode, first.stderr).toBe(0);
  if (between !== undefined) await withClient(target.url, (client) => client.query(between));
  writeFileSync(script, sent);
  return await apply(target.url, psqlCommand('-f', script), {
    args: ['--receipt', receipt, '--force', 'the test deletes rows'],
  });
}

const rowsOf = (table: string) =>
  withClient(target.url, async (client) => {
    const { rows } = await client.query<{ count: number }>(`SELECT count(*)::int FROM ${table}`);
    return rows[0]?.count;
  });

describe('an apply does not run under other circumstances what was rehearsed', () => {
  test.each([
    [
      'search_path by SET',
      'SET search_path = public; DELETE FROM t1 WHERE id < 0;',
      'SET search_path = other; DELETE FROM t1 WHERE id < 901;',
      'search_path = other',
    ],
    [
      'search_path by set_config()',
      "SELECT set_config('search_path', 'public', false); DELETE FROM t1 WHERE id < 0;",
      "SELECT set_config('search_path', 'other', false); DELETE FROM t1 WHERE id < 901;",
      'search_path = other',
    ],
    [
      'triggers that do not fire',
      'DELETE FROM t1 WHERE id < 0;',
      'SET session_replication_role = replica; DELETE FROM t1 WHERE id < 0;',
      'session_replication_role = replica',
    ],
    [
      'a temporary table that is gone',
      'BEGIN; CREATE TEMP TABLE t1 (id int); DELETE FROM t1; ROLLBACK;',
      'BEGIN; CREATE TEMP TABLE t1 (id int); DELETE FROM t1; ROLLBACK; DELETE FROM t1;',
      'this statement was not rehearsed',
    ],
    [
      'a function whose name begins like one of PostgreSQL',
      'SELECT 1;',
      'SELECT to_archive();',
      'was not rehearsed',
    ],
    ['a sequence that is set', 'SELECT 1;', "SELECT pg_catalog.setval('numbers', 1);", 'was not rehearsed'],
    [
      'a text that is executed',
      "SELECT run_text('SELECT 1');",
      "SELECT run_text('DELETE FROM t1');",
      'was not rehearsed',
    ],
  ])('%s', async (_what, rehearsed, sent, words) => {
    const { exitCode, apply: outcome, stderr } = await applied(rehearsed, sent);
    expect(stderr).toContain(words);
    expect(outcome.outcome).not.toBe('applied');
    expect(exitCode).toBe(4);
    expect([await rowsOf('t1'), await rowsOf('other.t1'), await rowsOf('log')]).toEqual([900, 900, 0]);
  });

  test('settings of the database that were made since', async () => {
    const sql = 'DELETE FROM t1 WHERE id < 0;';
    const name = new URL(target.url).pathname.slice(1);
    const set = `ALTER DATABASE "${name}" SET search_path = other`;
    const { exitCode, apply: outcome } = await applied(sql, sql, set);
    expect(outcome).toMatchObject({ outcome: 'refused' });
    expect(outcome.reasons.join()).toContain('the setting search_path of the database');
    expect(exitCode).toBe(4);
  });
});

test('rows that the rehearsal did not delete are said, with those of the rehearsal', async () => {
  const deletion = (limit: number) => `DELETE FROM t1 WHERE id < ${limit};`;
  const { exitCode, apply: outcome, stderr } = await applied(deletion(0), deletion(900));
  expect(exitCode).toBe(0);
  expect(outcome.differences).toEqual(['statement 1 deleted 899 rows, 0 in the rehearsal']);
  expect(outcome.comparedTimes).toMatchObject([{ rehearsedRows: 0, appliedRows: 899 }]);
  expect(900 - ((await rowsOf('t1')) ?? 0)).toBe(899);
  expect(stderr).toMatch(/Applied to \S+ in .*, with differences from the rehearsal\./);
});

test.each([
  ['spacing and comments', 'DELETE  FROM t1 -- none\n WHERE id < 0;'],
  [
    'settings of time and messages',
    "SET application_name = 'a'; SET lock_timeout = '5s'; DELETE FROM t1 WHERE id < 0;",
  ],
  [
    'queries of the catalogue',
    'SELECT c.relname, pg_get_userbyid(c.relowner) FROM pg_catalog.pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace; DELETE FROM t1 WHERE id < 0;',
  ],
  ['settings that are set back', 'SET search_path = other; RESET search_path; DELETE FROM t1 WHERE id < 0;'],
  ['a lock of a tool', 'SELECT pg_advisory_lock(1), now(), version(); DELETE FROM t1 WHERE id < 0;'],
])('is not kept from what does not matter: %s', async (_what, sent) => {
  const { exitCode, apply: outcome, stderr } = await applied('DELETE FROM t1 WHERE id < 0;', sent);
  expect(outcome, stderr).toMatchObject({ outcome: 'applied', differences: [] });
  expect(stderr).toContain('as rehearsed.');
  expect(exitCode).toBe(0);
});
