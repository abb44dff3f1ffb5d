import { expect, test } from 'vitest';
import { type DatabaseLocale, localeClause } from '../../../src/clone/dump/empty-database.ts';

const LIBC: DatabaseLocale = {
  encoding: 'UTF8',
  collate: 'de_DE.UTF-8',
  ctype: 'C',
  provider: 'libc',
  locale: null,
  icuRules: null,
};

test.each<[string, DatabaseLocale, number, string]>([
  ['of the system on 14', LIBC, 140000, "ENCODING 'UTF8' LC_COLLATE 'de_DE.UTF-8' LC_CTYPE 'C'"],
  [
    'of the system on 15, whatever the server was made with',
    LIBC,
    150000,
    "ENCODING 'UTF8' LC_COLLATE 'de_DE.UTF-8' LC_CTYPE 'C' LOCALE_PROVIDER libc",
  ],
  [
    'of ICU with rules',
    { ...LIBC, provider: 'icu', locale: 'de', icuRules: "&a < 'b" },
    160000,
    "ENCODING 'UTF8' LC_COLLATE 'de_DE.UTF-8' LC_CTYPE 'C' LOCALE_PROVIDER icu ICU_LOCALE 'de' ICU_RULES '&a < ''b'",
  ],
  [
    'that is built in',
    { ...LIBC, provider: 'builtin', locale: 'C.UTF-8' },
    170000,
    "ENCODING 'UTF8' LC_COLLATE 'de_DE.UTF-8' LC_CTYPE 'C' LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8'",
  ],
])('a database with a locale %s is made with the same', (_, locale, versionNum, clause) => {
  expect(localeClause(locale, versionNum)).toBe(clause);
});
