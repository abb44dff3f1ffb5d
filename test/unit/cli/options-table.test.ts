import { describe, expect, test } from 'vitest';
import { environmentSource } from '../../../src/cli/config.ts';
import {
  CLEAN_OPTIONS,
  flagOf,
  RUN_OPTIONS,
  readOptions,
  type Source,
} from '../../../src/cli/options-table.ts';
import { parseAge, parseDuration } from '../../../src/cli/values.ts';
import { SafemigrateError } from '../../../src/errors.ts';

const flags = (values: Record<string, unknown>): Source => ({ strict: true, values, nameOf: flagOf });
const file = (values: Record<string, unknown>): Source => ({
  strict: true,
  values,
  nameOf: (key) => `package.json: ${key}`,
});
const env = (values: Record<string, string>) => environmentSource(RUN_OPTIONS, values);
const read = (...sources: Source[]) => readOptions(RUN_OPTIONS, RUN_OPTIONS, sources);

function mistakesOf(work: () => unknown): string[] {
  try {
    work();
  } catch (error) {
    if (error instanceof SafemigrateError && error.code === 'CONFIGURATION') return error.message.split('\n');
    throw error;
  }
  return [];
}

describe('an option', () => {
  test('is taken from the flag, then the variable, then the file', () => {
    const sources = [
      flags({ wait: ['1'] }),
      env({ SAFEMIGRATE_WAIT: '2', SAFEMIGRATE_MAX_STALL: '2s' }),
      file({ wait: 3, maxStall: '3s', timeout: '3m' }),
    ];
    expect(read(...sources)).toEqual({ wait: 1000, maxStall: 2000, timeout: 180_000 });
  });

  test('that is false in the stronger place is false', () => {
    expect(read(env({ SAFEMIGRATE_KEEP: 'no' }), file({ keep: true }))).toEqual({ keep: false });
  });

  test('means the same as text and as a value of its own', () => {
    expect(read(file({ keep: true, wait: 5 }))).toEqual(read(flags({ keep: ['true'], wait: ['5'] })));
  });

  test('that may be repeated is taken whole from the strongest place', () => {
    const sources = [flags({ report: ['a.json', 'b.txt'] }), file({ report: ['c.json'] })];
    expect(read(...sources)).toEqual({ report: ['a.json', 'b.txt'] });
  });

  test('that is empty in the environment is not set', () => {
    expect(read(env({ SAFEMIGRATE_URL: '', SAFEMIGRATE_CLONE: '' }))).toEqual({});
  });

  test('of another subcommand is no mistake in a file, and has no effect', () => {
    const known = { ...RUN_OPTIONS, ...CLEAN_OPTIONS };
    expect(readOptions(CLEAN_OPTIONS, known, [file({ keep: true, kept: true })])).toEqual({ kept: true });
  });
});

describe('mistakes', () => {
  test('are told all at once, each with the place where it stands', () => {
    const mistakes = mistakesOf(() =>
      read(
        flags({ disconnect: ['everybody'], url: ['a', 'b'] }),
        env({ SAFEMIGRATE_TIMEOUT: 'soon' }),
        file({ clone: 'magic', wait: null, colour: 'red', report: ['a.pdf'] }),
      ),
    );
    const places = ['--disconnect is', '--url can', 'SAFEMIGRATE_TIMEOUT is', 'package.json: clone is'];
    places.push('package.json: wait is', 'package.json: colour is', 'package.json: report is');
    for (const place of places) expect(mistakes.filter((line) => line.includes(place))).toHaveLength(1);
  });

  test('in a weaker place are told although a stronger one is taken', () => {
    expect(mistakesOf(() => read(flags({ wait: ['1'] }), file({ wait: 'long' })))).toHaveLength(1);
  });

  test.each(['constructor', 'toString', '__proto__', 'hasOwnProperty'])(
    'include the unknown key %s',
    (key) => {
      const values = JSON.parse(`{${JSON.stringify(key)}: "x"}`);
      expect(mistakesOf(() => read(file(values)))).toEqual([
        expect.stringContaining(`package.json: ${key} is no option of safemigrate`),
      ]);
    },
  );

  test.each([[{}], [[]], [[['a']]], [{ a: 1 }]])('include values that are no plain ones: %j', (value) => {
    if (Array.isArray(value) && value.length === 0)
      expect(read(file({ report: value }))).toEqual({ report: [] });
    else expect(mistakesOf(() => read(file({ url: value })))).toHaveLength(1);
  });
});

describe('a duration', () => {
  test.each([
    ['500ms', 500],
    ['5s', 5000],
    ['1.5m', 90_000],
    ['2 min', 120_000],
    ['1h', 3_600_000],
    ['0s', 0],
    [' 7s ', 7000],
    ['596h', 2_145_600_000],
  ])('%s is %d ms', (text, milliseconds) => {
    expect(parseDuration(text)).toBe(milliseconds);
  });

  test.each(['', '5', 's', '-5s', '5 days', '1e3s', '5s5s', 'Infinitys', '597h', '99999999999s'])(
    'is not %j',
    (text) => {
      expect(() => parseDuration(text)).toThrow();
    },
  );

  test.each([
    ['7d', 604_800_000],
    ['0.5 d', 43_200_000],
    ['365d', 31_536_000_000],
    ['12h', 43_200_000],
    ['0s', 0],
  ])('and an age %s is %d ms', (text, milliseconds) => {
    expect(parseAge(text)).toBe(milliseconds);
  });

  test.each(['7', 'd', '-1d', '7 days', '999999d', '597h'])('and an age is not %j', (text) => {
    expect(() => parseAge(text)).toThrow(/written like 30m, 12h or 7d/);
  });

  test('to wait may leave out its unit, which is seconds', () => {
    expect(read(flags({ wait: ['2.5'] }))).toEqual({ wait: 2500 });
    expect(mistakesOf(() => read(flags({ wait: ['99999999999'] })))).toHaveLength(1);
  });
});

test('every variable is named after its option', () => {
  const source = environmentSource(RUN_OPTIONS, { SAFEMIGRATE_URL_ENV: 'X', SAFEMIGRATE_MAX_STALL: '1s' });
  expect(read(source)).toEqual({ urlEnv: 'X', maxStall: 1000 });
});
