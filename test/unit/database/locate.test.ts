import { describe, expect, test } from 'vitest';
import { locateTarget, parseDotenv } from '../../../src/database/locate.ts';
import { SafemigrateError } from '../../../src/errors.ts';
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

  const hintOf = (env: Record<string, string>, dotenv?: string) => {
    try {
      locateTarget({}, around(env, dotenv));
    } catch (error) {
      if (error instanceof SafemigrateError) return error.hint?.split('Name it')[0];
      throw error;
    }
  };

  test('missing: what other variables name is told, without a value', () => {
    const login = { DATABASE_USER: 'u', DATABASE_PASSWORD: 'p' };
    const split = { ...login, DATABASE_HOST: 'h', DATABASE_NAME: 'd', DATABASE_SSLMODE: 'verify-full' };
    expect(hintOf(split)).toBe(
      [
        'The variables DATABASE_… name one. Say so with:',
        '  export PGHOST="$DATABASE_HOST"',
        '  export PGDATABASE="$DATABASE_NAME"',
        '  export PGUSER="$DATABASE_USER"',
        '  export PGPASSWORD="$DATABASE_PASSWORD"',
        '  export PGSSLMODE="$DATABASE_SSLMODE"',
        '',
      ].join('\n'),
    );
    expect(hintOf({}, 'DB_HOST=h\nDB_USER=u\nDB_NAME=d')).toContain('  set -a; . ./.env; set +a\n');
    expect(hintOf({}, 'DIRECT_URL=postgresql://u:secret@h/d')).toBe(
      'The variable DIRECT_URL names one: --url-env DIRECT_URL\n',
    );
  });

  test.each([
    [{ REDIS_HOST: 'h', REDIS_USER: 'u', REDIS_DB: '0' }],
    [{ DB_HOST: 'h', DB_NAME: '', DB_USER: 'u' }],
    [{ APP_NAME: 'shop', APP_HOST: 'h' }],
    [{ API_URL: 'https://h/d' }],
  ])('missing: %o names none', (env) => {
    expect(hintOf(env)).toBe('');
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
