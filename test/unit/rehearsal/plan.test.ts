import { describe, expect, test } from 'vitest';
import { makeApplyPlan } from '../../../src/apply/apply-plan.ts';
import { makeRehearsalPlan } from '../../../src/rehearsal/plan.ts';
import type { RehearseOptions } from '../../../src/rehearsal/run-options.ts';
import { makeRollbackPlan, makeSwapPlan } from '../../../src/swap/swap-plan.ts';

const COMMAND = { command: ['migrate'] };
const CONFIRMED = { ...COMMAND, confirm: async () => true };

describe('a plan', () => {
  test.each([
    ['rehearsal', makeRehearsalPlan(COMMAND)],
    ['apply', makeApplyPlan(CONFIRMED)],
    ['swap', makeSwapPlan(CONFIRMED)],
    ['rollback', makeRollbackPlan({ confirm: async () => true })],
  ])('of a %s has a value in every field', (_, plan) => {
    const unset = (value: unknown, path: string): string[] => {
      if (value === undefined) return [path];
      const isPlain =
        typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
      return isPlain ? Object.entries(value).flatMap(([key, each]) => unset(each, `${path}.${key}`)) : [];
    };
    expect(unset({ ...plan, command: null, env: null }, 'plan')).toEqual([]);
  });

  test('takes an option that is undefined as not given', () => {
    // As a program in JavaScript may pass it on.
    const options = { ...COMMAND, url: undefined, waitMs: undefined, policy: { failOn: undefined } };
    const { target, clone, policy } = makeRehearsalPlan(options as unknown as RehearseOptions);
    expect(target).toEqual({ url: null, urlEnv: 'DATABASE_URL', from: null });
    expect(clone.waitMs).toBe(10_000);
    expect(policy).toEqual({ failOn: 'error', allow: [], requireProof: false, maxLocks: [] });
  });

  test('keeps what was given, false and 0 too', () => {
    const { clone, command, proxy } = makeRehearsalPlan({
      ...COMMAND,
      keep: false,
      maxStallMs: 0,
      timeoutMs: 5,
      cloneDir: '/clones',
      observe: 'off',
    });
    expect(clone).toMatchObject({ keep: false, maxStallMs: 0, folder: '/clones' });
    expect(command).toMatchObject({ argv: ['migrate'], timeoutMs: 5, stdout: 'inherit' });
    expect(proxy).toEqual({ observe: 'off', listen: '127.0.0.1', allowClusterStatements: false });
  });

  test('clones a restored dump inside its server, unless another method is named', () => {
    expect(makeRehearsalPlan(COMMAND).clone.method).toBe('auto');
    expect(makeRehearsalPlan({ ...COMMAND, from: 'shop.sql' }).clone.method).toBe('template');
    expect(makeRehearsalPlan({ ...COMMAND, from: 'shop.sql', clone: 'dump' }).clone.method).toBe('dump');
  });

  test.each(['cloneCreate', 'cloneDestroy'])('with %s alone is refused', (key) => {
    expect(() => makeRehearsalPlan({ ...COMMAND, [key]: 'true' })).toThrow(/go together/);
  });

  test('of a swap closes the target for as long as needed, unless there is a limit', () => {
    expect(makeSwapPlan(CONFIRMED).window.maxClosedMs).toBe(Number.POSITIVE_INFINITY);
    expect(makeSwapPlan({ ...CONFIRMED, maxClosedMs: 5 }).window.maxClosedMs).toBe(5);
  });
});
