import { expect, test } from 'vitest';
import { BATTERY } from '../../../../src/observe/probes/battery.ts';
import { differences } from '../../../../src/observe/probes/probe-differences.ts';
import type { ProbeResult, TriedProbe } from '../../../../src/observe/probes/try-probes.ts';

const SCHEMA = {
  before: 'a',
  after: 'b',
  changes: [],
  renames: [],
  objects: [],
  unmodeled: [],
  leftovers: [],
};
const CHANGES = { schema: { ...SCHEMA, rollbackSql: null, rollbackLoses: [] }, data: null };

/** The kinds of difference for an UPDATE that is accepted before, for so many rows, and refused after. */
function found(rows: number, sqlstate: string): string[] {
  const kind = BATTERY.find(({ name }) => name === 'value as long as a column takes');
  const probe = {
    relation: { relation: 'public.items', reads: [] },
    kind,
    subject: 'name',
    settings: [],
    sql: 'UPDATE items',
    role: null,
  } as unknown as TriedProbe['probe'];
  const then = { accepted: true, rows, value: null } as unknown as ProbeResult;
  const now = {
    accepted: false,
    sqlstate,
    message: 'no',
    constraint: null,
    table: null,
    column: null,
  } as unknown as ProbeResult;
  return differences([{ probe, result: then }], [{ probe, result: now }], CHANGES).map((each) => each.kind);
}

test('an UPDATE that found no row before was not accepted, but names in it were', () => {
  expect(found(1, '54000')).toEqual(['accepts less']);
  expect(found(0, '54000')).toEqual([]);
  expect(found(0, '42703')).toEqual(['accepts less']);
});
