import { describe, expect, test } from 'vitest';
import { environmentSource, flagSource } from '../../../src/cli/options/config.ts';
import { type OptionSource, readValues } from '../../../src/cli/options/read-values.ts';
import { RUN_SETTINGS } from '../../../src/cli/options/run-table.ts';
import { CLEAN_SETTINGS } from '../../../src/cli/options/subcommand-settings.ts';
import { subcommands } from '../../../src/cli/options/subcommand-table.ts';
import { SafemigrateError } from '../../../src/errors.ts';
import { nameOfSetting, type SettingTree, settingsIn, variableOf } from '../../../src/settings.ts';
import { AGE, DURATION, SIZE, TIME_LIMIT } from '../../../src/value-types.ts';

const flags = (values: Record<string, unknown>) => flagSource(RUN_SETTINGS, values);
const file = (values: Record<string, unknown>): OptionSource => ({
  kind: 'file',
  values,
  nameOf: (key) => `package.json: ${key}`,
});
const env = (values: Record<string, string>) => environmentSource(RUN_SETTINGS, values);
const read = (...sources: OptionSource[]) => readValues(RUN_SETTINGS, [], sources);

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
    expect(read(...sources)).toEqual({ clone: { waitMs: 1000, maxStallMs: 2000 }, timeoutMs: 180_000 });
  });

  test('that needs a switch is a mistake as a flag without it, and of no effect in a variable or a file', () => {
    const limit = { limit: ['cut-over=1s'] };
    expect(mistakesOf(() => read(flags(limit)))).toEqual(['--limit cut-over needs --online.']);
    expect(read(flags({ ...limit, online: true }))).toEqual({
      online: { enabled: true, maxCutOverMs: 1000 },
    });
    expect(read(file({ maxCutOver: '1s' }))).toEqual({ online: { maxCutOverMs: 1000 } });
  });

  test('that is false in the stronger place is false', () => {
    expect(read(env({ SAFEMIGRATE_KEEP: 'no' }), file({ keep: true }))).toEqual({ clone: { keep: false } });
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

  test('that may not be empty is a mistake if it is, as a secret that is missing in CI', () => {
    expect(mistakesOf(() => read(env({ SAFEMIGRATE_RECEIPT_KEY: '' })))).toEqual([
      'SAFEMIGRATE_RECEIPT_KEY is empty.',
    ]);
  });

  test('of another subcommand is no mistake in a file, and has no effect', () => {
    const sources = [file({ keep: true, kept: true })];
    expect(readValues(CLEAN_SETTINGS, [RUN_SETTINGS], sources)).toEqual({ kept: true });
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
    expect(DURATION.parse(text)).toBe(milliseconds);
  });

  test.each(['', '5', 's', '-5s', '5 days', '1e3s', '5s5s', 'Infinitys', '597h', '99999999999s'])(
    'is not %j',
    (text) => {
      expect(() => DURATION.parse(text)).toThrow();
    },
  );

  test.each([
    ['7d', 604_800_000],
    ['0.5 d', 43_200_000],
    ['365d', 31_536_000_000],
    ['12h', 43_200_000],
    ['0s', 0],
  ])('and an age %s is %d ms', (text, milliseconds) => {
    expect(AGE.parse(text)).toBe(milliseconds);
  });

  test.each(['7', 'd', '-1d', '7 days', '999999d', '597h'])('and an age is not %j', (text) => {
    expect(() => AGE.parse(text)).toThrow(/written like 30m, 12h or 7d/);
  });

  test('to wait may leave out its unit, which is seconds', () => {
    expect(read(flags({ wait: ['2.5'] }))).toEqual({ clone: { waitMs: 2500 } });
    expect(mistakesOf(() => read(flags({ wait: ['99999999999'] })))).toHaveLength(1);
  });
});

test.each([
  ['500ms', DURATION.format(500)],
  ['90s', DURATION.format(90_000)],
  ['6h', DURATION.format(21_600_000)],
  ['none', TIME_LIMIT.format(0)],
  ['10GB', SIZE.format(10 * 2 ** 30)],
  ['1536MB', SIZE.format(1.5 * 2 ** 30)],
])('a default is shown as %s', (expected, shown) => {
  expect(shown).toBe(expected);
});

test('every variable is named after its option', () => {
  const source = env({ SAFEMIGRATE_URL_ENV: 'X', SAFEMIGRATE_MAX_STALL: '1s' });
  expect(read(source)).toEqual({ target: { urlEnv: 'X' }, clone: { maxStallMs: 1000 } });
});

describe('a config file', () => {
  const dangerous = ['yes', 'force', 'disconnect', 'cloneCreate', 'cloneDestroy', 'down', 'verify'];
  dangerous.push('afterClone', 'permitCluster', 'permitExternal', 'permitStandbys', 'unblock');

  test.each(dangerous)('cannot set %s, which makes a run more dangerous', (key) => {
    const mistakes = mistakesOf(() => read(file({ [key]: 'x' })));
    expect(mistakes).toEqual([
      expect.stringMatching(`^package.json: ${key} cannot be set in a file: use --`),
    ]);
  });

  test('cannot set what is dangerous for another subcommand either', () => {
    const work = () =>
      readValues(
        RUN_SETTINGS,
        [...subcommands().map(([, each]) => each.options)],
        [file({ discardWrites: true })],
      );
    expect(mistakesOf(work)).toEqual([
      expect.stringContaining('--discard-writes or SAFEMIGRATE_DISCARD_WRITES'),
    ]);
  });

  test('can accept a hazard, with a reason', () => {
    const accept = [{ code: 'COLUMN_DROPPED', reason: 'agreed' }];
    expect(read(file({ accept }))).toEqual({ policy: { accept } });
  });
});

describe('the table of options', () => {
  const tables: SettingTree[] = [RUN_SETTINGS, ...subcommands().map(([, { options }]) => options)];
  const all = tables.flatMap(settingsIn);

  test('gives every setting its group in the help', () => {
    expect(all.filter(({ group }) => group === undefined)).toEqual([]);
  });

  test('gives no two settings of a run the same key', () => {
    const keys = settingsIn(RUN_SETTINGS).map(({ key }) => key);
    expect(keys.filter((key, at) => keys.indexOf(key) !== at)).toEqual([]);
  });

  test('gives every flag one variable and one key', () => {
    for (const spec of all) {
      expect(nameOfSetting(spec)).toMatch(/^--[a-z]+(-[a-z]+)*( [a-z-]+)?$|^SAFEMIGRATE_/);
      expect(variableOf(spec)).toMatch(/^SAFEMIGRATE_[A-Z_]+$/);
    }
  });

  test('has defaults that the option itself could read', () => {
    for (const { type, default: value } of all) {
      if (value === undefined || value === null || value === false || Array.isArray(value)) continue;
      const text = type.format(value);
      expect(type.parse(text === 'none' ? '0' : text)).toEqual(value);
    }
  });
});
