import { describe, expect, test } from 'vitest';
import { findLogins, planRoutes, type Route, rewriteCommand } from '../../../src/command/rewrite.ts';
import { type Compare, compareByText } from '../../../src/database/same-target.ts';
import type { ConnectionSettings } from '../../../src/postgres/connection/connection-settings.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import type { Environment } from '../../../src/postgres/connection/environment.ts';

type Env = Record<string, string>;

interface Case {
  url?: string;
  urlVariable?: string;
  env?: Env;
  argv?: string[];
  dotenv?: string;
  /** What the routes' entries are made of; the clone itself if absent. */
  databases?: string[];
  entry?: (settings: ConnectionSettings) => ConnectionSettings;
}

const TARGET = 'postgresql://app:secret@db.example:5433/shop';

function around(env: Env, dotenv?: string): Environment {
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

async function rewrite({
  url = TARGET,
  urlVariable = 'DATABASE_URL',
  env = {},
  argv = ['tool'],
  dotenv,
  entry,
  databases = [],
}: Case) {
  const target = parseSettings(url, around({}));
  const compare: Compare = async (settings) => {
    if (settings.hosts[0]?.host === 'unreachable')
      return { kind: 'undecided', reason: 'it could not be connected to' };
    if (settings.hosts[0]?.host === 'alias') return { kind: 'same' };
    return compareByText(settings, target) ?? { kind: 'other-server' };
  };
  const input = { argv, environment: around(env, dotenv), target, urlVariable, databases };
  const logins = await findLogins(input, compare);
  const clone = { ...target, database: 'shop_rehearsal_1' };
  const routes = planRoutes(logins.logins, { clone, sharesRoles: true }).map(
    (route): Route => (entry ? { ...route, entry: entry(route.upstream) } : route),
  );
  const result = rewriteCommand(input, logins, routes);
  const changed = Object.entries(result.env).filter(([name, value]) => env[name] !== value);
  return { ...result, changed: Object.fromEntries(changed), logins: logins.logins, routes };
}

const proxy = (settings: ConnectionSettings): ConnectionSettings => ({
  hosts: [{ host: '127.0.0.1', port: 40000 }],
  user: settings.user,
  password: 'entry',
  database: 'shop',
  sslmode: 'disable',
  parameters: {},
});

test('another database that the clone has as well is rewritten with its own name, and only this one', async () => {
  const env = {
    DATABASE_URL: TARGET,
    REPORTS_URL: 'postgresql://reader:r@db.example:5433/reports',
    AUDIT_URL: 'postgresql://me@db.example:5433/audit',
  };
  const { changed, undecided, logins } = await rewrite({ env, entry: proxy, databases: ['reports'] });
  expect(changed).toMatchObject({
    DATABASE_URL: expect.stringContaining('@127.0.0.1:40000/shop'),
    REPORTS_URL: expect.stringContaining('reader:entry@127.0.0.1:40000/reports'),
  });
  expect(undecided.map(({ name }) => name)).toEqual(['AUDIT_URL']);
  expect(logins).toContainEqual({ user: 'reader', password: 'r', database: 'shop' });
});

describe('a JDBC URL whose login stands apart', () => {
  const JDBC = 'jdbc:postgresql://db.example:5433/shop';
  const LED = 'jdbc:postgresql://127.0.0.1:40000/shop';

  test.each<[string, Env, string[], Env, string[]]>([
    [
      'in variables',
      { FLYWAY_URL: JDBC, FLYWAY_USER: 'app', FLYWAY_PASSWORD: 'secret' },
      ['flyway', 'migrate'],
      { FLYWAY_URL: LED, FLYWAY_PASSWORD: 'entry' },
      ['flyway', 'migrate'],
    ],
    [
      'in variables, and the password in a file of the tool’s',
      { LIQUIBASE_COMMAND_URL: JDBC, LIQUIBASE_COMMAND_USERNAME: 'app' },
      ['liquibase', 'update'],
      { LIQUIBASE_COMMAND_URL: LED, LIQUIBASE_COMMAND_PASSWORD: 'entry' },
      ['liquibase', 'update'],
    ],
    [
      'in variables whose prefix is JDBC_',
      { JDBC_URL: JDBC, JDBC_USER: 'app', JDBC_PASSWORD: 'secret', USER: 'root' },
      ['java', '-jar', 'migrate.jar'],
      { JDBC_URL: LED, JDBC_PASSWORD: 'entry' },
      ['java', '-jar', 'migrate.jar'],
    ],
    [
      'in variables without JDBC_ in their prefix',
      { DATASOURCE_JDBC_URL: JDBC, DATASOURCE_USERNAME: 'app', DATASOURCE_PASSWORD: 'secret' },
      ['java', '-jar', 'migrate.jar'],
      { DATASOURCE_JDBC_URL: LED, DATASOURCE_PASSWORD: 'entry' },
      ['java', '-jar', 'migrate.jar'],
    ],
    [
      'in arguments',
      {},
      ['flyway', `-url=${JDBC}`, '-user=app', '-password=secret', 'migrate'],
      {},
      ['flyway', `-url=${LED}`, '-user=app', '-password=entry', 'migrate'],
    ],
    [
      'in arguments of two words',
      {},
      ['liquibase', '--url', JDBC, '--username', 'app', '--password', 'secret', 'update'],
      {},
      ['liquibase', '--url', LED, '--username', 'app', '--password', 'entry', 'update'],
    ],
    [
      'in properties of Maven',
      {},
      ['mvn', 'flyway:migrate', `-Dflyway.url=${JDBC}`, '-Dflyway.user=app', '-Dflyway.password=secret'],
      {},
      ['mvn', 'flyway:migrate', `-Dflyway.url=${LED}`, '-Dflyway.user=app', '-Dflyway.password=entry'],
    ],
    [
      'in arguments, and the password in a variable',
      { FLYWAY_PASSWORD: 'secret' },
      ['flyway', `-url=${JDBC}`, '-user=app', 'migrate'],
      { FLYWAY_PASSWORD: 'entry' },
      ['flyway', `-url=${LED}`, '-user=app', 'migrate'],
    ],
    [
      'in a variable, and the password in an argument',
      { FLYWAY_URL: JDBC },
      ['flyway', '-user=app', '-password=secret', 'migrate'],
      { FLYWAY_URL: LED },
      ['flyway', '-user=app', '-password=entry', 'migrate'],
    ],
    [
      'in a file of the tool’s, and no password comes into the arguments',
      {},
      ['flyway', `-url=${JDBC}`, 'migrate'],
      { FLYWAY_USER: 'app', FLYWAY_PASSWORD: 'entry' },
      ['flyway', `-url=${LED}`, 'migrate'],
    ],
  ])('is led through the proxy: %s', async (_where, env, argv, led, ledArgv) => {
    const { changed, argv: words, logins } = await rewrite({ env, argv, entry: proxy });
    expect(changed).toMatchObject(led);
    const ours = Object.keys(changed).filter((name) => /^(FLYWAY|LIQUIBASE|JDBC|DATASOURCE)_/.test(name));
    expect(ours.sort()).toEqual(Object.keys(led).sort());
    expect(words).toEqual(ledArgv);
    expect(logins).toMatchObject([{ user: 'app', password: 'secret' }]);
  });
});

describe('a variable that holds a URL of the target', () => {
  test.each([
    [TARGET, 'postgresql://app:secret@db.example:5433/shop_rehearsal_1'],
    ['postgres://app:secret@db.example:5433/shop', 'postgres://app:secret@db.example:5433/shop_rehearsal_1'],
    ['postgres://app:secret@DB.example:5433/shop', 'postgres://app:secret@db.example:5433/shop_rehearsal_1'],
    [
      `${TARGET}?schema=public&connection_limit=1`,
      'postgresql://app:secret@db.example:5433/shop_rehearsal_1?schema=public&connection_limit=1',
    ],
    [
      `${TARGET}?sslmode=require&channel_binding=require`,
      'postgresql://app:secret@db.example:5433/shop_rehearsal_1?sslmode=require&channel_binding=require',
    ],
    [
      'postgresql+psycopg2://app:secret@db.example:5433/shop',
      'postgresql+psycopg2://app:secret@db.example:5433/shop_rehearsal_1',
    ],
    ['postgis://app:secret@db.example:5433/shop', 'postgis://app:secret@db.example:5433/shop_rehearsal_1'],
    [
      'jdbc:postgresql://db.example:5433/shop?user=app&password=secret',
      'jdbc:postgresql://db.example:5433/shop_rehearsal_1?user=app&password=secret',
    ],
    [
      'jdbc:postgresql://db.example:5433/shop?currentSchema=x',
      'jdbc:postgresql://db.example:5433/shop_rehearsal_1?currentSchema=x',
    ],
    [
      'host=db.example port=5433 dbname=shop user=app password=secret',
      'host=db.example port=5433 dbname=shop_rehearsal_1 user=app password=secret',
    ],
    [
      'postgresql://migrator:other@db.example:5433/shop',
      'postgresql://migrator:other@db.example:5433/shop_rehearsal_1',
    ],
    [
      'postgresql://migrator:p%40ss@db.example:5433/shop',
      'postgresql://migrator:p%40ss@db.example:5433/shop_rehearsal_1',
    ],
    [
      `{"db":"${TARGET}","log":true}`,
      '{"db":"postgresql://app:secret@db.example:5433/shop_rehearsal_1","log":true}',
    ],
  ])('%s', async (value, expected) => {
    const { env } = await rewrite({ env: { OTHER_URL: value } });
    expect(env.OTHER_URL).toBe(expected);
  });

  test.each([
    ['postgresql://app:secret@db.example:5433/other'],
    ['postgresql://app:secret@elsewhere:5433/shop'],
    ['postgresql://app:secret@db.example:5432/shop'],
    ['mysql://app:secret@db.example:5433/shop'],
    ['https://db.example:5433/shop'],
    ['shop'],
  ])('%s is left alone', async (value) => {
    const { env } = await rewrite({ env: { OTHER_URL: value } });
    expect(env.OTHER_URL).toBe(value);
  });

  test.each([
    [
      `${TARGET}?sslmode=require&channel_binding=require&schema=a`,
      'postgresql://app:entry@127.0.0.1:40000/shop?schema=a&sslmode=disable',
    ],
    [
      `${TARGET}?sslrootcert=/ca.pem&sslmode=verify-full`,
      'postgresql://app:entry@127.0.0.1:40000/shop?sslmode=disable',
    ],
    ['postgresql://m@db.example:5433/shop', 'postgresql://m:entry@127.0.0.1:40000/shop'],
    [
      'jdbc:postgresql://db.example:5433/shop?user=app&password=secret&ssl=true',
      'jdbc:postgresql://127.0.0.1:40000/shop?user=app&password=entry',
    ],
    [
      'host=db.example port=5433 dbname=shop sslmode=require',
      'host=127.0.0.1 port=40000 dbname=shop sslmode=disable user=me password=entry',
    ],
    ['postgresql://app:secret@alias/shop', 'postgresql://app:entry@127.0.0.1:40000/shop'],
    [`${TARGET}?sslmode=prefer`, 'postgresql://app:entry@127.0.0.1:40000/shop?sslmode=prefer'],
    [`${TARGET}?sslmode=no-verify&a=b`, 'postgresql://app:entry@127.0.0.1:40000/shop?a=b&sslmode=disable'],
    [
      'postgresql+asyncpg://app:secret@db.example:5433/shop?ssl=require',
      'postgresql+asyncpg://app:entry@127.0.0.1:40000/shop',
    ],
    [
      'postgresql+asyncpg://app:secret@db.example:5433/shop?ssl=disable',
      'postgresql+asyncpg://app:entry@127.0.0.1:40000/shop?ssl=disable',
    ],
    [
      'Host=db.example;Port=5433;Username=app;Password="sec;ret";Database=shop;SSL Mode=VerifyFull;Pooling=false',
      'Host=127.0.0.1;Port=40000;Username=app;Password=entry;Database=shop;SSL Mode=Disable;Pooling=false',
    ],
    [
      'Host=db.example;Port=5433;User Id=app;Database=shop;Trust Server Certificate=true',
      'Host=127.0.0.1;Port=40000;Username=app;Database=shop;Password=entry',
    ],
  ])('%s leads to a proxy without TLS', async (value, expected) => {
    const { env } = await rewrite({ env: { OTHER_URL: value }, entry: proxy });
    expect(env.OTHER_URL).toBe(expected);
  });

  test('by another name leads to the clone under the name that answered', async () => {
    const { env } = await rewrite({
      env: { OTHER_URL: 'postgresql://app:secret@alias:6432/shop?pgbouncer=true' },
    });
    expect(env.OTHER_URL).toBe('postgresql://app:secret@db.example:5433/shop_rehearsal_1?pgbouncer=true');
  });

  test('as a socket stays one', async () => {
    const { env, rewritten } = await rewrite({
      url: 'postgresql:///shop?host=/tmp',
      env: { A_URL: 'postgresql://localhost/shop?host=/tmp', B_URL: 'postgresql://127.0.0.1/shop' },
    });
    expect(env.A_URL).toBe('postgresql://me@localhost/shop_rehearsal_1?host=%2Ftmp');
    expect(env.B_URL).toBe('postgresql://me@/shop_rehearsal_1?host=%2Ftmp&port=5432');
    expect(rewritten).toEqual(expect.arrayContaining(['A_URL', 'B_URL']));
  });
});

describe("the target's own variable", () => {
  test('is set although the target came from a flag', async () => {
    const { env, rewritten, added } = await rewrite({});
    expect(env.DATABASE_URL).toBe('postgresql://app:secret@db.example:5433/shop_rehearsal_1');
    expect(rewritten).toEqual([]);
    expect(added).toEqual(['DATABASE_URL', 'PGDATABASE', 'PGHOST', 'PGPASSWORD', 'PGPORT', 'PGUSER']);
  });

  test('is set although it named something else', async () => {
    const { env } = await rewrite({ env: { DATABASE_URL: 'postgresql://app@other/thing' } });
    expect(env.DATABASE_URL).toBe('postgresql://app:secret@db.example:5433/shop_rehearsal_1');
  });

  test('has no parameter that the target does not need', async () => {
    const { env } = await rewrite({ entry: proxy, argv: ['tool', '{safemigrate:url}'] });
    expect((await rewrite({ entry: proxy })).env.DATABASE_URL).toBe(
      'postgresql://app:entry@127.0.0.1:40000/shop',
    );
    expect(env).not.toHaveProperty('DATABASE_URL');
  });

  test.each<[string, Env, string[]]>([
    [
      'split variables',
      { DATABASE_HOST: 'db.example', DATABASE_PORT: '5433', DATABASE_NAME: 'shop', DATABASE_PASSWORD: 'x' },
      [],
    ],
    ['another URL', { OTHER_URL: TARGET }, []],
    ["libpq's variables", { PGHOST: 'db.example', PGPORT: '5433', PGDATABASE: 'shop' }, []],
    ['an argument', {}, [TARGET]],
    ['a placeholder', {}, ['{safemigrate:jdbc-url}']],
  ])('is not added beside %s', async (_what, env, words) => {
    const { env: child, added } = await rewrite({ env, argv: ['tool', ...words], entry: proxy });
    expect(child).not.toHaveProperty('DATABASE_URL');
    expect(added).not.toContain('DATABASE_URL');
  });

  test('is added beside a name of a database that stands for no server', async () => {
    const { added } = await rewrite({ env: { POSTGRES_DB: 'shop', POSTGRES_USER: 'app' }, entry: proxy });
    expect(added).toContain('DATABASE_URL');
  });

  test('can have another name', async () => {
    const { env } = await rewrite({ urlVariable: 'MY_DB', env: { MY_DB: `${TARGET}?schema=x` } });
    expect(env.MY_DB).toBe('postgresql://app:secret@db.example:5433/shop_rehearsal_1?schema=x');
    expect(env.DATABASE_URL).toBeUndefined();
  });
});

describe('an argument', () => {
  test.each([
    [TARGET, 'postgresql://app:secret@db.example:5433/shop_rehearsal_1'],
    [`--url=${TARGET}`, '--url=postgresql://app:secret@db.example:5433/shop_rehearsal_1'],
    [
      `-url=jdbc:postgresql://db.example:5433/shop`,
      '-url=jdbc:postgresql://db.example:5433/shop_rehearsal_1',
    ],
    [`DATABASE_URL=${TARGET}`, 'DATABASE_URL=postgresql://app:secret@db.example:5433/shop_rehearsal_1'],
    ['host=db.example port=5433 dbname=shop', 'host=db.example port=5433 dbname=shop_rehearsal_1 user=me'],
    [
      '--conn=host=db.example port=5433 dbname=shop user=u',
      '--conn=host=db.example port=5433 dbname=shop_rehearsal_1 user=u',
    ],
    [
      `psql '${TARGET}' -c 'select 1'; psql ${TARGET}`,
      "psql 'postgresql://app:secret@db.example:5433/shop_rehearsal_1' -c 'select 1'; psql postgresql://app:secret@db.example:5433/shop_rehearsal_1",
    ],
    [`${TARGET} ${TARGET}2`, `postgresql://app:secret@db.example:5433/shop_rehearsal_1 ${TARGET}2`],
    ['{safemigrate:database}', 'shop_rehearsal_1'],
    ['-h{safemigrate:host}:{safemigrate:port}', '-hdb.example:5433'],
    ['--user={safemigrate:user} {safemigrate:password}', '--user=app secret'],
    ['{safemigrate:url}', 'postgresql://app:secret@db.example:5433/shop_rehearsal_1'],
    [
      '-url={safemigrate:jdbc-url}',
      '-url=jdbc:postgresql://db.example:5433/shop_rehearsal_1?user=app&password=secret',
    ],
  ])('%s', async (argument, expected) => {
    const { argv, rewritten } = await rewrite({ argv: ['tool', 'up', argument] });
    expect(argv).toEqual(['tool', 'up', expected]);
    expect(rewritten).toContain('argument 2');
  });

  test.each([
    ['{url}'],
    ['{safemigrate:nonsense}'],
    ['--set={"a":1}'],
    ['shopping'],
    ['select 1 where a = b'],
  ])('%s stays', async (argument) => {
    const { argv, rewritten } = await rewrite({ argv: ['tool', argument] });
    expect(argv).toEqual(['tool', argument]);
    expect(rewritten).not.toContain('argument 1');
  });

  test('never gets a password that was not in it', async () => {
    const { argv, env } = await rewrite({
      argv: ['psql', 'postgresql://app@db.example:5433/shop'],
      entry: proxy,
    });
    expect(env.PGPASSWORD).toBe('entry');
    expect(argv[1]).toBe('postgresql://app@127.0.0.1:40000/shop');
  });

  test.each([['shop'], ['--dbname=shop'], ['-dshop']])('%s may mean the target', async (argument) => {
    const { undecided } = await rewrite({ argv: ['psql', argument] });
    expect(undecided).toEqual([
      { name: 'argument 1', reason: expect.stringContaining('{safemigrate:database}') },
    ]);
  });

  test('is not the program itself', async () => {
    const { argv, undecided } = await rewrite({ argv: ['shop'] });
    expect([argv, undecided]).toEqual([['shop'], []]);
  });
});

describe("libpq's variables", () => {
  const all = { PGHOST: 'db.example', PGPORT: '5433', PGUSER: 'app', PGPASSWORD: 'secret' };

  test('are set where there were none', async () => {
    const { changed } = await rewrite({});
    expect(changed).toMatchObject({ ...all, PGDATABASE: 'shop_rehearsal_1' });
  });

  test('carry what the URL says about TLS', async () => {
    const { changed } = await rewrite({ url: `${TARGET}?sslmode=verify-full&sslrootcert=/ca.pem` });
    expect(changed).toMatchObject({ PGSSLMODE: 'verify-full', PGSSLROOTCERT: '/ca.pem' });
  });

  test('are changed where they name the target', async () => {
    const { changed, rewritten, added } = await rewrite({ env: { ...all, PGDATABASE: 'shop' } });
    expect(changed).toEqual({ PGDATABASE: 'shop_rehearsal_1' });
    expect([rewritten, added]).toEqual([['PGDATABASE'], []]);
  });

  test('are not added beside another name of the target, but for TLS', async () => {
    const { added } = await rewrite({ env: { DATABASE_URL: TARGET }, entry: proxy });
    expect(added).toEqual(['PGSSLMODE']);
  });

  test('of the login are led along where a URL is the place', async () => {
    const env = { DATABASE_URL: 'postgresql://db.example:5433/shop', PGUSER: 'app', PGPASSWORD: 'secret' };
    const { changed } = await rewrite({ env, entry: proxy });
    expect(changed).toMatchObject({ PGPASSWORD: 'entry', PGSSLMODE: 'disable' });
    expect(changed).not.toHaveProperty('PGHOST');
  });

  test('are changed where they name only the server', async () => {
    const { changed } = await rewrite({ env: all });
    expect(changed.PGDATABASE).toBe('shop_rehearsal_1');
  });

  test('lead to a proxy without TLS', async () => {
    const env = {
      ...all,
      PGDATABASE: 'shop',
      PGSSLMODE: 'require',
      PGCHANNELBINDING: 'require',
      PGHOSTADDR: '10.0.0.1',
    };
    const { env: child } = await rewrite({ env, entry: proxy });
    expect(child).toMatchObject({
      PGHOST: '127.0.0.1',
      PGPORT: '40000',
      PGDATABASE: 'shop',
      PGSSLMODE: 'disable',
    });
    expect(child).not.toHaveProperty('PGCHANNELBINDING');
    expect(child).not.toHaveProperty('PGHOSTADDR');
  });

  test('that name the server and no database are led to the clone under the name of the target', async () => {
    const { changed, logins } = await rewrite({ env: { ...all, DATABASE_URL: TARGET } });
    expect(logins).toEqual([{ user: 'app', password: 'secret', database: 'shop' }]);
    expect(changed).toEqual({
      PGDATABASE: 'shop_rehearsal_1',
      DATABASE_URL: 'postgresql://app:secret@db.example:5433/shop_rehearsal_1',
    });
  });

  test('are left where they name another database', async () => {
    const { changed, undecided } = await rewrite({ env: { ...all, PGDATABASE: 'other' } });
    expect(Object.keys(changed)).toEqual(['DATABASE_URL']);
    expect(undecided).toEqual([
      { name: 'PG* variables', reason: 'names another database on the same server' },
    ]);
  });

  test('are left where they name another server', async () => {
    const { changed, undecided } = await rewrite({ env: { PGHOST: 'elsewhere', PGDATABASE: 'shop' } });
    expect([Object.keys(changed), undecided]).toEqual([['DATABASE_URL'], []]);
  });

  test('are left, and reported, where they cannot be read', async () => {
    const { changed, undecided } = await rewrite({ env: { PGSERVICE: 'missing' } });
    expect(Object.keys(changed)).toEqual(['DATABASE_URL']);
    expect(undecided).toEqual([{ name: 'PG* variables', reason: expect.stringContaining('"missing"') }]);
  });

  test('keep the options that the user gave', async () => {
    const { env } = await rewrite({ url: `${TARGET}?options=-c%20a%3Db`, env: { PGOPTIONS: '-c c=d' } });
    expect(env.PGOPTIONS).toBe('-c c=d');
  });
});

describe('variables that hold the parts of a connection', () => {
  test.each<[Env, Env]>([
    [
      { DB_HOST: 'db.example', DB_PORT: '5433', DB_NAME: 'shop', DB_USER: 'app', DB_PASSWORD: 'secret' },
      { DB_NAME: 'shop_rehearsal_1' },
    ],
    [
      { DB_HOST: 'db.example', DB_PORT: '5433', DB_DATABASE: 'shop', DB_USERNAME: 'app' },
      { DB_DATABASE: 'shop_rehearsal_1' },
    ],
    [
      { POSTGRES_HOST: 'db.example', POSTGRES_PORT: '5433', POSTGRES_DB: 'shop', POSTGRES_USER: 'app' },
      { POSTGRES_DB: 'shop_rehearsal_1' },
    ],
    [{ POSTGRES_DB: 'shop', POSTGRES_USER: 'app' }, { POSTGRES_DB: 'shop_rehearsal_1' }],
    [
      { APP_DB_HOST: 'db.example', APP_DB_PORT: '5433', APP_DB_NAME: 'shop' },
      { APP_DB_NAME: 'shop_rehearsal_1' },
    ],
    [
      { TYPEORM_HOST: 'db.example', TYPEORM_PORT: '5433', TYPEORM_DATABASE: 'shop', TYPEORM_USERNAME: 'app' },
      { TYPEORM_DATABASE: 'shop_rehearsal_1' },
    ],
    [
      { DATABASE_HOST: 'db.example', DATABASE_PORT: '5433', DATABASE_NAME: 'shop' },
      { DATABASE_NAME: 'shop_rehearsal_1' },
    ],
    [{ DB_HOST: 'db.example', DB_NAME: 'shop' }, {}],
    [{ DB_HOST: 'elsewhere', DB_PORT: '5433', DB_NAME: 'shop' }, {}],
    [{ DB_NAME: 'shop' }, {}],
    [{ HOST: 'db.example', PORT: '5433', NAME: 'shop', USER: 'app' }, {}],
  ])('%o', async (env, expected) => {
    const { changed } = await rewrite({ env });
    const own = Object.entries(changed).filter(([name]) => name in env);
    expect(Object.fromEntries(own)).toEqual(expected);
  });

  test('lead to a proxy', async () => {
    const env = {
      DB_HOST: 'db.example',
      DB_PORT: '5433',
      DB_NAME: 'shop',
      DB_PASSWORD: 'secret',
      DB_SSL: 'true',
    };
    const { env: child } = await rewrite({ env, entry: proxy });
    expect(child).toMatchObject({
      DB_HOST: '127.0.0.1',
      DB_PORT: '40000',
      DB_NAME: 'shop',
      DB_PASSWORD: 'entry',
      DB_SSL: 'false',
    });
  });

  test('get a port where they had none', async () => {
    const env = { DB_HOST: 'db.example', DB_NAME: 'shop' };
    const { env: child } = await rewrite({ url: 'postgresql://app@db.example/shop', env, entry: proxy });
    expect(child).toMatchObject({ DB_HOST: '127.0.0.1', DB_PORT: '40000' });
  });

  test('beside a JDBC URL are its login', async () => {
    const env = {
      SPRING_DATASOURCE_URL: 'jdbc:postgresql://db.example:5433/shop',
      SPRING_DATASOURCE_USERNAME: 'spring',
      SPRING_DATASOURCE_PASSWORD: 'pw',
    };
    const { logins, env: child } = await rewrite({ env, entry: proxy });
    expect(logins).toContainEqual({ user: 'spring', password: 'pw', database: 'shop' });
    expect(child).toMatchObject({
      SPRING_DATASOURCE_URL: 'jdbc:postgresql://127.0.0.1:40000/shop',
      SPRING_DATASOURCE_PASSWORD: 'entry',
    });
  });
});

describe('the file .env', () => {
  test('is overruled by the environment of the child', async () => {
    const dotenv = `DATABASE_URL=${TARGET}\nDIRECT_URL=${TARGET}\nSHADOW_DATABASE_URL=postgresql://app:x@db.example:5433/shadow\nKEEP=1\n`;
    const { changed, rewritten, undecided } = await rewrite({ dotenv });
    const clone = 'postgresql://app:secret@db.example:5433/shop_rehearsal_1';
    expect(changed).toMatchObject({ DATABASE_URL: clone, DIRECT_URL: clone });
    expect(changed).not.toHaveProperty('KEEP');
    expect(rewritten).toEqual(expect.arrayContaining(['DATABASE_URL (from .env)', 'DIRECT_URL (from .env)']));
    expect(undecided).toEqual([
      { name: 'SHADOW_DATABASE_URL (from .env)', reason: 'names another database on the same server' },
    ]);
  });

  test('does not overrule the environment itself', async () => {
    const { changed } = await rewrite({
      env: { A_URL: 'postgresql://elsewhere/x' },
      dotenv: `A_URL=${TARGET}`,
    });
    expect(changed).not.toHaveProperty('A_URL');
  });

  test('may hold the parts of a connection', async () => {
    const dotenv = 'DB_HOST=db.example\nDB_PORT=5433\nDB_DATABASE=shop\nDB_USERNAME=app\n';
    const { changed, rewritten } = await rewrite({ dotenv });
    expect(changed).toMatchObject({ DB_DATABASE: 'shop_rehearsal_1' });
    expect(rewritten).toContain('DB_DATABASE (from .env)');
    expect(rewritten).not.toContain('DB_HOST (from .env)');
  });
});

test('there is one route for each user that names the target', async () => {
  const { routes } = await rewrite({
    env: {
      A_URL: 'postgresql://migrator:m@db.example:5433/shop',
      B_URL: 'postgresql://app:secret@db.example:5433/shop',
      C_URL: 'postgresql://elsewhere:x@elsewhere/shop',
    },
  });
  expect(
    routes.map(({ user, database, upstream }) => [
      user,
      database,
      upstream.user,
      upstream.password,
      upstream.database,
    ]),
  ).toEqual([
    ['app', 'shop', 'app', 'secret', 'shop_rehearsal_1'],
    ['migrator', 'shop', 'migrator', 'm', 'shop_rehearsal_1'],
  ]);
});

test('what cannot be decided is reported with its reason, and never with a password', async () => {
  const { undecided } = await rewrite({
    env: { A_URL: 'postgresql://u:secret@unreachable/shop', B_URL: 'postgresql://u:secret@h:port/shop' },
  });
  expect(undecided).toEqual([
    { name: 'B_URL', reason: 'it looks like a connection to PostgreSQL, but cannot be read as one' },
    { name: 'A_URL', reason: 'it could not be connected to' },
  ]);
});
