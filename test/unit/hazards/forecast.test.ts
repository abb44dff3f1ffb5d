import { describe, expect, test } from 'vitest';
import type { TargetTraffic } from '../../../src/database/traffic.ts';
import { type ForecastInput, forecast } from '../../../src/hazards/forecast.ts';
import { findDiskHazards } from '../../../src/hazards/traffic-hazards.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

const GB = 2 ** 30;
const { statements: sampled, data, schema } = sampleReports.rewrite ?? sampleReport();
/** Each in a transaction of its own, so that each lock is a wait of its own. */
const statements = sampled.map((each) => ({ ...each, transaction: each.index }));

const traffic = (more: Partial<TargetTraffic> = {}): TargetTraffic => ({
  sampledMs: 10_000,
  transactionsPerSecond: 1000,
  sessions: { open: 40, max: 100, reserved: 3 },
  hiddenSessions: 0,
  oldestTransaction: null,
  preparedTransactions: { count: 0, oldestMs: null },
  standbys: [],
  inactiveSlots: [],
  relations: new Map([
    ['public.events', { readsPerSecond: 20, insertsPerSecond: 5, writesPerSecond: 8 }],
    ['public.accounts', { readsPerSecond: 1, insertsPerSecond: 0, writesPerSecond: 0 }],
  ]),
  average: null,
  tableOfIndex: new Map(),
  holders: [],
  ...more,
});

const of = (more: Partial<TargetTraffic> = {}, measured: Partial<ForecastInput> = {}) =>
  forecast({
    traffic: traffic(more),
    statements,
    data,
    schema,
    catalogue: { renamed: new Map() },
    rewrittenBytes: new Map([['public.events', 24 * GB]]),
    diskSpace: null,
    unsharedBytes: null,
    targetWasEmptied: false,
    ...measured,
  });

const lockOf = (result: ReturnType<typeof of>, mode: string) =>
  result.section?.locks.find((lock) => lock.mode === mode);

const DAY = 24 * 60 * 60 * 1000;

describe('waits', () => {
  const lock = (relation: string, mode: 'ACCESS EXCLUSIVE' | 'SHARE', heldMs: number) => ({
    relation,
    mode,
    heldMs,
    acquiredBy: 'ALTER TABLE',
    blocks: mode === 'SHARE' ? ['writes'] : ['reads', 'writes'],
  });
  const [base] = statements;
  const sent = (index: number, transaction: number, ...locks: ReturnType<typeof lock>[]) =>
    ({ ...base, index, transaction, locks }) as (typeof statements)[number];

  test('one wait for a table, its indexes and stronger locks in one transaction is listed once', () => {
    const { section } = of(
      { tableOfIndex: new Map([['public.events_pkey', 'public.events']]) },
      {
        schema: null,
        statements: [
          sent(
            1,
            1,
            lock('public.events', 'SHARE', 900),
            lock('public.events_pkey', 'ACCESS EXCLUSIVE', 900),
          ),
          sent(2, 1, lock('public.events', 'ACCESS EXCLUSIVE', 900)),
          sent(3, 2, lock('public.events', 'SHARE', 5_000)),
          sent(4, 2, lock('public.accounts', 'ACCESS EXCLUSIVE', 10)),
        ],
      },
    );
    expect(section?.locks.map(({ relation, statement, mode }) => [relation, statement, mode])).toEqual([
      ['public.events', 2, 'ACCESS EXCLUSIVE'],
      ['public.accounts', 4, 'ACCESS EXCLUSIVE'],
      ['public.events', 3, 'SHARE'],
    ]);
  });
});

describe('rates if the sample is too short, or nobody could connect', () => {
  const average = (overMs: number) => ({
    overMs,
    transactionsPerSecond: 50,
    relations: new Map([
      ['public.events', { readsPerSecond: 2, insertsPerSecond: 7, writesPerSecond: 9 }],
      ['public.quiet', { readsPerSecond: 3, insertsPerSecond: 0, writesPerSecond: 0 }],
    ]),
  });

  test.each([
    ['short', { sampledMs: 1999 }, false],
    ['of an emptied target', {}, true],
  ])(
    'the larger one of sample and average is used, and a caveat says so: %s',
    (_, more, targetWasEmptied) => {
      const { section, rates, caveats } = of({ ...more, average: average(3 * DAY) }, { targetWasEmptied });
      expect(section).toMatchObject({ averagedMs: 3 * DAY, transactionsPerSecond: 1000 });
      expect(section?.locks.find(({ mode }) => mode === 'ACCESS EXCLUSIVE')).toMatchObject({
        readsPerSecond: 20,
        writesPerSecond: 9,
        ratesFrom: 'average',
        queued: Math.round(27 * 241.9),
      });
      expect(rates?.relations.get('public.quiet')?.readsPerSecond).toBe(3);
      expect(rates?.relations.get('public.accounts')?.readsPerSecond).toBe(1);
      expect(caveats[0]?.reason).toMatch(/the larger one of the sample and of the average over the 3 d 0 h/);
    },
  );

  test('an average of less than a day is not used', () => {
    const { section, caveats } = of({ sampledMs: 400, average: average(DAY - 1) });
    expect(section?.averagedMs).toBeNull();
    expect(section?.locks[0]).toMatchObject({ writesPerSecond: 8, ratesFrom: 'sample' });
    expect(caveats[0]?.reason).toMatch(/rates may be too low .*cover less than a day/);
  });

  test('without an average, a caveat says that it is not known since when is counted', () => {
    const { caveats } = of({ sampledMs: 400, average: null });
    expect(caveats[0]?.reason).toMatch(/rates may be too low .*not known since when the statistics count/);
  });

  test('a long sample is used without the average', () => {
    const { section } = of({ average: average(3 * DAY) });
    expect(section?.averagedMs).toBeNull();
    expect(section?.locks[0]).toMatchObject({ writesPerSecond: 8, ratesFrom: 'sample' });
  });
});

describe('disk space', () => {
  const found = (neededBytes: number | null, freeBytes: number | null) =>
    findDiskHazards({ disk: { neededBytes, freeBytes } }).map(({ code, severity }) => `${severity} ${code}`);

  test.each([
    [101, 'error DISK_FILLS_UP'],
    [100, 'warning DISK_FILLS_UP'],
    [81, 'warning DISK_FILLS_UP'],
  ])('disk space of which %d %% of the free is needed is an %s', (needed, hazard) => {
    expect(found(needed * GB, 100 * GB)).toEqual([hazard]);
  });

  test('disk space is no hazard if enough is free, or it is not known', () => {
    expect([...found(80 * GB, 100 * GB), ...found(null, 1), ...found(1, null)]).toEqual([]);
    expect(findDiskHazards(null)).toEqual([]);
  });
});

describe('statements that would queue', () => {
  test('queued statements are rate × held time, reads and inserts if the lock blocks reads', () => {
    expect(lockOf(of(), 'ACCESS EXCLUSIVE')).toMatchObject({
      relation: 'public.events',
      heldMs: 241_900,
      readsPerSecond: 20,
      writesPerSecond: 8,
      queued: Math.round(25 * 241.9),
      sessionsRunOut: true,
    });
  });

  test('queued statements are only writes if the lock blocks only those', () => {
    expect(lockOf(of(), 'SHARE')).toMatchObject({ queued: Math.round(8 * 9.81), sessionsRunOut: true });
  });

  test('queued statements are at most the transactions, since each waits only once', () => {
    expect(lockOf(of({ transactionsPerSecond: 2 }), 'SHARE')).toMatchObject({
      queued: 20,
      sessionsRunOut: false,
    });
  });

  test('queued statements are unknown for a relation without statistics, and a caveat says so', () => {
    const result = of({ relations: new Map() });
    expect(lockOf(result, 'SHARE')).toMatchObject({ queued: null, sessionsRunOut: null });
    expect(result.caveats.map(({ path }) => path)).toContain('forecast.locks[].queued');
  });

  test('queued statements of a locked index are those of its table', () => {
    const [first] = statements.filter(({ locks }) => (locks?.length ?? 0) > 0);
    const locks = [{ ...first?.locks?.[0], relation: 'public.events_pkey' }] as NonNullable<
      typeof first
    >['locks'];
    const result = of(
      { tableOfIndex: new Map([['public.events_pkey', 'public.events']]) },
      { statements: first ? [{ ...first, locks }] : [] },
    );
    expect(lockOf(result, 'ACCESS EXCLUSIVE')).toMatchObject({
      relation: 'public.events_pkey',
      readsPerSecond: 20,
    });
  });
});

describe('the wait for the lock itself', () => {
  const holder = (mode: string, ageMs: number) => ({
    relation: 'public.events',
    mode,
    ageMs,
    application: 'nightly report',
    state: 'idle in transaction',
  });

  test('a lock waits for the oldest transaction with a conflicting lock', () => {
    const result = of({ holders: [holder('AccessShareLock', 720_000), holder('RowExclusiveLock', 5)] });
    expect(lockOf(result, 'ACCESS EXCLUSIVE')?.waitsFor).toEqual({
      mode: 'ACCESS SHARE',
      ageMs: 720_000,
      application: 'nightly report',
      state: 'idle in transaction',
    });
    expect(lockOf(result, 'SHARE')?.waitsFor).toMatchObject({ mode: 'ROW EXCLUSIVE', ageMs: 5 });
  });

  test('a lock waits for nobody if no lock conflicts', () => {
    const result = of({ holders: [holder('AccessShareLock', 720_000)] });
    expect(lockOf(result, 'SHARE')?.waitsFor).toBeNull();
  });
});

test('a standby falls behind by its present lag and the WAL of the command', () => {
  const standbys = [{ name: 'replica', synchronous: false, lagBytes: GB, lagMs: 300 }];
  expect(of({ standbys }).section?.wal.standbys).toMatchObject([{ name: 'replica', behindBytes: 21 * GB }]);
  expect(of({ standbys: null }).caveats.map(({ path }) => path)).toContain('forecast.wal.standbys');
});

test('disk is needed for the old files with their indexes, the growth and the WAL', () => {
  expect(of().section?.disk).toEqual({ neededBytes: (24 + 1.5 + 20) * GB, freeBytes: null });
  const diskSpace = { freeBytes: 40 * GB, compressRatio: 1 };
  expect(of({}, { diskSpace }).section?.disk.freeBytes).toBe(40 * GB);
  const renamed = of({}, { rewrittenBytes: new Map() });
  expect(renamed.section?.disk.neededBytes).toBe((18 + 1.5 + 20) * GB);
  expect(of({}, { rewrittenBytes: null }).section?.disk.neededBytes).toBeNull();
});

test('what a file system compresses needs less of it, but for WAL; and what snapshots do not share is named', () => {
  const diskSpace = { freeBytes: 40 * GB, compressRatio: 3 };
  const { section } = of({}, { diskSpace, unsharedBytes: 9 * GB });
  expect(section?.disk).toEqual({
    neededBytes: (25.5 / 3 + 20) * GB,
    freeBytes: 40 * GB,
    compressRatio: 3,
    unsharedBytes: 9 * GB,
  });
  expect(
    findDiskHazards({ disk: { neededBytes: 2, freeBytes: 1, compressRatio: 3 } })[0]?.evidence,
  ).toContain('compressed 3-fold');
});

test('a short sample, an emptied target and hidden sessions are caveats', () => {
  const { caveats } = of({ sampledMs: 900, hiddenSessions: 4 }, { targetWasEmptied: true });
  const told = caveats.map(({ path, reason }) => `${path}: ${reason}`);
  expect(told).toEqual([
    expect.stringContaining('the run took 0.9 s'),
    expect.stringContaining('sessions could not connect'),
    expect.stringMatching(/oldestTransaction: .*the details of 4 sessions/),
    expect.stringMatching(/waitsFor: .*the details of 4 sessions/),
    expect.stringContaining('forecast.disk.freeBytes'),
  ]);
});

test('without traffic there is no forecast, and a caveat says why', () => {
  expect(forecast({ ...MEASURED_NOTHING, statements, data, schema })).toEqual({
    section: null,
    rates: null,
    caveats: [{ path: 'forecast', kind: 'unmeasured', reason: 'the target is gone' }],
  });
});

const MEASURED_NOTHING = {
  catalogue: { renamed: new Map() },
  traffic: { unmeasured: 'the target is gone' },
  rewrittenBytes: null,
  diskSpace: null,
  unsharedBytes: null,
  targetWasEmptied: false,
};
