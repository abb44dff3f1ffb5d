import { describe, expect, test } from 'vitest';
import { flagSource } from '../../../src/cli/options/config.ts';
import { readValues } from '../../../src/cli/options/read-values.ts';
import { RUN_SETTINGS } from '../../../src/cli/options/run-table.ts';
import { lockFlag } from '../../../src/hazards/policy.ts';
import { parseAllowance, parseLockLimit } from '../../../src/hazards/policy-settings.ts';

const read = (values: Record<string, unknown>) =>
  readValues(RUN_SETTINGS, [], [flagSource(RUN_SETTINGS, values)]);

function messageOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    return error instanceof Error ? error.message : '';
  }
  return '';
}

describe('a limit for locks', () => {
  test.each([
    ['ACCESS EXCLUSIVE=500ms', { mode: 'ACCESS EXCLUSIVE', maxMs: 500 }],
    ['share row-exclusive = 2s', { mode: 'SHARE ROW EXCLUSIVE', maxMs: 2000 }],
    ['public.orders:SHARE=1m', { relation: 'public.orders', mode: 'SHARE', maxMs: 60_000 }],
    ['public."a:b=c":SHARE=1s', { relation: 'public."a:b=c"', mode: 'SHARE', maxMs: 1000 }],
  ])('is written as %s', (text, limit) => {
    expect(parseLockLimit(text)).toEqual(limit);
  });

  test.each(['ACCESS EXCLUSIVE', 'EXCLUSIF=1s', 'SHARE=1', '=1s', 'public.orders=1s'])(
    'is not %j',
    (text) => {
      expect(() => parseLockLimit(text)).toThrow();
    },
  );

  test('that a refusal names is one that the option accepts', () => {
    const [, value = ''] = /^--limit 'lock=(.*)'$/.exec(lockFlag('public."Orders"', 'SHARE', 4231)) ?? [];
    expect(parseLockLimit(value)).toEqual({ relation: 'public."Orders"', mode: 'SHARE', maxMs: 5000 });
  });
});

describe('an allowance', () => {
  test('in the example of a mistake is one that the option accepts', () => {
    const [, example = ''] = /written like '(.*)'\.$/.exec(messageOf(() => parseAllowance(''))) ?? [];
    expect(parseAllowance(example)).toMatchObject({ relation: 'public.orders' });
  });

  const code = 'HALF_APPLIED';
  test.each([
    [`${code}="agreed with ops"`, { code, reason: 'agreed with ops' }],
    [
      `${code}:public.orders='a "small" one' until=2027-01-31`,
      { code, relation: 'public.orders', reason: 'a "small" one', until: '2027-01-31' },
    ],
    [
      `${code}:public."two=words"=ok with them until=2027-01-31`,
      { code, relation: 'public."two=words"', reason: 'ok with them', until: '2027-01-31' },
    ],
    [`${code}:public.f(integer, text)=ok`, { code, relation: 'public.f(integer, text)', reason: 'ok' }],
  ])('is written as %s', (text, allowance) => {
    expect(parseAllowance(text)).toEqual(allowance);
  });

  test.each([
    ['', /written like 'INDEX_NOT_CONCURRENT:/],
    [code, /without a reason/],
    [`${code}:public.orders`, /without a reason/],
    [`${code}="…"`, /without a reason/],
    ['HALF_APLIED=ok', /no hazard/],
    [`${code}=ok until=2027-02-30`, /a date/],
    [`${code}=ok until=tomorrow`, /a date/],
  ])('is not %j', (text, mistake) => {
    expect(() => parseAllowance(text)).toThrow(mistake);
  });

  test('may be an object in a config file, and a mistake in one is told with its place', () => {
    const allowance = { code, relation: 'public.orders', reason: 'ok', until: '2027-01-31' };
    expect(read({ accept: [allowance, `${code}=ok`] }).policy?.accept).toEqual([
      allowance,
      { code, reason: 'ok' },
    ]);
    expect(() => read({ accept: [{ ...allowance, untill: 'x' }] })).toThrow(/--accept has "untill"/);
    expect(() => read({ accept: [{ code, reason: 5 }] })).toThrow(/--accept has a reason that is no text/);
    expect(() => read({ maxLock: [{}] })).toThrow(/--limit lock is \{\}/);
  });
});

test('options become a policy, which holds nothing that was not given', () => {
  expect(read({}).policy).toBeUndefined();
  const values = {
    failOn: 'warning',
    maxDuration: '10m',
    maxWal: '2GB',
    maxDisk: '1TB',
    maxLock: 'SHARE=1s',
  };
  expect(read({ ...values, keep: 'true' }).policy).toEqual({
    failOn: 'warning',
    maxDurationMs: 600_000,
    maxWalBytes: 2 * 2 ** 30,
    maxDiskBytes: 2 ** 40,
    maxLocks: [{ mode: 'SHARE', maxMs: 1000 }],
  });
});
