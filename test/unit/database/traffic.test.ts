import { describe, expect, test } from 'vitest';
import { type RelationCounters, type TrafficReading, trafficBetween } from '../../../src/database/traffic.ts';

const counters = (more: Partial<RelationCounters> = {}): RelationCounters => ({
  scans: 0,
  inserted: 0,
  updated: 0,
  deleted: 0,
  partitionOf: null,
  countedSinceMs: null,
  ...more,
});

const reading = (more: Partial<TrafficReading> = {}): TrafficReading => ({
  atMs: 1000,
  countedSinceMs: null,
  transactions: 100,
  ownTransactions: 0,
  sessions: { open: 10, max: 100, reserved: 3 },
  hiddenSessions: 0,
  oldestTransaction: null,
  preparedTransactions: { count: 0, oldestMs: null },
  standbys: [],
  inactiveSlots: [],
  relations: new Map([['public.orders', counters()]]),
  tableOfIndex: new Map(),
  indexScans: new Map(),
  holders: [],
  ...more,
});

describe('the traffic between two readings', () => {
  test('is what was counted, by the time in between', () => {
    const orders = counters({ scans: 40, inserted: 20, updated: 8, deleted: 4 });
    const traffic = trafficBetween(
      reading(),
      reading({ atMs: 5000, transactions: 300, relations: new Map([['public.orders', orders]]) }),
    );
    expect(traffic.sampledMs).toBe(4000);
    expect(traffic.transactionsPerSecond).toBe(50);
    expect(traffic.relations.get('public.orders')).toEqual({
      readsPerSecond: 10,
      insertsPerSecond: 5,
      writesPerSecond: 8,
    });
  });

  test('leaves out what we did ourselves, of which the server may have counted less', () => {
    const second = reading({ atMs: 5000, transactions: 300 });
    expect(trafficBetween(reading({ ownTransactions: 20 }), second).transactionsPerSecond).toBe(45);
    expect(trafficBetween(reading({ ownTransactions: 201 }), second).transactionsPerSecond).toBe(0);
  });

  describe('beside the average since the server began to count', () => {
    const orders = counters({ scans: 400, inserted: 200, updated: 50, deleted: 50 });
    const relations = new Map([['public.orders', orders]]);
    const [first, second] = [
      reading({ atMs: 100_500, countedSinceMs: 1000, relations }),
      reading({ atMs: 101_000, countedSinceMs: 1000, transactions: 500, relations }),
    ];

    test('which is all that was counted, by all the time', () => {
      expect(trafficBetween(first, second).average).toEqual({
        overMs: 100_000,
        transactionsPerSecond: 5,
        relations: new Map([
          ['public.orders', { readsPerSecond: 4, insertsPerSecond: 2, writesPerSecond: 3 }],
        ]),
      });
    });

    test('which for a table whose counters were reset by themselves is by the time since then', () => {
      const again = counters({ inserted: 200, countedSinceMs: 91_000 });
      const both = new Map([...relations, ['public.again', again] as const]);
      const { average } = trafficBetween(first, { ...second, relations: both });
      expect(average?.relations.get('public.again')?.insertsPerSecond).toBe(20);
      expect(average?.relations.get('public.orders')?.insertsPerSecond).toBe(2);
      expect(average?.transactionsPerSecond).toBe(5);
    });

    test.each([
      ['is not known since when', { countedSinceMs: null }],
      ['is counted anew since the first reading', { countedSinceMs: 100_600 }],
    ])('and none where it %s', (_, more) => {
      expect(trafficBetween(first, { ...second, ...more }).average).toBeNull();
    });
  });

  test('is unknown where the statistics were reset in between', () => {
    const before = reading({ relations: new Map([['public.orders', counters({ scans: 9 })]]) });
    const traffic = trafficBetween(before, reading({ atMs: 5000, transactions: 1 }));
    expect(traffic.transactionsPerSecond).toBeNull();
    expect(traffic.relations.has('public.orders')).toBe(false);
  });

  test('of a partitioned table is that of its partitions, at every level', () => {
    const relations = (scans: number) =>
      new Map([
        ['public.events', counters()],
        ['public.events_2026', counters({ partitionOf: 'public.events' })],
        ['public.events_2026_01', counters({ scans, partitionOf: 'public.events_2026' })],
        ['public.events_2025', counters({ scans, partitionOf: 'public.events' })],
      ]);
    const traffic = trafficBetween(
      reading({ relations: relations(0) }),
      reading({ atMs: 2000, relations: relations(7) }),
    );
    const scans = [...traffic.relations].map(([name, rates]) => [name, rates.readsPerSecond]);
    expect(Object.fromEntries(scans)).toEqual({
      'public.events': 14,
      'public.events_2026': 7,
      'public.events_2026_01': 7,
      'public.events_2025': 7,
    });
  });

  test('takes the graver of two situations', () => {
    const old = { ageMs: 720_000, application: 'report', state: 'idle in transaction' };
    const holder = { ...old, relation: 'public.orders', mode: 'AccessShareLock' };
    const traffic = trafficBetween(
      reading({
        oldestTransaction: old,
        holders: [holder],
        sessions: { open: 90, max: 100, reserved: 3 },
      }),
      reading({ oldestTransaction: { ageMs: 5, application: 'app', state: 'active' } }),
    );
    expect(traffic).toMatchObject({ oldestTransaction: old, holders: [holder], sessions: { open: 90 } });
  });
});
