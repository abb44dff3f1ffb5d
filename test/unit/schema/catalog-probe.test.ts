import { describe, expect, test } from 'vitest';
import { neededRows } from '../../../src/schema/catalog-probe.ts';

const rows = (catalogue: string, more = '', oid = 'oid') =>
  `SELECT FROM pg_catalog.${catalogue} x WHERE x.${oid} >= 16384${more}`;

describe('the rows without which a question has no answer', () => {
  test.each([
    [
      'are those of the catalogue that it begins with',
      'SELECT p.polname FROM pg_policy p JOIN pg_class c ON true',
      rows('pg_policy'),
    ],
    [
      'whatever stands in parentheses',
      "SELECT (SELECT 1 FROM pg_proc) AS a, 'x) FROM pg_enum e' AS b FROM pg_catalog.pg_range r",
      rows('pg_range', '', 'rngtypid'),
    ],
    ['or in comments', "SELECT 1 -- isn't ( FROM pg_enum e\n FROM pg_collation c", rows('pg_collation')],
    [
      'of the kinds that it asks for',
      "SELECT 1 FROM pg_class c JOIN pg_class d ON d.relkind = 'i' WHERE c.relkind IN ('v', 'm') AND d.relkind = 'r'",
      rows('pg_class', " AND x.relkind in ('v', 'm')"),
    ],
    [
      'or of one kind',
      "select 1 from pg_catalog.pg_type t where t.typtype = 'd'",
      rows('pg_type', " AND x.typtype = 'd'"),
    ],
    [
      'or of domains',
      'SELECT 1 FROM pg_constraint con WHERE con.contypid <> 0 AND NOT EXISTS (SELECT 1)',
      rows('pg_constraint', ' AND x.contypid <> 0'),
    ],
    [
      'but not those that a join on condition has',
      "SELECT 1 FROM pg_type t LEFT JOIN pg_class c ON t.typtype = 'c' WHERE true",
      rows('pg_type'),
    ],
  ])('%s', (_, sql, expected) => {
    expect(neededRows(sql)).toBe(expected);
  });

  test.each([
    ['a union', 'SELECT 1 FROM pg_enum e UNION ALL SELECT 2 FROM pg_range r'],
    ['a choice of conditions', "SELECT 1 FROM pg_type t WHERE t.typtype = 'd' OR true"],
    ['an outer join to the catalogue', 'SELECT 1 FROM pg_enum e RIGHT JOIN pg_type t ON true'],
    ['a catalogue that has rows of the server’s own', 'SELECT 1 FROM pg_namespace n'],
    ['no catalogue', 'SELECT 1 FROM unnest(ARRAY[1]) u'],
    ['something named before', 'WITH e AS (SELECT 1) SELECT 1 FROM pg_enum e'],
  ])('cannot be told of %s', (_, sql) => {
    expect(neededRows(sql)).toBeUndefined();
  });
});
