import { expect, test } from 'vitest';
import { formatMark } from '../../../src/ownership/mark.ts';
import { markerConnectionLimit, newRunId } from '../../../src/ownership/run-id.ts';
import { compareShared } from '../../../src/proof/shared-changes.ts';
import type { SharedCatalogues } from '../../../src/proof/shared-objects.ts';

const run = newRunId();
const plain = { oid: '41158', 'connection limit': '-1', comment: null };
const mark = formatMark({
  version: 1,
  run,
  role: 'original',
  targetOid: 41_158,
  state: 'fenced',
  lockDatabaseOid: 5,
  at: { database: 'other', oid: 41_158 },
});

const OTHER = { kind: 'database', database: 'other', file: null } as const;

function shared(database: Record<string, string | null>): SharedCatalogues {
  return {
    objects: new Map([['database other', database]]),
    natures: new Map([['database other', OTHER]]),
    rows: new Map(),
    nextXid: 1,
    unread: [],
  };
}

test('a database that was dropped and created again is one change, of databases', () => {
  expect(compareShared(shared(plain), shared({ ...plain, oid: '41163', 'connection limit': '5' }))).toEqual([
    {
      what: 'database other dropped and created again',
      object: OTHER,
      verb: 'replaced',
      uncounted: null,
      markedBy: null,
      xmin: null,
    },
  ]);
});

test.each([
  ['is closed by another run', plain, { ...plain, comment: mark }, `run ${run}`],
  ['is opened by it again', { ...plain, comment: mark }, plain, `run ${run}`],
  [
    'is made by the command of another run',
    { ...plain, 'connection limit': String(markerConnectionLimit(run)) },
    plain,
    'another run',
  ],
  ['is limited by anybody else', plain, { ...plain, 'connection limit': '100' }, null],
])('a database that %s is marked by: %s', (_, before, after, markedBy) => {
  expect(compareShared(shared(before), shared(after))).toMatchObject([{ verb: 'altered', markedBy }]);
});
