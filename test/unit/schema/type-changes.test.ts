import { expect, test } from 'vitest';
import { mayLose } from '../../../src/schema/type-changes.ts';

test.each([
  ['integer', 'bigint'],
  ['integer', 'numeric'],
  ['character varying(50)', 'character varying(80)'],
  ['character varying(50)', 'text'],
  ['numeric(10,2)', 'numeric(12,2)'],
  ['numeric(10,2)', 'numeric'],
  ['uuid', 'text'],
  ['date', 'timestamp without time zone'],
])('a change from %s to %s keeps every value', (from, to) => expect(mayLose(from, to)).toBe(false));

test.each([
  ['bigint', 'integer'],
  ['integer', 'numeric(5,2)'],
  ['character varying(80)', 'character varying(50)'],
  ['text', 'character varying(80)'],
  ['numeric(10,2)', 'numeric(10,4)'],
  ['numeric(10,2)', 'numeric(10,0)'],
  ['numeric(10,2)', 'integer'],
  ['timestamp with time zone', 'date'],
  ['text', 'jsonb'],
  ['double precision', 'real'],
])('a change from %s to %s may lose', (from, to) => expect(mayLose(from, to)).toBe(true));
