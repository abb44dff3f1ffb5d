import { beforeAll, describe, expect, test } from 'vitest';
import type { Report } from '../../../src/model/report.ts';
import { rehearseInSchemas, schemaOf, statementsOf } from '../../helpers/hazard-examples.ts';
import { useOwnServers, VERSIONS } from '../../helpers/servers.ts';

/** Which command of an ALTER TABLE rewrites its table, and what a stored column is needed for: tried on an empty table. */
const SETUP = `
  CREATE TABLE items (id int PRIMARY KEY, code varchar(10), price int NOT NULL);
  INSERT INTO items SELECT n, CASE WHEN n % 5 > 0 THEN 'C' || n END, n FROM generate_series(1, 500) n;
  CREATE TABLE numbers AS SELECT n FROM generate_series(1, 1000) n; ALTER TABLE numbers ADD PRIMARY KEY (n);
  CREATE TABLE "Odd items" (LIKE items);
  CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
  CREATE FUNCTION at_random() RETURNS float LANGUAGE sql VOLATILE AS 'SELECT random()';
  CREATE FUNCTION plain() RETURNS int LANGUAGE sql STABLE AS 'SELECT 7';`;

const STORED = 'ADD COLUMN total int GENERATED ALWAYS AS (price * 2) STORED';

/** Statements, and the columns that the advice of each finding about a rewrite names. */
const EXAMPLES: readonly (readonly [sql: string, found: Readonly<Record<string, string>>])[] = [
  [
    'ALTER TABLE items ADD COLUMN a int DEFAULT 0, ADD COLUMN b timestamptz DEFAULT clock_timestamp()',
    { VOLATILE_DEFAULT_REWRITES: 'ADD COLUMN b ' },
  ],
  [
    'ALTER TABLE items ADD COLUMN a int DEFAULT 1 NOT NULL, ALTER COLUMN price TYPE bigint',
    { TYPE_CHANGE_REWRITES: 'ADD COLUMN price_new ' },
  ],
  [
    'ALTER TABLE items ALTER COLUMN code TYPE text, ALTER COLUMN price TYPE bigint USING price + 1',
    { TYPE_CHANGE_REWRITES: 'ADD COLUMN price_new ' },
  ],
  [
    'ALTER TABLE "Odd items" ADD COLUMN a int DEFAULT plain(), ADD COLUMN b float DEFAULT at_random(), ALTER COLUMN id TYPE bigint',
    { TYPE_CHANGE_REWRITES: 'ADD COLUMN id_new ', VOLATILE_DEFAULT_REWRITES: 'ADD COLUMN b ' },
  ],
  [
    'ALTER TABLE items ADD COLUMN a int DEFAULT 3 REFERENCES numbers, ADD COLUMN n serial',
    { IDENTITY_REWRITES: 'ADD COLUMN n ' },
  ],
  ['ALTER TABLE items ADD COLUMN a int DEFAULT 3, SET UNLOGGED', { SET_LOGGED_REWRITES: 'UNLOGGED' }],
];

/** Commands that add a stored column, and why it cannot be VIRTUAL on PostgreSQL 18; null: it can. */
const STORED_EXAMPLES: readonly (readonly [what: string, sql: string, reason: RegExp | null])[] = [
  ['nothing else', `ALTER TABLE items ${STORED}`, null],
  [
    'an index in the next statement',
    `ALTER TABLE items ${STORED}; CREATE INDEX stored_total ON items (price, total)`,
    /index stored_total: indexes on virtual generated columns are not supported/,
  ],
  ['a unique key', `ALTER TABLE items ${STORED} UNIQUE`, /virtual generated columns/],
  ['a foreign key', `ALTER TABLE items ${STORED} REFERENCES numbers DEFERRABLE`, /virtual generated columns/],
  ['a CHECK and NOT NULL', `ALTER TABLE items ${STORED} NOT NULL CHECK (total > 0)`, null],
  [
    'a function of the user in its expression',
    'ALTER TABLE items ADD COLUMN total int GENERATED ALWAYS AS (twice(price)) STORED',
    /user-defined function/,
  ],
];

const SQL = [
  ...EXAMPLES.map(([sql]) => sql),
  ...STORED_EXAMPLES.map(([, sql]) => sql),
  'ALTER TABLE items ALTER COLUMN code SET NOT NULL',
  "BEGIN; UPDATE items SET code = 'x' WHERE id = 7; ALTER TABLE items ALTER COLUMN code SET NOT NULL; ROLLBACK",
];

describe.each(VERSIONS.filter((version) => version === 14 || version === 18))(
  'on PostgreSQL %i',
  (version) => {
    let report: Report;

    beforeAll(async () => {
      await useOwnServers(version);
      report = await rehearseInSchemas(
        version,
        SQL.map((sql) => ({ setup: SETUP, sql })),
      );
    }, 120_000);

    /** Findings in the session of an example. */
    const findingsOf = (index: number) => {
      const statements = statementsOf(report, index);
      return report.hazards.filter(({ statement }) => statements.some((each) => each.index === statement));
    };

    test('each example ran as it was meant', () => {
      const failures = report.statements.flatMap(({ error }) => error?.message ?? []);
      expect(failures).toEqual(Array(2).fill('column "code" of relation "items" contains null values'));
    });

    test.each(EXAMPLES.map((example, index) => [index, ...example] as const))(
      'the column that rewrites the table is named: %i',
      (index, _, found) => {
        const rewrites = findingsOf(index).filter(({ code }) => code.endsWith('_REWRITES'));
        expect(rewrites.map(({ code }) => code).sort()).toEqual(Object.keys(found).sort());
        for (const { code, advice } of rewrites) expect(advice).toContain(found[code]);
      },
    );

    test.each(STORED_EXAMPLES.map((example, index) => [index + EXAMPLES.length, ...example] as const))(
      'VIRTUAL is advised for a stored column only if the server takes it, example %i: %s',
      (index, _, __, reason) => {
        const [finding, ...others] = findingsOf(index).filter(
          ({ code }) => code === 'GENERATED_COLUMN_REWRITES',
        );
        expect(others).toEqual([]);
        const expected = version < 18 ? /from PostgreSQL 18 on/ : reason;
        if (expected === null) expect(finding?.advice).toMatch(/GENERATED ALWAYS AS \(…\) VIRTUAL/);
        else {
          expect(finding?.advice).toMatch(expected);
          expect(finding?.advice).toMatch(/ADD COLUMN total int4;?\n.*CREATE TRIGGER/);
        }
      },
    );

    test('the rows with NULL are counted, unless the transaction had filled some of them', () => {
      const nulls = (index: number) =>
        findingsOf(index)
          .filter(({ code }) => code === 'ROWS_VIOLATE_CONSTRAINT')
          .map(({ message }) => message);
      const first = SQL.length - 2;
      expect(nulls(first)).toEqual([`100 rows of ${schemaOf(first)}.items have NULL in code`]);
      expect(nulls(first + 1)).toEqual([`rows of ${schemaOf(first + 1)}.items violate the new constraint`]);
    });
  },
);
