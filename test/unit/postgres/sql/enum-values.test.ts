import { expect, test } from 'vitest';
import { enumValues } from '../../../../src/postgres/sql/enum-values.ts';

test.each([
  ["CREATE TYPE mood AS ENUM ('sad', 'glad')", ['sad', 'glad']],
  [
    "CREATE TYPE mood AS ENUM (\n  'it''s',\n  ');',\n  'a, b'\n);\nGRANT USAGE ON TYPE mood TO PUBLIC;",
    ["it's", ');', 'a, b'],
  ],
  ['CREATE TYPE mood AS ENUM ();', []],
  ["CREATE TYPE pair AS (a int, b text);\nCOMMENT ON TYPE pair IS 'x';", []],
  [null, []],
])('the values that %j gives an enum type', (definition, values) => {
  expect(enumValues(definition)).toEqual(values);
});
