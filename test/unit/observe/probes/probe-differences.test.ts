import { expect, test } from 'vitest';
import { BATTERY } from '../../../../src/observe/probes/battery.ts';
import { differences } from '../../../../src/observe/probes/probe-differences.ts';
import type { ProbeResult, TriedProbe } from '../../../../src/observe/probes/try-probes.ts';
import { schema } from '../../../helpers/facts.ts';

const CHANGES = { schema: schema(), data: null };

/** The kinds of difference for an UPDATE that is refused after, and before accepted for so many rows or refused as well. */
function found(before: number | string, sqlstate: string): string[] {
  const kind = BATTERY.find(({ name }) => name === 'value as long as a column takes');
  const probe = {
    relation: { relation: 'public.items', reads: [], references: [] },
    kind,
    subject: 'name',
    settings: [],
    sql: 'UPDATE items',
    role: null,
  } as unknown as TriedProbe['probe'];
  const refused = (code: string): ProbeResult => ({
    accepted: false,
    sqlstate: code,
    message: 'no',
    constraint: null,
    table: null,
    column: null,
  });
  const then: ProbeResult =
    typeof before === 'string' ? refused(before) : { accepted: true, rows: before, value: null };
  const now = refused(sqlstate);
  return differences([{ probe, result: then }], [{ probe, result: now }], CHANGES).map((each) => each.kind);
}

test('an UPDATE that found no row before was not accepted, but names in it were', () => {
  expect(found(1, '54000')).toEqual(['accepts less']);
  expect(found(0, '54000')).toEqual([]);
  expect(found(0, '42703')).toEqual(['accepts less']);
});

test('a row that only a key refused, and that lacks a value now, was one that running code may write', () => {
  expect(found('23505', '23502')).toEqual(['accepts less']);
  expect(found('23503', '23502')).toEqual(['accepts less']);
  expect(found('23502', '23502')).toEqual([]);
  expect(found('42703', '23502')).toEqual([]);
  expect(found('23505', '23503')).toEqual([]);
});
