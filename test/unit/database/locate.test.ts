import { describe, expect, test } from 'vitest';
import { locateTarget, parseDotenv } from '../../../src/database/locate.ts';
import type { Environment } from '../../../src/postgres/connection/environment.ts';

function around(env: Record<string, string>, dotenv?: string): Environment {
  return {
    env,
    folder: '/project',
    home: '/home/me',
    user: 'me',
    readFile: (path) => (path === '/project/.env' ? dotenv : undefined),
    isPrivate: () => false,
    exists: () => false,
  };
}

describe('the target is', () => {
  const url = 'postgresql://h/flag';
  const variable = { DATABASE_URL: 'postgresql://h/variable' };
  const pg = { PGHOST: 'h', PGDATABASE: 'pg' };
  const file = 'DATABASE_URL="postgresql://h/file"\nOTHER_URL=postgresql://h/other';

  test.each([
    [{ url }, { ...variable, ...pg }, file, '--url', 'flag'],
    [{}, { ...variable, ...pg }, file, 'DATABASE_URL', 'variable'],
    [{ urlEnv: 'MY_URL' }, { ...variable, MY_URL: 'postgresql://h/my' }, file, 'MY_URL', 'my'],
    [{}, pg, file, 'PG* variables', 'pg'],
    [{}, { PGUSER: 'u' }, file, 'DATABASE_URL in .env', 'file'],
    [{}, { DATABASE_URL: '' }, file, 'DATABASE_URL in .env', 'file'],
    [{ urlEnv: 'OTHER_URL' }, variable, file, 'OTHER_URL in .env', 'other'],
  ])('%o %o', (flags, env, dotenv, source, database) => {
    const located = locateTarget(flags, around(env, dotenv));
    expect([located.source, located.settings.database]).toEqual([source, database]);
  });

  test('missing: all four ways are named', () => {
    expect(() => locateTarget({}, around({}))).toThrow(
      expect.objectContaining({
        code: 'CONFIGURATION',
        hint: expect.stringMatching(/--url[\s\S]*DATABASE_URL[\s\S]*PGHOST[\s\S]*\.env/),
      }),
    );
  });

  test('wrong: the place is named and the password is not', () => {
    const broken = around({ DATABASE_URL: 'mysql://root:secret@h/d' });
    expect(() => locateTarget({}, broken)).toThrow(/^DATABASE_URL: (?!.*secret)/);
  });
});

describe('a .env file', () => {
  test.each([
    ['A=b', 'b'],
    ['A = b  ', 'b'],
    ['export A=b', 'b'],
    ['A: b', 'b'],
    ['A=b # comment', 'b'],
    ['# A=x\nA=b', 'b'],
    ["A='b # no comment' # comment", 'b # no comment'],
    ['A="b c"', 'b c'],
    ['A="line1\nline2"', 'line1\nline2'],
    ['A="line1\\nline2"', 'line1\nline2'],
    ["A='line1\\nline2'", 'line1\\nline2'],
    ['A=`it\'s "b"`', 'it\'s "b"'],
    ['A=b\r\nB=c\r\n', 'b'],
    ['A=', ''],
    ['A=first\nA=last', 'last'],
    ['X=1\nA=${X}2', '12'],
    ['X=1\nA="${X}2"', '12'],
    ["X=1\nA='${X}2'", '12'],
    ['A=${FROM_ENV}', 'env'],
    ['FROM_ENV=file\nA=${FROM_ENV}', 'env'],
    ['A=${NONE:-fallback}', 'fallback'],
    ['A=pa$$word$X', 'pa$$word$X'],
    ['A=a\\$b', 'a$b'],
    ['A="a" junk', '"a" junk'],
  ])('%j', (text, expected) => {
    expect(parseDotenv(text, { FROM_ENV: 'env' }).get('A')).toBe(expected);
  });
});
