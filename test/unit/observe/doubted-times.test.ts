import { describe, expect, test } from 'vitest';
import { StatementLog } from '../../../src/observe/statements.ts';
import type { Statement } from '../../../src/proxy/observed.ts';
import { doubtedTimes } from '../../../src/report/phrases.ts';

const SECOND = 1000;
const began = Date.UTC(2026, 10, 29);
const statement: Statement = {
  id: 1,
  session: 1,
  pid: 1,
  sql: 'ALTER TABLE big ALTER COLUMN total TYPE bigint',
  note: null,
  transaction: 1,
  explicit: false,
  shape: 'alter',
  startedAt: new Date(began),
};
const lock = { database: 1, relation: 7, mode: 'AccessExclusiveLock' };

/** What a report has of one statement by these measurements. */
function reported({ durationMs, preparedMs = 0, heldMs, workedMs }: Record<string, number>) {
  const log = new StatementLog();
  const outcome = { tag: 'ALTER TABLE', rows: null, error: null, durationMs: durationMs ?? 0, preparedMs };
  const end = { transaction: 1, outcome: 'committed', lost: false } as const;
  log.observe({ type: 'begin', statement });
  log.observe({ type: 'end', statement, outcome });
  log.observe({ type: 'locks', statements: [statement], exactness: 'exact', locks: [lock], walBytes: 0 });
  log.observe({ type: 'transaction-end', session: 1, at: new Date(began + (heldMs ?? 0)), ...end });
  log.observe({ type: 'session-end', session: 1, pid: 1, at: new Date(), workedMs: workedMs ?? 0 });
  const [section] = log.section(1, new Map([[7, 'public.big']]));
  return {
    exactness: section?.exactness,
    heldMs: section?.locks?.[0]?.heldMs,
    why: doubtedTimes({ caveats: log.caveats }),
  };
}

describe('the times of a statement', () => {
  test('are those that were measured if both measurements agree', () => {
    const times = { durationMs: 9.7 * SECOND, heldMs: 9.8 * SECOND, workedMs: 10 * SECOND };
    expect(reported(times)).toEqual({ exactness: 'exact', heldMs: times.heldMs, why: undefined });
    // The Parse waited before the statement began.
    const prepared = { durationMs: 10 * SECOND, preparedMs: 9 * SECOND, heldMs: SECOND, workedMs: SECOND };
    expect(reported(prepared)).toMatchObject({ exactness: 'exact', why: undefined });
  });

  test.each([
    [
      'the server worked for longer',
      { durationMs: 61, heldMs: 61, workedMs: 10 * SECOND },
      'add up to 61 ms',
    ],
    [
      'the server worked for less',
      { durationMs: 9 * SECOND, heldMs: 9 * SECOND, workedMs: SECOND },
      'for 1.0 s',
    ],
    [
      'its lock ended before it',
      { durationMs: SECOND, heldMs: 61, workedMs: SECOND },
      'statement 1 took longer',
    ],
  ])('are not known if %s', (_, times, why) => {
    expect(reported(times)).toEqual({
      exactness: 'unknown',
      heldMs: null,
      why: expect.stringContaining(why),
    });
  });
});
