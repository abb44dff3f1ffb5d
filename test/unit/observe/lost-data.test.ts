import { expect, test } from 'vitest';
import type { DataSection } from '../../../src/model/report.ts';
import { lostData } from '../../../src/observe/lost-data.ts';

const data = (more: Partial<DataSection>): DataSection => ({
  tables: [],
  unchangedTables: 0,
  written: [],
  lost: [],
  walBytes: null,
  sizeDeltaBytes: null,
  ...more,
});
const replaced = { relation: 'public.orders', inserted: 5, updated: 0, deleted: 5 };
const lost = (section: DataSection) => lostData({ schema: null, data: section, columns: new Map() });

test('rows that were deleted while as many others came are told by what the server counted', () => {
  expect(lost(data({ written: [replaced] }))).toEqual([
    {
      object: 'public.orders',
      kind: 'table',
      what: 'deleted',
      rows: null,
      rowsWithValue: 5,
      rowsChanged: null,
      exact: true,
    },
  ]);
});

test('what may have been rolled back is not taken for deleted', () => {
  expect(lost(data({ written: [{ ...replaced, atMost: true as const }] }))).toEqual([]);
});

test('fewer rows than before are told whatever the server counted', () => {
  const table = {
    relation: 'public.orders',
    rowsBefore: 10,
    rowsAfter: 4,
    exact: true,
    bytesBefore: 1,
    bytesAfter: 1,
    rewritten: false,
  };
  expect(lost(data({ tables: [table], written: [{ ...replaced, atMost: true as const }] }))).toMatchObject([
    { rows: 10, rowsWithValue: 6, exact: true },
  ]);
});

test('a rewrite that drops dead rows is no loss, since an estimate counted them', () => {
  const table = {
    relation: 'public.orders',
    rowsBefore: 330_068,
    rowsAfter: 300_000,
    exact: false,
    bytesBefore: 9,
    bytesAfter: 8,
    rewritten: true,
  };
  expect(lost(data({ tables: [table] }))).toEqual([]);
  expect(lost(data({ tables: [{ ...table, rowsAfter: null }] }))).toEqual([]);
});

test('an emptied table that is too large to count lost as many rows as were estimated', () => {
  const table = {
    relation: 'public.orders',
    rowsBefore: 330_068,
    rowsAfter: 0,
    exact: false,
    bytesBefore: 9,
    bytesAfter: 0,
    rewritten: true,
  };
  expect(lost(data({ tables: [table] }))).toMatchObject([
    { rows: 330_068, rowsWithValue: 330_068, exact: false },
  ]);
});
