import { describe, expect, test } from 'vitest';
import {
  type Contents,
  compareContents,
  compareEffects,
  readContents,
} from '../../../src/observe/checks/contents.ts';
import { scratch } from '../../helpers/scratch.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

const TABLES = `
  CREATE TABLE orders (id int, note text, "At" timestamptz, doc jsonb, mark bytea);
  INSERT INTO orders SELECT n, nullif('note ' || n, 'note 3'), now(), '{}', '\\x00' FROM generate_series(1, 9) n;
  CREATE TABLE nothing ();
  INSERT INTO nothing DEFAULT VALUES`;

describe.each(OLDEST_AND_NEWEST)('on %d', (version) => {
  const differences = async (change: string) => {
    const { session, drop } = await scratch(version, TABLES);
    try {
      const before = await readContents(session);
      await session.query(change);
      return compareContents(before, await readContents(session)).dataDifferences;
    } finally {
      await drop();
    }
  };

  test.each([
    [
      'the same rows in another order',
      'CREATE TABLE x AS TABLE orders ORDER BY id DESC; TRUNCATE orders; INSERT INTO orders TABLE x',
    ],
    [
      'a table made anew with its columns in another order',
      'CREATE TABLE x AS SELECT mark, doc, "At", note, id FROM orders; DROP TABLE orders; ALTER TABLE x RENAME TO orders',
    ],
    ['a further column', 'ALTER TABLE orders ADD COLUMN more int DEFAULT 7'],
    ['a column that is gone, which is a difference of schemas', 'ALTER TABLE orders DROP COLUMN doc'],
  ])('%s are the same contents', async (_, change) => {
    expect(await differences(change)).toEqual([]);
  });

  test.each([
    ['a value', "UPDATE orders SET note = 'other' WHERE id = 5", 'other values in note'],
    ['a value that was null', "UPDATE orders SET note = '' WHERE id = 3", 'other values in note'],
    ['a time', 'UPDATE orders SET "At" = "At" + interval \'1 microsecond\'', 'other values in "At"'],
    [
      'a column that was made anew',
      'ALTER TABLE orders DROP COLUMN note; ALTER TABLE orders ADD COLUMN note text',
      'other values in note',
    ],
    ['a row', 'DELETE FROM orders WHERE id = 1', '9 → 8 rows'],
    [
      'values that changed places',
      'UPDATE orders o SET note = x.note FROM orders x WHERE x.id + o.id = 3 AND o.id < 3',
      'the same values in other rows',
    ],
  ])('%s makes a difference', async (_, change, what) => {
    expect(await differences(change)).toEqual([{ relation: 'public.orders', what, bookkeeping: false }]);
  });
});

test('what is too large is counted, not read', async () => {
  const { session, drop } = await scratch(18, `${TABLES}; CREATE TABLE empty (id int)`);
  try {
    const contents = await readContents(session, { tableBytes: 0 });
    expect([...contents.skipped]).toEqual(['public.nothing', 'public.orders']);
    expect(compareContents(contents, contents)).toMatchObject({ tablesCompared: 1, tablesSkipped: 2 });
  } finally {
    await drop();
  }
});

test('of a table that others have changed in between, only the rows that came or went are compared', () => {
  const contents = (rows: number, digest: string): Contents => ({
    tables: new Map([['public.orders', { rows, digest, columns: new Map([['id', digest]]) }]]),
    skipped: new Set(),
  });
  const one = { before: contents(2, 'a'), after: contents(3, 'b') };
  const differences = (before: Contents, after: Contents) =>
    compareEffects(one, { before, after }).dataDifferences.map(({ what }) => what);
  expect(differences(contents(2, 'a'), contents(3, 'b'))).toEqual([]);
  expect(differences(contents(2, 'a'), contents(3, 'c'))).toEqual(['other values in id']);
  expect(differences(contents(7, 'x'), contents(8, 'y'))).toEqual([]);
  expect(differences(contents(7, 'x'), contents(9, 'y'))).toEqual([
    '1 more rows after one run, 2 after the others',
  ]);
});
