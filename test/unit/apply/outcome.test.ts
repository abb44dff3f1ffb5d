import { describe, expect, test } from 'vitest';
import { type ApplyFacts, decideOutcome } from '../../../src/apply/outcome.ts';

const SUCCEEDED: ApplyFacts = {
  command: { exitCode: 0, signal: null, timedOut: false, durationMs: 10 },
  reached: true,
  schemaChanged: true,
  schemaEqual: true,
  differences: [],
  failedOnlyHere: [],
  committed: [{ statement: 1, sql: 'CREATE TABLE t ()', outcome: 'committed', explicit: false }],
  leftovers: [],
  stillRunning: 0,
  mustChange: false,
  aborted: null,
  moved: null,
  unreadable: null,
};
const FAILED: ApplyFacts = {
  ...SUCCEEDED,
  command: { ...SUCCEEDED.command, exitCode: 3 },
  schemaChanged: false,
  schemaEqual: false,
  committed: [],
};
const UNKNOWN = { statement: 1, sql: 'INSERT INTO t', outcome: 'unknown' as const, explicit: true };

describe('the outcome of an apply', () => {
  test('the outcome is applied if the schema is the one that was rehearsed', () => {
    expect(decideOutcome(SUCCEEDED)).toEqual({ outcome: 'applied', reasons: [] });
  });

  test('the outcome is failed if nothing of the command stays', () => {
    expect(decideOutcome(FAILED)).toEqual({
      outcome: 'failed',
      reasons: ['the command failed with exit code 3'],
    });
  });

  test.each([
    ['rows were committed', { committed: SUCCEEDED.committed }],
    ['an invalid index is left', { schemaChanged: true }],
    ['it is not known whether it was committed', { committed: [UNKNOWN] }],
    ['the schema cannot be read', { schemaChanged: null, schemaEqual: null }],
    ['the server cannot be reached', { unreadable: 'it is gone' }],
    ['another server answers', { moved: 'another server answers now' }],
    ['a session of it still works', { stillRunning: 1 }],
  ] satisfies [string, Partial<ApplyFacts>][])(
    'the outcome of a failed command is partly if %s',
    (_, more) => {
      expect(decideOutcome({ ...FAILED, ...more }).outcome).toBe('partly');
    },
  );

  test.each([
    ['the schema is another one', { schemaEqual: false, differences: ['missing: create table t'] }],
    ['an index is left invalid', { leftovers: [{ kind: 'invalid index', object: 'public.i' }] }],
    ['another server took over', { moved: 'another server took over in the meantime' }],
    ['a COMMIT was not answered', { committed: [UNKNOWN] }],
    ['a statement failed that had not failed in the rehearsal', { failedOnlyHere: ['UPDATE t SET a = 1'] }],
    ['the run was aborted', { aborted: 'somebody asked for it' }],
  ] satisfies [string, Partial<ApplyFacts>][])(
    'the outcome of a successful command is partly if %s',
    (_, more) => {
      const { outcome, reasons } = decideOutcome({ ...SUCCEEDED, ...more });
      expect(outcome).toBe('partly');
      expect(reasons).toHaveLength(1);
    },
  );

  test('the outcome is failed if the command never connected to the target', () => {
    const idle = { reached: false, committed: [], schemaChanged: false, schemaEqual: false };
    expect(decideOutcome({ ...SUCCEEDED, ...idle })).toMatchObject({
      outcome: 'failed',
      reasons: [expect.stringContaining('never connected'), expect.any(String)],
    });
  });

  test('the outcome is failed if the command should have changed something, and has not', () => {
    const idle = { committed: [], schemaChanged: false };
    expect(decideOutcome({ ...SUCCEEDED, ...idle })).toMatchObject({ outcome: 'applied' });
    expect(decideOutcome({ ...SUCCEEDED, ...idle, mustChange: true })).toEqual({
      outcome: 'failed',
      reasons: [expect.stringContaining('--expect changes')],
    });
    expect(decideOutcome({ ...SUCCEEDED, mustChange: true })).toMatchObject({ outcome: 'applied' });
  });
});
