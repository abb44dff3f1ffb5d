import { expect, test } from 'vitest';
import { type LabelList, labelLists, labelListsOfBody } from '../../../../src/postgres/sql/label-lists.ts';

const values = (lists: readonly LabelList[]) => lists.map((list) => [...list.values].join(' '));

test.each([
  ["SELECT state IN ('a', 'b')", ['a b']],
  ["SELECT state = ANY (ARRAY['a'::public.state, 'b'::public.state])", ['a b']],
  ["SELECT state = 'a' OR state = 'b'", ['a b']],
  ["SELECT CASE state WHEN 'a' THEN 'x' WHEN 'b' THEN 'y' END", ['a b']],
  [
    "SELECT CASE WHEN state = 'a'::state THEN 'x' WHEN state = 'b'::state THEN 'y' ELSE NULL::text END",
    ['a b'],
  ],
  ["SELECT CASE state WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 3 END", []],
  ["SELECT CASE state WHEN 'a' THEN 'x' WHEN 'b' THEN 'y' ELSE state END", []],
  ["SELECT state NOT IN ('a', 'b'), state <> ALL (ARRAY['a', 'b'])", []],
  ["SELECT 'a', state = 'b', state = 'a' AND state = 'b', state = 'a' OR total > 0", []],
  ['SELECT FROM', []],
])('the lists of %s', async (sql, expected) => {
  expect(values(await labelLists(sql))).toEqual(expected);
});

test.each([
  ["SELECT state IN ('a', 'b') AND total > 0", true],
  ["SELECT (state = 'a' OR state = 'b')", true],
  ["SELECT state IN ('a', 'b') OR total > 0", false],
  ["SELECT NOT state IN ('a', 'b')", false],
  ["SELECT CASE state WHEN 'a' THEN total > 0 WHEN 'b' THEN true END", false],
])('%s holds only for the values of the list: %s', async (sql, expected) => {
  expect((await labelLists(sql)).map(({ isAlone }) => isAlone)).toEqual([expected]);
});

test('the lists of a function are those of its queries, and its CASE statements without an ELSE', async () => {
  const body = (language: 'sql' | 'plpgsql', text: string) =>
    labelListsOfBody({
      language,
      definition: `CREATE OR REPLACE FUNCTION f(state state) RETURNS int LANGUAGE ${language} AS $f$ ${text} $f$`,
    });
  expect(values(await body('sql', "SELECT 1 WHERE state IN ('a', 'b')"))).toEqual(['a b']);
  expect(
    values(await body('plpgsql', "BEGIN RETURN CASE state WHEN 'a' THEN 1 WHEN 'b' THEN 2 END; END")),
  ).toEqual(['a b']);
  const branches = "BEGIN CASE state WHEN 'a', 'b' THEN RETURN 1; WHEN 'c' THEN RETURN 2;";
  expect((await body('plpgsql', `${branches} END CASE; END`)).filter(({ fails }) => fails)).toEqual([
    { values: new Set(['a', 'b', 'c']), fails: true, isAlone: false },
  ]);
  expect(
    (await body('plpgsql', `${branches} ELSE RETURN 3; END CASE; END`)).filter(({ fails }) => fails),
  ).toEqual([]);
  expect(await body('plpgsql', 'BEGIN nonsense END')).toEqual([]);
});
