import { describe, expect, test } from 'vitest';
import { normalizeSql } from '../../../src/postgres/sql/normalize.ts';

describe('statements have the same shape', () => {
  test.each([
    ['insert into t values (1)', 'insert into t values (22.5e3)'],
    ["insert into t values ('a')", "insert into t values ('it''s; -- not a comment')"],
    ["insert into t values (E'a\\'b')", "insert into t values (E'c')"],
    ['insert into t values ($$a$$)', "insert into t values ($x$ $$ ' $x$)"],
    ['insert  into t\n values (1);', '  insert into t values (1) -- why not\n ;'],
    ['delete from t where id < 1', 'delete from t -- old ones\n /* and more */ where id < 1'],
    ["insert into t values (x'1f')", "insert into t values ('b')"],
  ])('%s', (one, other) => {
    expect(normalizeSql(one)).toBe(normalizeSql(other));
  });
});

describe('statements have different shapes', () => {
  test.each([
    ['insert into t values (1)', 'insert into u values (1)'],
    ['insert into "a" values (1)', 'insert into "b" values (1)'],
    ['insert into t1 values (1)', 'insert into t2 values (1)'],
    ['insert into t values (1)', 'insert into t values (1); drop table t'],
    ["insert into t values ('a')", "insert into t values ('a'); drop table t; select ('b')"],
    ['insert into t values ($1)', 'insert into t values ($1, $2)'],
    ['insert into t values (1)', 'insert into t values (1), (2)'],
  ])('%s', (one, other) => {
    expect(normalizeSql(one)).not.toBe(normalizeSql(other));
  });
});

// What a text of the same form has been allowed to do, the server would be let do without a look at it.
test.each([
  ['a comment within a comment', "(1 /* /* */ 'x' */)", "(1 /* /* */ ' */ , f() /* ' */)"],
  ['a dollar quote with a digit', "($a1$ 'x' $a1$)", "($a1$ ' $a1$ || f() || $a1$ ' $a1$)"],
  ['a dollar quote with a letter beyond ASCII', "($é$ 'x' $é$)", "($é$ ' $é$ || f() || $é$ ' $é$)"],
  ['a word before a string that ends in e', "(date'x', '')", "(date'\\', f(), '')"],
  ['an escape string that goes on in the next line', "(E'a'\n'x', '')", "(E'a'\n'\\'', f(), '', '')"],
  ['a number with a word behind it', ' select 1 x', ' select 1from x'],
])('a call is not hidden by %s', (_what, harmless, other) => {
  expect(normalizeSql(`insert into t values ${other}`)).not.toBe(
    normalizeSql(`insert into t values ${harmless}`),
  );
});
