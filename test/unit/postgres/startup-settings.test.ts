import { expect, test } from 'vitest';
import { withSettings } from '../../../src/postgres/protocol/startup-settings.ts';

const LIMIT = { lock_timeout: '2000' };

test('a setting that the client does not name is added behind its own', () => {
  const { parameters, given } = withSettings(
    [
      ['user', 'u'],
      ['options', '-c statement_timeout=1s'],
    ],
    LIMIT,
  );
  expect(parameters.at(-1)).toEqual(['lock_timeout', '2000']);
  expect([...given]).toEqual(['lock_timeout']);
});

test.each([
  ['by its name', 'lock_timeout', '5s'],
  ['by its name in capitals', 'LOCK_TIMEOUT', '5s'],
  ['in options', 'options', '-c lock_timeout=5s'],
  ['in options, without a space', 'options', '-clock_timeout=5s'],
  ['in options, with dashes', 'options', '--lock-timeout=5s'],
  ['in options, behind others', 'options', '-c search_path=a -c Lock_Timeout=0'],
])('one that it names %s stays its own', (_where, name, value) => {
  const own = [
    ['user', 'u'],
    [name, value],
  ] as const;
  expect(withSettings(own, LIMIT)).toEqual({ parameters: own, given: new Set() });
});
