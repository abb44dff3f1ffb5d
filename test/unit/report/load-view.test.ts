import { expect, test } from 'vitest';
import type { LoadSection } from '../../../src/model/report.ts';
import { loadDetails, loadHeadline } from '../../../src/report/sections/load-view.ts';
import { sampleLoad } from '../../helpers/sample-load.ts';

const blocked: LoadSection['blocked'] = [
  { relation: 'public.a', statement: 3, sql: 'x', blockedMs: 58_000, sessions: 31, longestMs: 3900 },
];
const felt = {
  blocked,
  blockedMs: 58_000,
  longestWaitMs: 3900,
  mostWaiting: 31,
  someWaitedMs: 4200,
  clients: 64,
};

const wordsOf = (load: LoadSection) => [loadHeadline(load), ...loadDetails(load)];

test('what nobody felt is three sentences', () => {
  expect(wordsOf(sampleLoad())).toEqual([
    'no session waited behind the command',
    '199 of 200 transactions a second were played',
    'afterwards it recovered at once; at most 10 of 100 connections were in use',
  ]);
});

test('waiting, failures, the end of the command, recovery and a full pool are at most six sentences', () => {
  const { during } = sampleLoad();
  const deadlock = { victim: 'command' as const, statement: 3, sql: 'x', detail: '' };
  const lines = wordsOf(
    sampleLoad({
      ...felt,
      during: { ...during, failures: 3 },
      command: { exitCode: 1, startedMs: 0, endedMs: 1, schemaEqual: null },
      deadlocks: [deadlock],
      recoveryMs: 2500,
      pool: { needed: 130, open: 20, limit: 97 },
    }),
  );
  expect(lines).toEqual([
    'for 4.2 s up to 31 sessions waited behind statement 3, the longest for 3.9 s, 58.0 s in all; the command was cancelled by a deadlock',
    '199 of 200 transactions a second were played',
    '3 transactions of the load failed',
    'afterwards it recovered in 2.5 s; at most 10 of 100 connections were in use',
    'a full pool: if a connection is opened for each request that is held back, the target needs 130, and has 97 (20 are open)',
  ]);
});

test('with an apply to follow it says what the guardrails change', () => {
  const {
    source: _,
    origin: __,
    rate: ____,
    guarded: ___,
    ...run
  } = sampleLoad({ ...felt, mostWaiting: 2, someWaitedMs: 900 });
  const cancelled = [
    { sql: 'x', outcome: 'cancelled' as const, reason: 'max-blocked' as const, waiting: 2, waitedMs: 800 },
  ];
  const retries = [
    { sql: 'x', failed: 2, causes: ['lock-timeout' as const], pausedMs: 100, outcome: 'went on' as const },
  ];
  const guardrails = {
    retries,
    cancelled,
    diverged: [],
    ownTimeouts: [],
    blockers: [],
    pausedMs: 0,
    laggedMs: 0,
  };
  expect(wordsOf(sampleLoad({ ...felt, guarded: { ...run, guardrails } })).at(-1)).toBe(
    'with the guardrails of an apply: the command succeeded; for 900 ms up to 2 sessions waited behind statement 3, ' +
      'the longest for 3.9 s, 58.0 s in all; 2 retries of a statement; 1 statement cancelled for blocking others',
  );
});
