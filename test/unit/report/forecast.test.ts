import { describe, expect, test } from 'vitest';
import type { DataSection, ForecastSection } from '../../../src/model/report.ts';
import { lostWords } from '../../../src/report/phrases.ts';
import { renderText } from '../../../src/report/text.ts';
import { sampleReport } from '../../helpers/reports.ts';

const GB = 2 ** 30;
const lock = (more: Partial<ForecastSection['locks'][number]> = {}): ForecastSection['locks'][number] => ({
  relation: 'public.orders',
  mode: 'ACCESS EXCLUSIVE',
  statement: 2,
  heldMs: 4200,
  blocks: ['reads', 'writes'],
  readsPerSecond: 212,
  writesPerSecond: 18.04,
  ratesFrom: 'sample',
  queued: 966,
  sessionsRunOut: true,
  waitsFor: {
    mode: 'ACCESS SHARE',
    ageMs: 720_000,
    application: 'nightly report',
    state: 'idle in transaction',
  },
  ...more,
});
const QUIET = { queued: 0, sessionsRunOut: false, waitsFor: null };
const forecast = (more: Partial<ForecastSection> = {}): ForecastSection => ({
  sampledMs: 14_200,
  averagedMs: null,
  transactionsPerSecond: 230.4,
  sessions: { open: 41, max: 100, reserved: 3 },
  oldestTransaction: null,
  preparedTransactions: { count: 0, oldestMs: null },
  locks: [lock()],
  wal: { writtenBytes: 0, standbys: [], inactiveSlots: [] },
  disk: { neededBytes: 0, freeBytes: null },
  ...more,
});

const style = { columns: 200, colour: false, unicode: true, verbose: true };
const shown = (section: ForecastSection) => {
  const lines = renderText(sampleReport({ forecast: section }), style).split('\n');
  const start = lines.findIndex((line) => line.startsWith('FORECAST'));
  return lines.slice(start, lines.indexOf('', start));
};

describe('the forecast', () => {
  test('the forecast says with its inputs who would wait, whether connections run out, and what the lock waits for', () => {
    expect(shown(forecast())).toEqual([
      "FORECAST  for the target, from 14.2 s of the target's statistics: 230 transactions/s, 41 of 97 sessions open",
      '  - ACCESS EXCLUSIVE on public.orders for 4.2 s (statement 2), blocks reads, writes',
      '      about 966 statements would wait for it (212 reads/s, 18 rows written/s)',
      '      CONNECTIONS WOULD RUN OUT: 41 open and 966 waiting, of 97',
      '      the statement would first wait for "nightly report" (idle in transaction), open for 12 min 0 s now, and everybody else would queue behind it',
    ]);
  });

  test('the forecast starts with what takes the server down, and counts locks that nobody would notice', () => {
    const mild = lock({ relation: 'public.mild', sessionsRunOut: false, waitsFor: null, queued: 3000 });
    const lines = shown(
      forecast({ locks: [mild, lock(), lock(QUIET), lock({ ...QUIET, relation: 'public.other' })] }),
    );
    expect(lines[1]).toContain('public.orders');
    expect(lines.at(-1)).toBe('  - at this traffic no session would wait for the other 2 locks');
  });

  test('the forecast names standbys, slots, disk, prepared and old transactions', () => {
    const standby = { name: 'replica', synchronous: true, lagBytes: GB, lagMs: 5, behindBytes: 21 * GB };
    const lines = shown(
      forecast({
        locks: [],
        wal: { writtenBytes: 20 * GB, standbys: [standby], inactiveSlots: ['forgotten'] },
        disk: { neededBytes: 45 * GB, freeBytes: null },
        preparedTransactions: { count: 1, oldestMs: 3_600_000 },
        oldestTransaction: { ageMs: 600_000, application: '', state: 'active' },
      }),
    );
    expect(lines.slice(1)).toEqual([
      '  - the synchronous standby replica would fall up to 21 GB behind (1 GB now)',
      '  - the replication slot forgotten is inactive: the server keeps all WAL for it',
      '  - up to 45 GB of disk space needed at the peak',
      '  - 1 prepared transaction (the oldest is 1 h 0 min old): their locks are held until they are committed or rolled back',
      '  - the oldest transaction: a transaction (active), open for 10 min 0 s now',
    ]);
  });

  test('the forecast says how often sessions waited for locks, if the server has counted such waits', () => {
    const lockWaits = {
      longerThanMs: 1000,
      overMs: 24 * 86_400_000,
      kinds: [
        { kind: 'relation', waits: 400, waitedMs: 2_100_000 },
        { kind: 'transactionid', waits: 12, waitedMs: 180_000 },
      ],
    };
    expect(shown(forecast({ locks: [], lockWaits })).at(1)).toBe(
      "  - the target's server counted 412 waits for locks of more than 1.0 s in 24 d 0 h (relation: 400, transactionid: 12), 38 min 0 s in all",
    );
    const none = { ...lockWaits, kinds: [] };
    expect(shown(forecast({ locks: [], lockWaits: none }))).toEqual(shown(forecast({ locks: [] })));
  });
});

describe('lost data', () => {
  const column = {
    object: 'public.users.email',
    kind: 'column',
    what: 'dropped',
    rowsChanged: null,
  } as const;
  const table = { object: 'public.users', kind: 'table', rowsChanged: null } as const;
  test.each<[DataSection['lost'][number], string]>([
    [
      { ...column, rows: 1_250_000, rowsWithValue: 1_203_442, exact: true },
      'drops column public.users.email: 1,203,442 of 1,250,000 rows had a value',
    ],
    [
      { ...column, what: 'narrowed', rows: 10, rowsWithValue: 9, exact: false },
      'changes the type of column public.users.email, whose values may be cut or changed: about 9 of about 10 rows had a value',
    ],
    [
      { ...column, what: 'narrowed', rows: 10, rowsWithValue: 9, rowsChanged: 1, exact: true },
      'changes the type of column public.users.email: 1 value cut or rounded of 9',
    ],
    [
      {
        ...column,
        what: 'narrowed',
        rows: 120_000,
        rowsWithValue: 120_000,
        rowsChanged: 60_000,
        rowsCompared: 6_000,
        exact: false,
      },
      'changes the type of column public.users.email: about 60,000 values cut or rounded of about 120,000 (a sample: 6,000 of about 120,000 rows)',
    ],
    [
      {
        ...column,
        what: 'narrowed',
        rows: 120_000,
        rowsWithValue: 120_000,
        rowsCompared: 6_000,
        exact: false,
      },
      'changes the type of column public.users.email: none of 6,000 values is cut or rounded, at most about 0.05 % of all are (a sample: 6,000 of about 120,000 rows)',
    ],
    [
      { ...column, rows: null, rowsWithValue: null, exact: false },
      'drops column public.users.email: the amount of data is unknown',
    ],
    [
      { ...table, what: 'dropped', rows: 1, rowsWithValue: 1, exact: true },
      'drops table public.users: it held 1 row',
    ],
    [
      { ...table, what: 'deleted', rows: 50, rowsWithValue: 20, exact: true },
      'deletes 20 of 50 rows of public.users',
    ],
    [
      { ...table, what: 'deleted', rows: null, rowsWithValue: 1, exact: false },
      'deletes about 1 row of public.users',
    ],
  ])('the loss %j has a sentence', (lost, words) => {
    expect(lostWords(lost)).toBe(words);
  });

  test('lost data has a section, the most first, and changed rows are in that of the data', () => {
    const data: DataSection = {
      ...(sampleReport().data as DataSection),
      written: [{ relation: 'public.orders', inserted: 0, updated: 66_667, deleted: 3 }],
      lost: [
        { ...table, what: 'deleted', rows: 50, rowsWithValue: 20, exact: true },
        { ...column, rows: 100, rowsWithValue: 75, exact: true },
      ],
    };
    const text = renderText(sampleReport({ data }), style);
    expect(text).toContain('  - rows of public.orders: 66,667 updated, 3 deleted\n');
    expect(text.indexOf('LOST drops column')).toBeLessThan(text.indexOf('LOST deletes 20'));
  });
});
