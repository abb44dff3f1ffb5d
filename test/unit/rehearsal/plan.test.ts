import { describe, expect, test } from 'vitest';
import { makeApplyPlan } from '../../../src/apply/apply-plan.ts';
import { makeRehearsalPlan } from '../../../src/rehearsal/plan.ts';
import type { RehearseOptions } from '../../../src/rehearsal/rehearsal-settings.ts';
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
    const options = {
      ...COMMAND,
      target: { url: undefined },
      clone: { waitMs: undefined },
      checks: undefined,
    };
    const { target, clone, checks, policy } = makeRehearsalPlan(options);
    expect(target).toEqual({ url: null, urlEnv: 'DATABASE_URL', from: null });
    expect(clone.waitMs).toBe(10_000);
    expect(checks.queries).toBe('auto');
    expect(policy).toMatchObject({ failOn: 'error', accept: [], maxDurationMs: null });
  });

  test('keeps what was given, false and 0 too', () => {
    const { clone, command, proxy } = makeRehearsalPlan({
      ...COMMAND,
      clone: { keep: false, maxStallMs: 0, folder: '/clones' },
      timeoutMs: 5,
      proxy: { observe: 'off' },
    });
    expect(clone).toMatchObject({ keep: false, maxStallMs: 0, folder: '/clones' });
    expect(command).toMatchObject({ argv: ['migrate'], timeoutMs: 5, stdout: 'inherit' });
    expect(proxy).toEqual({ observe: 'off', listen: '127.0.0.1', allowClusterStatements: false });
  });

  test('is not made of an option in the place of several', () => {
    const options = { ...COMMAND, clone: 'template' } as unknown as RehearseOptions;
    expect(() => makeRehearsalPlan(options)).toThrow(/"clone" is not an object of options/);
  });

  test('clones a restored dump inside its server, unless another method is named', () => {
    expect(makeRehearsalPlan(COMMAND).clone.method).toBe('auto');
    expect(makeRehearsalPlan({ ...COMMAND, target: { from: 'shop.sql' } }).clone.method).toBe('template');
    expect(
      makeRehearsalPlan({ ...COMMAND, target: { from: 'shop.sql' }, clone: { method: 'dump' } }).clone.method,
    ).toBe('dump');
  });

  test.each(['create', 'destroy'])('with %s alone is refused', (key) => {
    expect(() => makeRehearsalPlan({ ...COMMAND, clone: { external: { [key]: 'true' } } })).toThrow(
      /go together/,
    );
  });

  test.each<[string, Partial<RehearseOptions>]>([
    ['--clone dump', { clone: { method: 'dump' } }],
    ['--clone-to', { clone: { rehearsalUrl: 'postgresql://other/app' } }],
    ['--schema-only', { clone: { schemaOnly: true } }],
    ['SAFEMIGRATE_OBSERVE=off', { proxy: { observe: 'off' } }],
  ])('of an online swap does not go with %s, and that of another swap does', (option, more) => {
    const swap = (enabled: boolean) => makeSwapPlan({ ...CONFIRMED, ...more, online: { enabled } });
    expect(() => swap(true)).toThrow(`--online does not go with ${option}: `);
    expect(swap(false).online).toEqual({
      catchUp: null,
      enabled: false,
      maxCutOverMs: 500,
      maxKeptWalBytes: 10 * 2 ** 30,
      minFreeBytes: null,
      postponeFile: null,
      wayBackMs: null,
    });
  });

  test('of a swap closes the target for as long as needed, unless there is a limit', () => {
    expect(makeSwapPlan(CONFIRMED).window.maxClosedMs).toBe(Number.POSITIVE_INFINITY);
    expect(makeSwapPlan({ ...CONFIRMED, window: { maxClosedMs: 5 } }).window.maxClosedMs).toBe(5);
  });
});
