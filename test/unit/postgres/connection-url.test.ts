import { describe, expect, test } from 'vitest';
import { SafemigrateError } from '../../../src/errors.ts';
import { looksLikeConnection, withoutPassword } from '../../../src/postgres/connection/connection-text.ts';
import { formatUrl, parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import type { Environment } from '../../../src/postgres/connection/environment.ts';

interface Files {
  readonly [path: string]: string;
}

function around(
  env: Record<string, string> = {},
  files: Files = {},
  open: readonly string[] = [],
): Environment {
  return {
    env,
    folder: '/project',
    home: '/home/me',
    user: 'me',
    readFile: (path) => files[path],
    isPrivate: (path) => path in files && !open.includes(path),
    exists: (path) => path in files,
  };
}

const nowhere = around();

function shorthand(text: string | undefined, where = nowhere): string {
  const { hosts, user, password, database, sslmode, parameters } = parseSettings(text, where);
  const list = hosts.map(({ host, port }) => `${host}|${port}`).join(' ');
  const rest = Object.entries(parameters).map(([key, value]) => ` ${key}=${value}`);
  return `${user}/${password ?? ''}@${list}/${database} ${sslmode}${rest.join('')}`;
}

describe('a connection as libpq reads it', () => {
  test.each([
    ['postgres://', 'me/@localhost|5432/me prefer'],
    ['postgresql://localhost', 'me/@localhost|5432/me prefer'],
    ['postgresql://localhost:5433', 'me/@localhost|5433/me prefer'],
    ['postgresql://localhost/mydb', 'me/@localhost|5432/mydb prefer'],
    ['postgresql://user@localhost', 'user/@localhost|5432/user prefer'],
    ['postgresql://user:secret@localhost', 'user/secret@localhost|5432/user prefer'],
    ['postgresql://user:@localhost/x', 'user/@localhost|5432/x prefer'],
    ['postgresql://:secret@localhost/x', 'me/secret@localhost|5432/x prefer'],
    [
      'postgresql://u@h/d?connect_timeout=10&application_name=a',
      'u/@h|5432/d prefer connect_timeout=10 application_name=a',
    ],
    ['postgresql://h1:123,h2:456/d', 'me/@h1|123 h2|456/d prefer'],
    ['postgresql://h1,h2:456/d', 'me/@h1|5432 h2|456/d prefer'],
    ['postgresql://h1,h2/d?port=7', 'me/@h1|7 h2|7/d prefer'],
    ['postgresql://[::1]/d', 'me/@::1|5432/d prefer'],
    ['postgresql://[2001:db8::1234]:6/d', 'me/@2001:db8::1234|6/d prefer'],
    ['postgresql://u:p@[::1]:6,[::2]:7/d', 'u/p@::1|6 ::2|7/d prefer'],
    ['postgresql:///d?host=/var/run/postgresql', 'me/@/var/run/postgresql|5432/d prefer'],
    ['postgresql:///d?host=/tmp&port=5433', 'me/@/tmp|5433/d prefer'],
    ['postgresql://%2Fvar%2Frun%2Fpostgresql/d', 'me/@/var/run/postgresql|5432/d prefer'],
    ['postgresql://%2Ftmp:77/d', 'me/@/tmp|77/d prefer'],
    ['postgresql://localhost/d?host=/tmp', 'me/@/tmp|5432/d prefer'],
    ['postgresql:///?user=u&password=p&host=h&port=9&dbname=d', 'u/p@h|9/d prefer'],
    ['postgresql://h/a?dbname=b', 'me/@h|5432/b prefer'],
    ['postgresql://u%40x:p%3Aw%2F%25@h/d%20b', 'u@x/p:w/%@h|5432/d b prefer'],
    ['postgresql://us%C3%A9r:pw%E2%82%AC@h/d%C3%BC', 'usér/pw€@h|5432/dü prefer'],
    ['postgresql://usér:pw€@h/dü', 'usér/pw€@h|5432/dü prefer'],
    ['postgresql://u:p#w@h/d', 'u/p#w@h|5432/d prefer'],
    ['postgresql://u:a:b@h/d', 'u/a:b@h|5432/d prefer'],
    ['postgresql://u@h/a+b', 'u/@h|5432/a+b prefer'],
    ['postgresql://u@h/d?options=-c%20search_path%3Da%2Cb', 'u/@h|5432/d prefer options=-c search_path=a,b'],
    ['postgresql://u@h/d?schema=public&pgbouncer=true', 'u/@h|5432/d prefer schema=public pgbouncer=true'],
    ['postgresql://u@h/d?sslmode=require', 'u/@h|5432/d require'],
    ['postgresql://u@h/d?ssl=true', 'u/@h|5432/d require'],
    ['postgresql://u@h/d?sslmode=no-verify', 'u/@h|5432/d require'],
    ['postgresql://u@h/d?sslrootcert=system', 'u/@h|5432/d verify-full sslrootcert=system'],
    ['postgres://U@H/D', 'U/@H|5432/D prefer'],
    ['  postgres://u@h/d\n', 'u/@h|5432/d prefer'],
    ['postgresql+psycopg2://u:p@h/d', 'u/p@h|5432/d prefer'],
    ['postgis://u:p@h/d', 'u/p@h|5432/d prefer'],
    ['jdbc:postgresql://h:6/d?user=u&password=p', 'u/p@h|6/d prefer'],
    ['jdbc:postgresql:d', 'me/@localhost|5432/d prefer'],
    ['jdbc:postgresql://h1:1,h2:2/d', 'me/@h1|1 h2|2/d prefer'],
    ['host=h dbname=d', 'me/@h|5432/d prefer'],
    ["host = h  dbname='my db' user=u password='it\\'s \\\\'", "u/it's \\@h|5432/my db prefer"],
    ['postgresql://,:1/d', 'me/@localhost|5432 localhost|1/d prefer'],
    ['host=h1,h2 port=1,2 dbname=d', 'me/@h1|1 h2|2/d prefer'],
    ['dbname=d', 'me/@localhost|5432/d prefer'],
    ['host=/tmp user=u dbname=a\\ b', 'u/@/tmp|5432/a b prefer'],
    ["host=h dbname='' user=u", 'u/@h|5432/u prefer'],
    ['hostaddr=10.0.0.1 dbname=d', 'me/@10.0.0.1|5432/d prefer hostaddr=10.0.0.1'],
    ['host=h hostaddr=10.0.0.1 dbname=d', 'me/@h|5432/d prefer hostaddr=10.0.0.1'],
  ])('%s', (text, expected) => {
    expect(shorthand(text)).toBe(expected);
  });

  test.each([
    ['mysql://u:secret@h/d'],
    ['just-a-name'],
    [''],
    ['postgresql://u:secret@h:port/d'],
    ['postgresql://u:secret@h:70000/d'],
    ['postgresql://u:secret@h:0/d'],
    ['postgresql://u:secret%2@h/d'],
    ['postgresql://u:secret%zz@h/d'],
    ['postgresql://u:secret%00@h/d'],
    ['postgresql://u:secret%ff@h/d'],
    ['postgresql://u:p@secret@h/d'],
    ['postgresql://u:secret/x@h/d'],
    ['postgresql://[::1/d?password=secret'],
    ['postgresql://h1,h2,h3/d?port=1,2&password=secret'],
    ['postgresql://u:secret@h/d?sslmode=maybe'],
    ['postgresql://u:secret@h/d?sslmode=require&sslrootcert=system'],
    ['postgresql://u:secret@h/d?sslmode=prefer&sslnegotiation=direct'],
    ["host=h password='secret"],
    ["host=h password='secret' x"],
    ['host=a,b hostaddr=1.1.1.1 password=secret'],
    ['jdbc:mysql://h/d?password=secret'],
  ])('refuses %s without showing the password', (text) => {
    const attempt = () => parseSettings(text, nowhere);
    expect(attempt).toThrow(SafemigrateError);
    expect(attempt).toThrow(expect.objectContaining({ code: 'CONFIGURATION' }));
    expect(attempt).not.toThrow(/secret/);
  });
});

describe('what the text leaves out', () => {
  const env = { PGHOST: 'envhost', PGPORT: '6', PGUSER: 'envuser', PGPASSWORD: 'envpw', PGDATABASE: 'envdb' };

  test.each([
    [undefined, env, 'envuser/envpw@envhost|6/envdb prefer'],
    ['postgresql://u:p@h:1/d', env, 'u/p@h|1/d prefer'],
    ['postgresql://u@h:1/d', env, 'u/envpw@h|1/d prefer'],
    ['postgresql://u@h/d', env, 'u/envpw@h|6/d prefer'],
    ['postgresql://', env, 'envuser/envpw@envhost|6/envdb prefer'],
    [undefined, { PGUSER: 'u' }, 'u/@localhost|5432/u prefer'],
    [undefined, { PGHOST: '', PGDATABASE: 'd' }, 'me/@localhost|5432/d prefer'],
    [
      undefined,
      { PGSSLMODE: 'require', PGHOST: 'h', PGOPTIONS: '-c a=b' },
      'me/@h|5432/me require options=-c a=b',
    ],
    ['postgresql://h/d?sslmode=disable', { PGSSLMODE: 'require' }, 'me/@h|5432/d disable'],
    ['postgresql://h/d', { PGHOSTADDR: '10.0.0.1' }, 'me/@h|5432/d prefer'],
    [undefined, { PGHOSTADDR: '10.0.0.1' }, 'me/@10.0.0.1|5432/me prefer hostaddr=10.0.0.1'],
    [
      undefined,
      { PGHOST: 'a,b', PGPORT: '1,2', PGTARGETSESSIONATTRS: 'primary', PGCONNECT_TIMEOUT: '3' },
      'me/@a|1 b|2/me prefer connect_timeout=3 target_session_attrs=primary',
    ],
  ])('%s with %o', (text, variables, expected) => {
    expect(shorthand(text, around(variables))).toBe(expected);
  });

  test('is a socket where one of the usual folders has one, of the right port', () => {
    const files = { '/tmp/.s.PGSQL.5433': '', '/var/run/postgresql/.s.PGSQL.5432': '' };
    expect(shorthand('postgresql:///d', around({}, files))).toBe('me/@/var/run/postgresql|5432/d prefer');
    expect(shorthand('postgresql:///d?port=5433', around({}, files))).toBe('me/@/tmp|5433/d prefer');
    expect(shorthand('postgresql:///d?port=5434', around({}, files))).toBe('me/@localhost|5434/d prefer');
  });

  test('is the service, before the variables and behind the text', () => {
    const files = {
      '/home/me/.pg_service.conf':
        '# ours\n[other]\nhost=no\n[shop]\nhost=shophost\nport=7\nuser = su\ndbname=sd\n[z]\nhost=z\n',
    };
    const where = around({ PGSERVICE: 'shop', PGUSER: 'envuser', PGPASSWORD: 'pw' }, files);
    expect(shorthand(undefined, where)).toBe('su/pw@shophost|7/sd prefer');
    expect(shorthand('postgresql://u@h/d', where)).toBe('u/pw@h|7/d prefer');
    expect(shorthand('service=z dbname=d', around({}, files))).toBe('me/@z|5432/d prefer');
    expect(() => parseSettings('service=none', around({}, files))).toThrow(/no service "none"/);
  });

  test.each([
    ['h:5432:d:u:right', 'right'],
    ['*:*:*:*:any', 'any'],
    ['h:5432:d:other:no\nh:*:d:u:second', 'second'],
    ['# h:5432:d:u:comment\n\nh:5432:d:u:a\\:b\\\\c', 'a:b\\c'],
    ['h:5432:d:u:with:colons', 'with:colons'],
    ['h:5433:d:u:port', undefined],
    ['H:5432:d:u:case', undefined],
    ['h:5432:d', undefined],
  ])('is the password file: %s', (content, expected) => {
    const where = around({}, { '/home/me/.pgpass': content });
    expect(parseSettings('postgresql://u@h/d', where).password).toBe(expected);
  });

  test('is not a password file that others may read', () => {
    const where = around({}, { '/home/me/.pgpass': '*:*:*:*:pw' }, ['/home/me/.pgpass']);
    expect(parseSettings('postgresql://u@h/d', where).password).toBeUndefined();
  });

  test('is the password file named by PGPASSFILE, where a default socket is localhost', () => {
    const files = { '/secrets/pg': 'localhost:5432:d:u:pw' };
    const where = around({ PGPASSFILE: '/secrets/pg' }, files);
    expect(parseSettings('postgresql://u@/d?host=/tmp', where).password).toBe('pw');
  });
});

describe('written again', () => {
  test.each([
    ['postgresql://u:p%40%3A%2F@h:1/d%20x?options=-c%20a%3Db'],
    ['postgresql://u@[::1]:6/d'],
    ['postgresql://h1:1,h2:2/d?target_session_attrs=primary'],
    ['postgresql:///d?host=/tmp&port=5433'],
    ['postgresql://usér:pw€@h/dü?sslmode=verify-full'],
    ["host=h user='a b' password='it\\'s'"],
  ])('%s means the same', (text) => {
    const settings = parseSettings(text, nowhere);
    expect(parseSettings(formatUrl(settings), nowhere)).toEqual(settings);
  });

  test.each([
    ['postgresql://u:secret@h/d', 'postgresql://u:***@h/d'],
    ['postgresql://u:se@cret@h/d', 'postgresql://u:***@h/d'],
    ['postgresql://u:se/cret@h/d', 'postgresql://u:***@h/d'],
    ['postgresql://u@h/d', 'postgresql://u@h/d'],
    ['jdbc:postgresql://h/d?user=u&password=secret&x=1', 'jdbc:postgresql://h/d?user=u&password=***&x=1'],
    ["host=h password='it\\'s secret' user=u", 'host=h password=*** user=u'],
    ['host=h password=secret', 'host=h password=***'],
    ['mysql://root:secret@h/d', 'mysql://root:***@h/d'],
  ])('%s is shown as %s', (text, shown) => {
    expect(withoutPassword(text)).toBe(shown);
  });
});

test.each([
  ['postgres://h/d', true],
  ['postgresql+asyncpg://h/d', true],
  ['jdbc:postgresql://h/d', true],
  ['jdbc:postgresql:d', true],
  ['host=h dbname=d', true],
  ['dbname=d', true],
  ['mysql://h/d', false],
  ['pg:something', false],
  ['--opt=value', false],
  ['a=b', false],
  ['', false],
])('%s looks like a connection: %s', (text, expected) => {
  expect(looksLikeConnection(text)).toBe(expected);
});
