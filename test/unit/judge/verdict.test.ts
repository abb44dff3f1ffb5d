import { expect, test } from 'vitest';
import { type Findings, judge } from '../../../src/judge/verdict.ts';
import type { CommandSection, TargetSection } from '../../../src/report/model.ts';

const command: CommandSection = {
  argv: ['migrate'],
  exitCode: 0,
  signal: null,
  timedOut: false,
  durationMs: 5,
  rewritten: ['DATABASE_URL'],
  reachedClone: true,
  undecided: [],
};
const fine: Findings = { command, target: { changes: [] }, schema: { leftovers: [] }, interrupted: false };
const change = (madeBy: 'command' | 'others'): TargetSection['changes'][number] => ({
  what: 'create table a',
  madeBy,
  evidence: 'seen',
});
const reasons = (findings: Partial<Findings>) => judge({ ...fine, ...findings }).reasons;

test('a command that ended well on the clone passes', () => {
  expect(judge(fine)).toEqual({ pass: true, reasons: [] });
});

test('a schema that could not be read is no reason by itself', () => {
  expect(judge({ ...fine, schema: null }).pass).toBe(true);
});

test.each<[string, Partial<CommandSection>, RegExp]>([
  ['failed', { exitCode: 3 }, /exit code 3/],
  ['was killed', { exitCode: null, signal: 'SIGKILL' }, /SIGKILL/],
  ['ran out of time', { exitCode: null, signal: 'SIGTERM', timedOut: true }, /--timeout/],
  ['never came to the clone', { reachedClone: false }, /never connected/],
])('a command that %s does not pass, with one reason', (_, more, reason) => {
  expect(reasons({ command: { ...command, ...more } })).toEqual([expect.stringMatching(reason)]);
});

test('a change of the target by the command comes before all other reasons', () => {
  const told = reasons({ target: { changes: [change('command')] }, command: { ...command, exitCode: 1 } });
  expect(told).toHaveLength(2);
  expect(told[0]).toContain('create table a');
});

test('what others did to the target meanwhile is not held against the command', () => {
  expect(judge({ ...fine, target: { changes: [change('others')] } }).pass).toBe(true);
});

test('an interrupted rehearsal never passes, and is blamed for nothing else', () => {
  const cut = { ...command, exitCode: null, signal: 'SIGINT', reachedClone: false } as const;
  expect(reasons({ interrupted: true, command: cut })).toEqual([expect.stringContaining('interrupted')]);
});

test('an invalid index that the command left fails the rehearsal, one that was there before does not', () => {
  const index = { kind: 'invalid index', object: 'public.i', preexisting: false } as const;
  expect(reasons({ schema: { leftovers: [index] } })).toEqual([expect.stringContaining('public.i')]);
  expect(judge({ ...fine, schema: { leftovers: [{ ...index, preexisting: true }] } }).pass).toBe(true);
});
