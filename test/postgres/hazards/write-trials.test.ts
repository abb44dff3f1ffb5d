import { beforeAll, describe, expect, test } from 'vitest';
import type { Report } from '../../../src/model/report.ts';
import { sqlCommand } from '../../helpers/cli.ts';
import { temporaryDatabase } from '../../helpers/database.ts';
import { rehearse } from '../../helpers/rehearse.ts';
import { NEWEST } from '../../helpers/servers.ts';

const SETUP = `
CREATE TABLE depots (id int PRIMARY KEY, name text, code text);
INSERT INTO depots SELECT n, CASE WHEN n > 5 THEN 'Depot ' || n END, 'D' || n FROM generate_series(1, 100) n;
CREATE TABLE names (depot int, name text, code text);
INSERT INTO names SELECT 1 + n % 10, 'Name ' || n, 'same' FROM generate_series(1, 20) n;
INSERT INTO names VALUES (NULL, NULL, NULL)`;

const FROM = 'FROM names n WHERE n.depot = d.id';
/** Rows for which several others match. */
const MATCHES = [
  [`UPDATE depots d SET name = n.name ${FROM}`, 10],
  // The condition is true no more once the names are set.
  [`UPDATE depots d SET name = n.name ${FROM} AND d.name IS NULL`, 5],
  [`UPDATE depots AS d SET (name, code) = (n.name, 'x') ${FROM}`, 10],
  [`UPDATE depots d SET code = n.code ${FROM}`, 0],
  [
    'UPDATE depots d SET name = n.name FROM (SELECT depot, min(name) AS name FROM names GROUP BY 1) n WHERE n.depot = d.id',
    0,
  ],
] as const;

const NEVER_TRUE = [
  ["UPDATE depots SET code = 'x' WHERE name = NULL", true],
  ["UPDATE depots SET code = 'x' WHERE id > 5 AND name <> NULL", true],
  ["UPDATE depots SET code = 'x' WHERE name = NULL OR id = 500", false],
  ["UPDATE depots SET code = 'x' WHERE name NOT IN (SELECT name FROM names)", true],
  ["UPDATE depots SET code = 'x' WHERE name NOT IN ('a', NULL)", true],
  [
    "UPDATE depots SET code = 'x' WHERE id > 500 AND name NOT IN (SELECT name FROM names WHERE name <> '')",
    false,
  ],
  ["UPDATE depots SET code = 'x' WHERE name IS NULL AND id > 5", false],
  ['DELETE FROM depots WHERE id NOT IN (SELECT depot FROM names)', true],
  ["INSERT INTO names SELECT id, 'new' FROM depots WHERE id NOT IN (SELECT depot FROM names)", true],
] as const;

const block = (sql: string, error: string) => `DO $$ BEGIN ${sql}; EXCEPTION WHEN ${error} THEN NULL; END $$`;
const SWALLOWED = [
  [block('CREATE UNIQUE INDEX names_depot ON names (depot)', 'OTHERS'), true],
  [block('ALTER TABLE names ADD CONSTRAINT named CHECK (depot > 5)', 'check_violation'), true],
  [block("EXECUTE 'ALTER TABLE names ALTER depot SET NOT NULL'", 'OTHERS'), true],
  [block('CREATE UNIQUE INDEX depots_code ON depots (code)', 'OTHERS'), false],
  [block('ALTER TABLE depots ADD CONSTRAINT numbered CHECK (id > 0)', 'duplicate_object'), false],
] as const;

/** Each runs in a schema of its own, all in one command. */
const STATEMENTS = [...MATCHES, ...NEVER_TRUE, ...SWALLOWED].map(([sql]): string => sql);
const inSchema = (at: number, sql: string) => `SET search_path = s${at}; ${sql}`;

describe.each(NEWEST)('trials of the writes of a command, on PostgreSQL %i', (version) => {
  let report: Report;

  beforeAll(async () => {
    const setup = STATEMENTS.map((_, at) => `CREATE SCHEMA s${at}; ${inSchema(at, SETUP)}`);
    const { url } = await temporaryDatabase(version, { sql: setup.join(';') });
    ({ report } = await rehearse(url, sqlCommand(STATEMENTS.map((sql, at) => inSchema(at, sql)).join(';'))));
    expect(report.command.exitCode).toBe(0);
  }, 120_000);

  const told = (sql: string, ...codes: string[]) =>
    report.hazards.filter(
      ({ code, relation }) => codes.includes(code) && relation?.startsWith(`s${STATEMENTS.indexOf(sql)}.`),
    );

  test.each(MATCHES)('%s leaves %s rows to chance', (sql, rows) => {
    const found = told(sql, 'VALUES_OVERWRITTEN').map(({ severity, evidence }) => `${severity}: ${evidence}`);
    const words = `warning: ${rows} rows with several matches and different values for them`;
    expect(found).toEqual(rows === 0 ? [] : [expect.stringContaining(words)]);
  });

  test.each(NEVER_TRUE)('%s can never be true: %s', (sql, isNever) => {
    expect(told(sql, 'CONDITION_NEVER_TRUE')).toHaveLength(isNever ? 1 : 0);
  });

  test.each(SWALLOWED)('%s passes over an error: %s', (sql, isSwallowed) => {
    expect(told(sql, 'UNIQUE_OVER_DUPLICATES', 'ROWS_VIOLATE_CONSTRAINT')).toHaveLength(isSwallowed ? 1 : 0);
  });
});
