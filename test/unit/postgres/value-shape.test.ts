import { describe, expect, test } from 'vitest';
import { parseText } from '../../../src/postgres/sql/parse.ts';
import { shapeWithoutValues } from '../../../src/postgres/sql/value-shape.ts';

async function shapeOf(sql: string): Promise<string> {
  const [statement] = (await parseText(Buffer.from(sql))) ?? [];
  return shapeWithoutValues(statement?.node ?? {});
}

describe('shapeWithoutValues()', () => {
  test.each([
    [
      "ALTER TABLE t ADD c timestamptz DEFAULT '2026-11-22'",
      "ALTER TABLE t ADD c timestamptz DEFAULT  '2027-01-01'",
    ],
    ["ALTER TABLE t ALTER c SET DEFAULT 'a'::uuid", "ALTER TABLE t ALTER c SET DEFAULT 'b'::uuid"],
    ['ALTER TABLE t ALTER c SET DEFAULT 1763800000', 'ALTER TABLE t ALTER c SET DEFAULT 1763800000123'],
    ["CREATE TABLE t (a int, b text DEFAULT 'x')", "CREATE TABLE t (a int, b text DEFAULT 'y')"],
    ["COMMENT ON TABLE t IS 'at 10:00'", "COMMENT ON TABLE t IS 'at 11:00'"],
    ["CALL p('a', 1)", "CALL p('b', 2)"],
    ["CALL p(x => 'a')", "CALL p(x => 'b')"],
    ["EXECUTE q('a'::date)", "EXECUTE q('b'::date)"],
  ])('has one shape for %s', async (one, other) => {
    expect(await shapeOf(one)).toBe(await shapeOf(other));
  });

  test.each([
    ['names', 'CREATE TABLE x_1 ()', 'CREATE TABLE x_2 ()'],
    ['tables', "ALTER TABLE t ADD c text DEFAULT 'a'", "ALTER TABLE u ADD c text DEFAULT 'a'"],
    ['types of columns', "ALTER TABLE t ADD c text DEFAULT 'a'", "ALTER TABLE t ADD c varchar DEFAULT 'a'"],
    ['types of values', 'ALTER TABLE t ALTER c SET DEFAULT 1', "ALTER TABLE t ALTER c SET DEFAULT '1'"],
    ['casts', "ALTER TABLE t ALTER c SET DEFAULT 'a'::uuid", "ALTER TABLE t ALTER c SET DEFAULT 'a'::text"],
    [
      'sequences',
      "ALTER TABLE t ALTER c SET DEFAULT nextval('a')",
      "ALTER TABLE t ALTER c SET DEFAULT nextval('b')",
    ],
    ['names of relations', "CALL p('a'::regclass)", "CALL p('b'::regclass)"],
    ['booleans', 'CALL p(true)', 'CALL p(false)'],
    ['procedures', "CALL p('a')", "CALL q('a')"],
    ['arguments', "CALL p(x => 'a')", "CALL p(y => 'a')"],
    ['numbers of arguments', "CALL p('a')", "CALL p('a', 'b')"],
    ['a dropped comment', "COMMENT ON TABLE t IS 'a'", 'COMMENT ON TABLE t IS NULL'],
    ['a dropped default', "ALTER TABLE t ALTER c SET DEFAULT 'a'", 'ALTER TABLE t ALTER c DROP DEFAULT'],
    ['enum values', "ALTER TYPE e ADD VALUE 'a'", "ALTER TYPE e ADD VALUE 'b'"],
    ['checks', "ALTER TABLE t ADD CHECK (c > 'a')", "ALTER TABLE t ADD CHECK (c > 'b')"],
    [
      'bounds',
      "CREATE TABLE p PARTITION OF t FOR VALUES IN ('a')",
      "CREATE TABLE p PARTITION OF t FOR VALUES IN ('b')",
    ],
    ['bodies', 'DO $$begin perform 1; end$$', 'DO $$begin perform 2; end$$'],
  ])('tells apart %s', async (_what, one, other) => {
    expect(await shapeOf(one)).not.toBe(await shapeOf(other));
  });
});
