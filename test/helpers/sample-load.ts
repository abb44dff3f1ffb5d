import type { LoadPhase, LoadSection } from '../../src/model/report.ts';

/** A run under load that nobody felt. */
export function sampleLoad(more: Partial<LoadSection> = {}): LoadSection {
  const phase: LoadPhase = {
    durationMs: 3000,
    transactions: 600,
    failures: 0,
    p50Ms: 2,
    p95Ms: 5,
    p99Ms: 8,
    maxMs: 12,
  };
  return {
    source: 'shapes',
    rate: { wanted: 200, played: 198.5 },
    origin: '3 kinds of transactions seen on the target, 200 a second (10.0 s, 200 readings of its locks)',
    startedAt: '2026-11-21T10:00:00.000Z',
    clients: 6,
    command: { exitCode: 0, startedMs: 3000, endedMs: 4000, schemaEqual: true },
    before: phase,
    during: { ...phase, durationMs: 1000, transactions: 200 },
    after: { ...phase, durationMs: 2000, transactions: 400 },
    recoveryMs: 0,
    seconds: Array.from({ length: 6 }, (_, second) => ({
      atMs: second * 1000,
      durationMs: 1000,
      transactions: 200,
      failures: 0,
      p50Ms: 2,
      p95Ms: 5,
      maxMs: 12,
      waiting: 0,
    })),
    blockedMs: 0,
    longestWaitMs: 0,
    mostWaiting: 0,
    someWaitedMs: 0,
    blocked: [],
    failures: [],
    deadlocks: [],
    connections: { most: 10, limit: 100 },
    pool: { needed: 12, open: 12, limit: 97 },
    statements: [],
    transactions: [],
    guarded: null,
    ...more,
  };
}
