import { expect, test } from 'vitest';
import { findLoadHazards } from '../../../src/hazards/load-hazards.ts';
import type { LoadSection } from '../../../src/model/report.ts';
import { relation, statement } from '../../helpers/facts.ts';
import { judgementOf } from '../../helpers/judgement-of.ts';
import { profiled, sampleProfile } from '../../helpers/profiles.ts';
import { sampleLoad } from '../../helpers/sample-load.ts';

const STATEMENTS = [{ index: 1, sql: 'ALTER TABLE a' }];
const codes = (more: Partial<LoadSection>) =>
  findLoadHazards({ ...sampleLoad(), ...more }, STATEMENTS).map(
    ({ code, severity }) => `${severity} ${code}`,
  );
const behind = (longestMs: number): LoadSection['blocked'] => [
  { relation: 'public.a', statement: 1, sql: 'ALTER TABLE a', blockedMs: longestMs, sessions: 1, longestMs },
];

test('without a run under load, or with one that nobody felt, there is nothing', () => {
  expect(findLoadHazards(null, [])).toEqual([]);
  expect(codes({})).toEqual([]);
});

test('waiting counts by the longest wait', () => {
  expect(codes({ blocked: behind(50) })).toEqual([]);
  expect(codes({ blocked: behind(500) })).toEqual(['notice TRAFFIC_BLOCKED']);
  expect(codes({ blocked: behind(1500) })).toEqual(['warning TRAFFIC_BLOCKED']);
  expect(codes({ blocked: behind(15_000) })).toEqual(['error TRAFFIC_BLOCKED']);
});

test('waits for one relation behind several statements are one hazard, at the statement with most of the waiting', () => {
  const [first] = behind(1500);
  if (!first) throw new Error('there is one');
  const hazards = findLoadHazards(
    sampleLoad({ blocked: [first, { ...first, statement: 2, longestMs: 500, blockedMs: 700, sessions: 4 }] }),
    STATEMENTS,
  );
  expect(hazards).toHaveLength(1);
  expect(hazards[0]).toMatchObject({
    statement: 1,
    message: expect.stringMatching(/^4 sessions waited for public\.a, up to 1\.5 s/),
    evidence: expect.stringMatching(/^2\.2 s of waiting/),
  });
});

test('a deadlock is an error, whoever was rolled back', () => {
  const deadlocks: LoadSection['deadlocks'] = [
    { victim: 'load', statement: 2, sql: 'x', detail: 'Process 1' },
  ];
  expect(
    codes({ deadlocks, failures: [{ sqlstate: '40P01', message: 'deadlock detected', count: 1 }] }),
  ).toEqual(['error DEADLOCK']);
});

test('a deadlock says how often it rolled back the command, and how many transactions of the load', () => {
  const victim = (who: 'command' | 'load') => ({ victim: who, statement: null, sql: null, detail: 'x' });
  const messageOf = (...victims: ('command' | 'load')[]) =>
    findLoadHazards(sampleLoad({ deadlocks: victims.map(victim) }), [])[0]?.message;
  const both = 'The command and the traffic wait for each other; rolled back: ';
  expect(messageOf('command', 'load', 'load')).toBe(
    `${both}the command once and 2 transactions of the load.`,
  );
  expect(messageOf('command', 'command')).toBe(`${both}the command 2 times.`);
});

test('a deadlock that happened is not foretold beside it', () => {
  const [orders, stock] = ['public.orders', 'public.stock'];
  const relations = new Map([orders, stock].map((name) => [name, relation(2 ** 20, 1000)]));
  const statements = [orders, stock].map((name, index) =>
    statement(index, { tag: 'ALTER TABLE', transaction: 1, locks: [[name, 'ACCESS EXCLUSIVE', 50]] }),
  );
  const busy = { readsPerSecond: 100, writesPerSecond: 50, insertsPerSecond: 10 };
  const profile = sampleProfile([orders, stock].map((name) => profiled(name, 2 ** 20, 1000, busy)));
  const found = (load: LoadSection | null) =>
    judgementOf({ statements, catalogue: { relations } }, profile, { load })
      .hazards.map(({ code }) => code)
      .filter((code) => code.startsWith('DEADLOCK'));
  expect(found(null)).toEqual(['DEADLOCK_RISK']);
  expect(found(sampleLoad())).toEqual(['DEADLOCK_RISK']);
  const deadlocks: LoadSection['deadlocks'] = [{ victim: 'load', statement: 1, sql: 'x', detail: 'x' }];
  expect(found(sampleLoad({ deadlocks }))).toEqual(['DEADLOCK']);
});

test('what failed before the command in the same measure is not held against it', () => {
  const failures = [{ sqlstate: '42703', message: 'no such column', count: 10 }];
  const { before, during } = sampleLoad();
  expect(codes({ failures, during: { ...during, failures: 10 } })).toEqual(['error TRAFFIC_FAILS']);
  expect(
    codes({ failures, during: { ...during, failures: 10 }, before: { ...before, failures: 1000 } }),
  ).toEqual([]);
});

test('a recovery that takes long, or does not come, is a warning', () => {
  expect(codes({ recoveryMs: 6000 })).toEqual(['warning SLOW_RECOVERY']);
  expect(codes({ recoveryMs: null })).toEqual(['warning SLOW_RECOVERY']);
});

test('a statement is named only if the run without load sent the same at this place', () => {
  const named = (sql: string) =>
    findLoadHazards(sampleLoad({ blocked: behind(1500) }), [{ index: 1, sql }]).map(
      ({ statement }) => statement,
    );
  expect(named('ALTER TABLE a')).toEqual([1]);
  expect(named('BEGIN')).toEqual([null]);
});

test('if the held back requests need more connections than there are, waiting is at least a warning', () => {
  const pool = { needed: 120, open: 20, limit: 97 };
  expect(codes({ blocked: behind(500), pool })).toEqual(['warning TRAFFIC_BLOCKED']);
  // It was full without the command.
  expect(codes({ blocked: behind(500), pool: { ...pool, open: 97 } })).toEqual(['notice TRAFFIC_BLOCKED']);
  expect(codes({ pool })).toEqual([]);
});

test('a run with the guardrails of an apply decides, and what only the other one has is a notice', () => {
  const { source: _, origin: __, guarded: ___, ...run } = sampleLoad({ blocked: behind(1500) });
  const guarded = { ...run, guardrails: null };
  const deadlocks: LoadSection['deadlocks'] = [{ victim: 'command', statement: 1, sql: 'x', detail: 'x' }];
  expect(codes({ blocked: behind(15_000), deadlocks, guarded })).toEqual([
    'warning TRAFFIC_BLOCKED',
    'notice DEADLOCK',
  ]);
});
