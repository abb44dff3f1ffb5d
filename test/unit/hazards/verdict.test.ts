import { describe, expect, test } from 'vitest';
import { DEFAULT_POLICY, type Policy } from '../../../src/hazards/policy-settings.ts';
import { type Findings, judge as judgeBy } from '../../../src/hazards/verdict.ts';
import type { CommandSection, LoadSection, TargetSection } from '../../../src/model/report.ts';
import { sampleReport } from '../../helpers/reports.ts';
import { sampleLoad } from '../../helpers/sample-load.ts';

const { command, schema, targetConnections } = sampleReport();
const measured = { statements: [], data: null, forecast: null, caveats: [], hazards: [] };
const asked = { checks: [], rerun: null, down: null, atOnce: null };
const fine = {
  command,
  target: { changes: [], unchanged: true },
  schema,
  targetConnections,
  load: null,
  loadRequested: false,
  changedNothing: false,
  interrupted: false,
  ...measured,
  ...asked,
};
const judge = (findings: Findings) => judgeBy(findings, DEFAULT_POLICY, '2026-11-21');
const change = (madeBy: 'command' | 'others' | 'unknown'): TargetSection['changes'][number] => ({
  what: 'create table a',
  madeBy,
  evidence: 'seen',
});
const reasons = (findings: Partial<Findings>) => judge({ ...fine, ...findings }).reasons;

test('a command that succeeded on the clone passes', () => {
  expect(judge(fine)).toEqual({ pass: true, reasons: [], objections: [] });
});

test('a schema that could not be compared fails the rehearsal, unless it was interrupted', () => {
  expect(reasons({ schema: null })).toEqual([expect.stringContaining('could not be compared')]);
  expect(reasons({ schema: null, interrupted: true })).toEqual([expect.stringContaining('interrupted')]);
});

test.each<[string, Partial<CommandSection>, RegExp]>([
  ['failed', { exitCode: 3 }, /exit code 3/],
  ['was killed', { exitCode: null, signal: 'SIGKILL' }, /SIGKILL/],
  ['ran out of time', { exitCode: null, signal: 'SIGTERM', timedOut: true }, /--timeout/],
  ['never came to the clone', { reachedClone: false }, /never connected/],
  ['demands TLS of the proxy', { reachedClone: false, leftForTls: true }, /it demands TLS/],
])('a command that %s does not pass, with one reason', (_, more, reason) => {
  expect(reasons({ command: { ...command, ...more } })).toEqual([expect.stringMatching(reason)]);
});

test('a command that failed before it connected is not said to take its connection from elsewhere', () => {
  expect(reasons({ command: { ...command, reachedClone: false, exitCode: 1 } })).toEqual([
    'the command failed with exit code 1',
    expect.stringMatching(/^the command failed and never connected .* its own output says/),
  ]);
});

test('a change of the target by the command comes before all other reasons', () => {
  const told = reasons({
    target: { changes: [change('command')], unchanged: false },
    command: { ...command, exitCode: 1 },
  });
  expect(told).toHaveLength(2);
  expect(told[0]).toContain('create table a');
});

test('a change of the target by an unknown author is a reason too, and nobody is blamed for it', () => {
  expect(reasons({ target: { changes: [change('unknown')], unchanged: false } })).toEqual([
    'the target changed while the command ran, and who changed it is unknown: create table a',
  ]);
});

test('changes of the target by other sessions do not fail the rehearsal', () => {
  expect(judge({ ...fine, target: { changes: [change('others')], unchanged: true } }).pass).toBe(true);
});

test('a refused statement fails the rehearsal, with its reason', () => {
  const refused = [{ what: 'ALTER ROLE', why: 'roles belong to the whole cluster' }];
  expect(reasons({ command: { ...command, refused, exitCode: 1 } })[0]).toBe(
    'ALTER ROLE was not run: roles belong to the whole cluster',
  );
});

test('a session of the command on the target fails the rehearsal, and its consequences are no further reasons', () => {
  const targetConnections = {
    process: { pid: 1, command: 'node migrate.js' },
    user: 'app',
    application: '',
    connectedAt: '2026-01-01T00:00:00Z',
    query: null,
    ended: true,
  };
  const cut = { ...command, exitCode: null, signal: 'SIGTERM', reachedClone: false } as const;
  expect(reasons({ targetConnections: [targetConnections], command: cut })).toEqual([
    expect.stringContaining('node migrate.js'),
  ]);
});

test('an interrupted rehearsal fails for that reason alone', () => {
  const cut = { ...command, exitCode: null, signal: 'SIGINT', reachedClone: false } as const;
  expect(reasons({ interrupted: true, command: cut })).toEqual([expect.stringContaining('interrupted')]);
});

test('a target that is not proved unchanged fails the rehearsal only if the policy asks for the proof', () => {
  const unproved = { ...fine, target: { changes: [], unchanged: null } };
  const proof = { ...DEFAULT_POLICY, requireProof: true };
  expect(judge(unproved).pass).toBe(true);
  expect(judgeBy(unproved, proof, '2026-11-21').reasons).toEqual([
    expect.stringContaining('--require-proof'),
  ]);
  expect(judgeBy(fine, proof, '2026-11-21').pass).toBe(true);
});

describe('a run under load', () => {
  const requested = { loadRequested: true };
  const load = sampleLoad({ blockedMs: 7000 });

  test('that was requested and could not be made is a reason, with the cause', () => {
    const caveats = [{ path: 'load', kind: 'unmeasured' as const, reason: 'no session was seen at work' }];
    expect(reasons({ ...requested, caveats })).toEqual([
      'the command was not run under load: no session was seen at work',
    ]);
  });

  test('in which the command fails, or leaves another schema, is a reason', () => {
    const ended = (more: Partial<LoadSection['command']>) =>
      reasons({ ...requested, load: { ...load, command: { ...load.command, ...more } } });
    expect(ended({})).toEqual([]);
    expect(ended({ exitCode: 1 })).toEqual(['the command failed under load']);
    expect(ended({ schemaEqual: false })).toEqual([expect.stringMatching(/another schema/)]);
  });

  test('with the guardrails of an apply decides, if there was one', () => {
    const { source: _, origin: __, guarded: ___, ...run } = load;
    const failed = { ...load.command, exitCode: 1 };
    const ended = (plain: LoadSection['command'], guarded: LoadSection['command']) =>
      reasons({
        ...requested,
        load: { ...load, command: plain, guarded: { ...run, command: guarded, guardrails: null } },
      });
    expect(ended(failed, load.command)).toEqual([]);
    expect(ended(load.command, failed)).toEqual([
      'the command failed under load, with the guardrails of an apply',
    ]);
  });

  test('has limits, which count as exceeded without one', () => {
    const limited = (policy: Partial<Policy>, found: Partial<Findings>) =>
      judgeBy({ ...fine, ...found }, { ...DEFAULT_POLICY, ...policy }, '2026-11-21').reasons;
    const run = { ...requested, load };
    expect(limited({ maxBlockedSecondsMs: 7000, maxLatencyMs: 5, maxFailures: 0 }, run)).toEqual([]);
    expect(limited({ maxBlockedSecondsMs: 6000, maxLatencyMs: 4 }, run)).toEqual([
      expect.stringMatching(/waited behind the command for 7\.0 s.*6\.0 s \(--limit blocked-seconds\)/),
      expect.stringMatching(/5\.0 ms.*4\.0 ms \(--limit latency\)/),
    ]);
    expect(limited({ maxFailures: 0 }, {})).toEqual([
      expect.stringMatching(/--limit failures counts as exceeded/),
    ]);
  });
});

test('a command that should change nothing may change what its tool keeps for itself, and nothing else', () => {
  const expecting = (found: Partial<Findings>) =>
    judgeBy({ ...fine, ...found }, { ...DEFAULT_POLICY, expect: 'no-change' }, '2026-11-21').reasons;
  const written = (relation: string) => ({
    walBytes: 0,
    written: [{ relation, inserted: 1, updated: 0, deleted: 0 }],
  });
  const unchanged = schema && { ...schema, changes: [] };
  expect(expecting({ schema: unchanged, data: written('public.knex_migrations_lock') })).toEqual([]);
  expect(expecting({ schema: unchanged, data: written('public.orders') })).toEqual([
    'the command would change the database, and --expect no-change allows no change: rows of public.orders',
  ]);
  expect(expecting({})).toEqual(
    schema?.changes.length ? [expect.stringMatching(/^the command would change the database/)] : [],
  );
});

test('a command that should change something fails if it succeeds without any change', () => {
  const expecting = (found: Partial<Findings>, policy: Partial<Policy> = { expect: 'changes' }) =>
    judgeBy({ ...fine, changedNothing: true, ...found }, { ...DEFAULT_POLICY, ...policy }, '2026-11-21')
      .objections;
  expect(expecting({})).toMatchObject([{ code: 'NOTHING_APPLIED' }]);
  expect(expecting({ changedNothing: false })).toEqual([]);
  expect(expecting({ command: { ...command, exitCode: 1 } })).toMatchObject([{ code: 'COMMAND_FAILED' }]);
  expect(expecting({}, {})).toEqual([]);
});
