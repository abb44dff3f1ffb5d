/** One way to be configured: what the project has, what its owner runs, and what is run instead if that cannot be rehearsed. */
export interface Configuration {
  readonly name: string;
  /** Contents by path, in which words in braces stand for parts of the target's connection. */
  readonly files?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  /** Folder in which it is run, relative to the project. */
  readonly folder?: string;
  readonly command: readonly string[];
  /** The same command by the advice of the first run; without it the first run rehearses. */
  readonly advised?: readonly string[];
}

const SPLIT_ENV =
  'DB_HOST={host}\nDB_PORT={port}\nDB_USER={user}\nDB_PASSWORD={password}\nDB_NAME={database}\n';
const URL_ENV = 'DATABASE_URL="{url}"\n';
const LIBPQ = 'host={host} port={port} user={user} password={password} dbname={database}';
const NPGSQL = 'Host={host};Port={port};Username={user};Password={password};Database={database}';
const PSQL = 'psql -X -q -v ON_ERROR_STOP=1';
const SQL = 'CREATE TABLE made (id int)';

const app = (...words: string[]) => ['node', '{project}/app.mjs', ...words];
const python = (...words: string[]) => ['{python}', '{project}/app.py', ...words];
const tool = (name: string, ...words: string[]) => [`{project}/node_modules/.bin/${name}`, ...words];
const copy = (file: string) => `{safemigrate:config ${file}}`;

/** A command that reads this file, which its owner can name. */
function fromFile(
  name: string,
  file: string,
  text: string,
  command: (file: string) => string[],
  more: Partial<Configuration> = {},
): Configuration {
  return {
    name,
    files: { [file]: text },
    command: command(file),
    advised: command(copy(file)),
    ...more,
  };
}

const HARD_CODED = `import pg from 'pg';
const client = new pg.Client({ host: '{host}', port: {port}, user: '{user}', password: '{password}', database: '{database}' });
await client.connect();
await client.query('${SQL}');
await client.end();
`;

const IN_ENVIRONMENT: readonly Configuration[] = [
  { name: 'DATABASE_URL', env: { DATABASE_URL: '{url}' }, command: app('variable', 'DATABASE_URL') },
  {
    name: 'DATABASE_URL with sslmode and a name of the session',
    env: { DATABASE_URL: '{url}?sslmode=disable&application_name=x' },
    command: app('variable', 'DATABASE_URL'),
  },
  {
    name: 'a variable of another name',
    env: { POSTGRES_URL_NON_POOLING: '{url}' },
    command: app('variable', 'POSTGRES_URL_NON_POOLING'),
  },
  { name: 'no variable but the one that safemigrate offers', command: app('variable', 'DATABASE_URL') },
  {
    name: 'split variables',
    env: {
      DB_HOST: '{host}',
      DB_PORT: '{port}',
      DB_USER: '{user}',
      DB_PASSWORD: '{password}',
      DB_NAME: '{database}',
    },
    command: app('split', 'DB_'),
  },
  {
    name: 'PG* variables',
    env: {
      PGHOST: '{host}',
      PGPORT: '{port}',
      PGUSER: '{user}',
      PGPASSWORD: '{password}',
      PGDATABASE: '{database}',
    },
    command: ['sh', '-c', `${PSQL} -c '${SQL}'`],
  },
  {
    name: 'PGSERVICE',
    files: {
      'services.conf':
        '[shop]\nhost={host}\nport={port}\nuser={user}\npassword={password}\ndbname={database}\n',
    },
    env: { PGSERVICE: 'shop', PGSERVICEFILE: '{project}/services.conf' },
    command: ['sh', '-c', `${PSQL} -c '${SQL}'`],
  },
  {
    name: 'a keyword string in a variable',
    env: { DSN: LIBPQ },
    command: ['sh', '-c', `${PSQL} "$DSN" -c '${SQL}'`],
  },
  {
    name: "Npgsql's keywords in a variable",
    env: { ConnectionStrings__Default: NPGSQL },
    command: app('npgsql', 'ConnectionStrings__Default'),
  },
  { name: 'JSON in a variable', env: { CONFIG: '{"db":"{url}"}' }, command: app('jsonVariable', 'CONFIG') },
  { name: 'a URL in an argument', command: app('argument', '{url}') },
  { name: 'a URL behind an option', command: app('argument', '--url={url}') },
  { name: 'a keyword string in an argument', command: ['psql', '-X', '-q', LIBPQ, '-c', SQL] },
  { name: 'a URL in a script', command: ['sh', '-c', `${PSQL} '{url}?application_name=x' -c '${SQL}'`] },
  { name: 'a placeholder', command: app('argument', '{safemigrate:url}') },
  {
    name: 'placeholders of the parts',
    command: [
      ...['psql', '-X', '-q', '-h', '{safemigrate:host}', '-p', '{safemigrate:port}'],
      ...['-d', '{safemigrate:database}', '-U', '{safemigrate:user}', '-c', SQL],
    ],
  },
];

const IN_DOTENV: readonly Configuration[] = [
  { name: '.env by dotenv', files: { '.env': URL_ENV }, command: app('dotenv', '.env', 'DATABASE_URL') },
  { name: '.env with split variables', files: { '.env': SPLIT_ENV }, command: app('dotenv', '.env', 'DB_') },
  { name: '.env by python-dotenv', files: { '.env': URL_ENV }, command: python('dotenv', '.env') },
  { name: '.env by godotenv', files: { '.env': URL_ENV, 'schema.sql': SQL }, command: ['{go}', 'pgx'] },
  {
    name: '.env by dotenv-expand',
    files: {
      '.env': `${SPLIT_ENV}DATABASE_URL=postgresql://$DB_USER:$DB_PASSWORD@$DB_HOST:$DB_PORT/$DB_NAME\n`,
    },
    command: app('expand', '.env', 'DATABASE_URL'),
  },
  {
    name: '.env by dotenv-cli',
    files: { '.env': URL_ENV },
    command: tool('dotenv', '--', ...app('variable', 'DATABASE_URL')),
  },
  {
    name: '.env by dotenvx',
    files: { '.env': URL_ENV },
    command: tool('dotenvx', 'run', '-q', '--', ...app('variable', 'DATABASE_URL')),
  },
  fromFile('.env by dotenv with override', '.env', URL_ENV, (file) =>
    app('dotenv', file, 'DATABASE_URL', 'override'),
  ),
  fromFile('.env by dotenvx with --overload', '.env', URL_ENV, (file) =>
    tool('dotenvx', 'run', '-q', '--overload', '-f', file, '--', ...app('variable', 'DATABASE_URL')),
  ),
  fromFile('.env by dotenv-cli with -o', '.env', URL_ENV, (file) =>
    tool('dotenv', '-o', '-e', file, '--', ...app('variable', 'DATABASE_URL')),
  ),
  fromFile('.env by python-dotenv with override', '.env', URL_ENV, (file) =>
    python('dotenv', file, 'override'),
  ),
  fromFile('.env sourced by a script', '.env', URL_ENV, (file) => [
    ...[
      'sh',
      '-c',
      `set -a; . "$1"; exec node {project}/app.mjs variable DATABASE_URL`,
      'sh',
      file.replace(/^\.env/, './.env'),
    ],
  ]),
  fromFile('.env.local', '.env.local', URL_ENV.replace('DATABASE_URL', 'POSTGRES_URL'), (file) =>
    app('dotenv', file, 'POSTGRES_URL'),
  ),
  {
    name: '../../.env of a monorepo',
    files: { '.env': URL_ENV.replace('DATABASE_URL', 'POSTGRES_URL'), 'packages/db/package.json': '{}' },
    folder: 'packages/db',
    command: app('dotenv', '../../.env', 'POSTGRES_URL'),
    advised: app('dotenv', copy('../../.env'), 'POSTGRES_URL'),
  },
];

const IN_FILES: readonly Configuration[] = [
  fromFile(
    'homeserver.yaml',
    'homeserver.yaml',
    'listeners:\n  - port: 8008\ndatabase:\n  name: psycopg2\n  args:\n    user: {user}\n    password: "{password}"\n    dbname: {database}\n    host: {host}\n    port: {port}\n    cp_min: 5\n',
    (file) => python('yaml', file),
  ),
  fromFile(
    'config.toml',
    'config.toml',
    '[app]\naddress = "localhost:9000"\n\n[db]\nhost = "{host}"\nport = {port}\nuser = "{user}"\npassword = "{password}"\ndatabase = "{database}"\nssl_mode = "disable"\n',
    (file) => python('toml', file),
  ),
  fromFile(
    'app.ini',
    'conf/app.ini',
    '[server]\nHTTP_PORT = 3000\n\n[database]\nDB_TYPE = postgres\nHOST = {host}:{port}\nNAME = {database}\nUSER = {user}\nPASSWD = `{password}`\nSSL_MODE = disable\n',
    (file) => python('ini', file),
  ),
  fromFile(
    'alembic.ini',
    'alembic.ini',
    '[alembic]\nscript_location = %(here)s/migrations\nsqlalchemy.url = postgresql+psycopg2://{user}:{password}@{host}:{port}/{database}\n',
    (file) => python('alembic', file),
    {
      files: {
        'alembic.ini':
          '[alembic]\nscript_location = %(here)s/migrations\nsqlalchemy.url = postgresql+psycopg2://{user}:{password}@{host}:{port}/{database}\n',
        'migrations/env.py': '',
      },
    },
  ),
  fromFile(
    'database.yml',
    'config/database.yml',
    'default: &default\n  adapter: postgresql\n  host: {host}\n  port: {port}\n  username: {user}\n  password: "{password}"\nproduction:\n  <<: *default\n  database: {database}\n',
    (file) => ['ruby', '{project}/app.rb', file],
  ),
  fromFile(
    'ormconfig.json',
    'ormconfig.json',
    '{\n  "type": "postgres",\n  "host": "{host}",\n  "port": {port},\n  "username": "{user}",\n  "password": "{password}",\n  "database": "{database}"\n}\n',
    (file) => app('json', file),
  ),
  fromFile(
    'appsettings.json',
    'appsettings.json',
    `{"ConnectionStrings": {"Default": "${NPGSQL}"}}`,
    (file) => app('json', file),
  ),
  fromFile(
    'application.properties',
    'application.properties',
    'server.port=8080\nspring.datasource.url=jdbc:postgresql://{host}:{port}/{database}\nspring.datasource.username={user}\nspring.datasource.password={password}',
    (file) => app('properties', file),
  ),
  {
    name: 'settings.py with an import of what lies beside it',
    files: {
      'shop/base.py': "NAME = '{database}'\n",
      'shop/settings.py':
        "from base import NAME\nDATABASES = {\n    'default': {'NAME': '{database}', 'USER': '{user}', 'PASSWORD': '{password}', 'HOST': '{host}', 'PORT': '{port}'},\n}\nassert NAME == '{database}'\n",
    },
    command: python('settings', 'shop/settings.py'),
    advised: python('settings', copy('shop/settings.py')),
  },
  {
    name: 'a module of JavaScript that imports another',
    files: {
      'config/defaults.mjs': 'export const port = {port};\n',
      'config/db.mjs':
        "import { port as known } from './defaults.mjs';\nexport default { host: '{host}', port: {port}, user: '{user}', password: '{password}', database: '{database}', query_timeout: known };\n",
    },
    command: app('module', 'config/db.mjs'),
    advised: app('module', copy('config/db.mjs')),
  },
  {
    name: 'knexfile.js with a URL, by Knex',
    files: {
      'db/package.json': '{"type": "commonjs"}',
      'db/knexfile.js':
        "module.exports = { client: 'pg', connection: '{url}', migrations: { directory: './migrations' } };\n",
      'db/migrations/1_made.js':
        "exports.up = (knex) => knex.schema.createTable('made', (table) => table.integer('id'));\nexports.down = () => {};\n",
    },
    command: tool('knex', 'migrate:latest', '--knexfile', 'db/knexfile.js'),
    advised: tool('knex', 'migrate:latest', '--knexfile', copy('db/knexfile.js')),
  },
  fromFile('values in the program itself', 'migrate.mjs', HARD_CODED, (file) => ['node', file]),
  fromFile(
    'a keyword string in a program of Python',
    'migrate.py',
    `import psycopg2\nconnection = psycopg2.connect("${LIBPQ}")\nwith connection, connection.cursor() as cursor:\n    cursor.execute("${SQL}")\n`,
    (file) => ['{python}', file],
  ),
];

export const CONFIGURATIONS: readonly Configuration[] = [...IN_ENVIRONMENT, ...IN_DOTENV, ...IN_FILES];
