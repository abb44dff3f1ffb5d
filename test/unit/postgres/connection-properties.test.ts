import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { SafemigrateError } from '../../../src/errors.ts';
import {
  readConnectionText,
  withoutPassword,
  writeConnectionText,
} from '../../../src/postgres/connection/connection-text.ts';
import { formatUrl, parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { holds } from '../../helpers/properties.ts';

const nowhere = {
  env: {},
  folder: '/project',
  home: '/home/me',
  user: 'me',
  readFile: () => undefined,
  isPrivate: () => false,
  exists: () => false,
};
const word = fc.string({ unit: fc.constantFrom(...'aé @:/?#%&=[]\'"\\;+,$|~<'), minLength: 1, maxLength: 8 });
const host = fc.oneof(
  fc.constantFrom('db', 'db.example.org', '::1', '/var/run/postgresql', 'localhost'),
  fc.ipV6(),
);
const settings = fc.record({
  hosts: fc.array(fc.record({ host, port: fc.integer({ min: 1, max: 65535 }) }), {
    minLength: 1,
    maxLength: 3,
  }),
  user: word,
  password: word,
  database: word,
  sslmode: fc.constantFrom('disable' as const, 'require' as const, 'verify-full' as const),
  parameters: fc.constant({}),
});

test('settings that are written as a URL are read again as they were', () =>
  holds(
    'connection URL',
    10_000,
    fc.property(settings, (each) => {
      expect(parseSettings(formatUrl(each), nowhere)).toEqual(each);
    }),
  ));

const junk = fc.string({ unit: fc.constantFrom(...'ab1é@:/?#%&=[]\'"\\; ,.'), maxLength: 24 });
const start = fc.constantFrom(
  '',
  'postgres://',
  'postgresql://u:',
  'jdbc:postgresql:',
  'jdbc:postgresql://',
  'host=',
  'Host=h;Password=',
  'postgres:',
);

test('any text is a connection or an error of ours, and what is read is written and read again alike', () =>
  holds(
    'connection text',
    10_000,
    fc.property(start, junk, (begin, rest) => {
      let read: ReturnType<typeof readConnectionText>;
      try {
        read = readConnectionText(begin + rest);
      } catch (error) {
        expect(error).toBeInstanceOf(SafemigrateError);
        return;
      }
      const written = writeConnectionText(read);
      // Empty values are not written.
      if (written === '') return;
      const again = readConnectionText(written);
      expect([...again.values].sort()).toEqual([...read.values].sort());
      expect(withoutPassword(withoutPassword(begin + rest))).toBe(withoutPassword(begin + rest));
    }),
  ));
