import { describe, expect, test } from 'vitest';
import { normalizeSql } from '../../../src/postgres/sql/normalize.ts';

describe('statements have the same shape', () => {
  test.each([
    ['insert into t values (1)', 'insert into t values (22.5e3)'],
    ["insert into t values ('a')", "insert into t values ('it''s; -- not a comment')"],
    ["insert into t values (E'a\\'b')", "insert into t values (E'c')"],
    ['insert into t values ($$a$$)', "insert into t values ($x$ $$ ' $x$)"],
    ['insert  into t\n values (1);', '  insert into t values (1) -- why not\n ;'],
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
