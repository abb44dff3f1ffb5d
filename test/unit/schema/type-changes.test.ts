import { describe, expect, test } from 'vitest';
import { mayLose, takesAll, thereAndBack } from '../../../src/schema/type-changes.ts';

test.each([
  ['integer', 'bigint'],
  ['integer', 'numeric'],
  ['integer', 'double precision'],
  ['smallint', 'real'],
  ['character varying(50)', 'character varying(80)'],
  ['character varying(50)', 'text'],
  ['numeric(10,2)', 'numeric(12,2)'],
  ['numeric(10,2)', 'numeric'],
  ['uuid', 'text'],
  ['date', 'timestamp without time zone'],
])('%s fits into %s, whatever the conversion', (from, to) => {
  expect(takesAll(from, to)).toBe(true);
  expect(mayLose(from, to, 'expression')).toBe(false);
});

test.each([
  ['bigint', 'integer'],
  ['integer', 'numeric(5,2)'],
  ['numeric(10,2)', 'numeric(8,2)'],
  ['numeric(10,2)', 'numeric(10,4)'],
  ['numeric(10,0)', 'integer'],
  ['character varying(20)', 'character(20)'],
  ['character(20)', 'text'],
])('what of %s does not fit into %s is refused, also by a cast', (from, to) => {
  expect(takesAll(from, to)).toBe(false);
  expect(mayLose(from, to, 'assignment')).toBe(false);
  expect(mayLose(from, to, 'cast')).toBe(false);
  expect(mayLose(from, to, 'expression')).toBe(true);
});

test.each([
  ['character varying(80)', 'character varying(50)'],
  ['text', 'character varying(80)'],
  ['text', 'character(80)'],
  ['character(20)', 'character varying(10)'],
])('what of %s is too long for %s is refused, and cut by a cast', (from, to) => {
  expect(mayLose(from, to, 'assignment')).toBe(false);
  expect(mayLose(from, to, 'cast')).toBe(true);
});

test.each([
  ['numeric(10,2)', 'numeric(10,0)'],
  ['numeric(10,2)', 'integer'],
  ['numeric', 'numeric(10,2)'],
  ['integer', 'numeric(5,-2)'],
  ['integer', 'real'],
  ['bigint', 'double precision'],
  ['double precision', 'real'],
  ['double precision', 'numeric'],
  ['real', 'integer'],
  ['timestamp with time zone', 'date'],
  ['timestamp with time zone', 'timestamp without time zone'],
  ['timestamp(6) without time zone', 'timestamp(3) without time zone'],
  ['text', 'jsonb'],
  ['public.mood', 'public.feeling'],
])('values of %s may be changed by %s', (from, to) => expect(mayLose(from, to, 'assignment')).toBe(true));

describe('whether values survive is asked by casts', () => {
  test('between types of the same family', () => {
    const back = (from: string, to: string) => thereAndBack(from, to)?.('v');
    expect(back('numeric(10,2)', 'integer')).toBe('v::integer::numeric(10,2)');
    expect(back('text', 'character varying(3)')).toBe('v::character varying(3)::text');
    expect(back('character varying(5)', 'bigint')).toBe('v::bigint::character varying(5)');
    expect(back('timestamp with time zone', 'date')).toBe('v::date::timestamp with time zone');
    expect(back('timestamp without time zone', 'time without time zone')).toMatch(/^CASE WHEN v::date IN/);
  });

  test.each([
    ['timestamp with time zone', 'timestamp without time zone'],
    ['text', 'jsonb'],
    ['text', 'numeric'],
    ['text', 'public."x); DROP TABLE users; --"'],
  ])('but not from %s to %s', (from, to) => expect(thereAndBack(from, to)).toBeNull());
});
