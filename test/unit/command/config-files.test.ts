import { describe, expect, test } from 'vitest';
import { findLogins, planRoutes, rewriteCommand } from '../../../src/command/rewrite.ts';
import { compareByText } from '../../../src/database/same-target.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import type { Environment } from '../../../src/postgres/connection/environment.ts';

const TARGET = 'postgresql://app:se%40cret@db.example:5433/shop';
const LED = 'postgresql://app:entry@127.0.0.1:40000/shop';

function around(files: Record<string, string>): Environment {
  return {
    env: {},
    folder: '/project',
    home: '/home/me',
    user: 'me',
    readFile: (path) => files[path],
    isPrivate: () => false,
    exists: () => false,
  };
}

async function copyOf(file: string, text: string, url = TARGET) {
  const target = parseSettings(url, around({}));
  const environment = around({ [`/project/${file}`]: text });
  const argv = ['tool', '-c', `{safemigrate:config ${file}}`];
  const input = { argv, environment, target, urlVariable: 'DATABASE_URL', databases: [] };
  const logins = await findLogins(
    input,
    async (settings) => compareByText(settings, target) ?? { kind: 'other-server' },
  );
  const routes = planRoutes(logins.logins, { clone: target, sharesRoles: true }).map((route) => ({
    ...route,
    entry: {
      hosts: [{ host: '127.0.0.1', port: 40000 }],
      user: route.user,
      password: 'entry',
      database: 'shop',
      sslmode: 'disable' as const,
      parameters: {},
    },
  }));
  const { copies, ...rest } = rewriteCommand(input, logins, routes);
  return { ...rest, text: copies[0]?.text, users: logins.logins.map(({ user }) => user) };
}

describe('the copy of a configuration file', () => {
  test.each<[file: string, text: string, copy: string]>([
    [
      'alembic.ini',
      '[alembic]\nscript_location = migrations\nsqlalchemy.url = postgresql+psycopg://app:se%%40cret@db.example:5433/shop\n',
      '[alembic]\nscript_location = migrations\nsqlalchemy.url = postgresql+psycopg://app:entry@127.0.0.1:40000/shop\n',
    ],
    [
      'config.toml',
      '[app]\naddress = "localhost:9000"\n[db]\nhost = "db.example"\nport = 5433\nuser = "app"\npassword = "se@cret"\ndatabase = "shop"\nssl_mode = "require"\n[redis]\nhost = "redis"\nport = 6379\n',
      '[app]\naddress = "localhost:9000"\n[db]\nhost = "127.0.0.1"\nport = 40000\nuser = "app"\npassword = "entry"\ndatabase = "shop"\nssl_mode = "disable"\n[redis]\nhost = "redis"\nport = 6379\n',
    ],
    [
      'app.ini',
      '[server]\nHTTP_PORT = 3000\n[database]\nDB_TYPE = postgres\nHOST = db.example:5433\nNAME = shop\nUSER = app\nPASSWD = `se#cret`\nSSL_MODE = disable\n',
      '[server]\nHTTP_PORT = 3000\n[database]\nDB_TYPE = postgres\nHOST = 127.0.0.1:40000\nNAME = shop\nUSER = app\nPASSWD = `entry`\nSSL_MODE = disable\n',
    ],
    [
      'homeserver.yaml',
      'listeners:\n  - port: 8008\n    type: http\ndatabase:\n  name: psycopg2\n  args:\n    user: app\n    password: se@cret # of the app\n    dbname: shop\n    host: db.example\n    port: 5433\n    cp_min: 5\n',
      'listeners:\n  - port: 8008\n    type: http\ndatabase:\n  name: psycopg2\n  args:\n    user: app\n    password: entry # of the app\n    dbname: shop\n    host: 127.0.0.1\n    port: 40000\n    cp_min: 5\n',
    ],
    [
      'database.yml',
      'default: &default\n  adapter: postgresql\n  host: db.example\n  port: 5433\n  username: app\n  password: "se@cret"\nproduction:\n  <<: *default\n  database: shop\n',
      'default: &default\n  adapter: postgresql\n  host: 127.0.0.1\n  port: 40000\n  username: app\n  password: "entry"\nproduction:\n  <<: *default\n  database: shop\n',
    ],
    [
      'flow.yaml',
      'db: {host: db.example, port: 5433, user: app, password: x, database: shop}\n',
      'db: {host: 127.0.0.1, port: 40000, user: app, password: entry, database: shop}\n',
    ],
    [
      'knexfile.js',
      `module.exports = { client: 'pg', connection: '${TARGET}', migrations: { directory: './migrations' } };\n`,
      `module.exports = { client: 'pg', connection: '${LED}', migrations: { directory: './migrations' } };\n`,
    ],
    [
      'data-source.ts',
      "// at db.example:5433\nexport default new DataSource({ type: 'postgres', host: process.env.DB_HOST ?? 'db.example', port: 5433, username: 'app', password: 'se@cret', database: 'shop', ssl: { rejectUnauthorized: false } });\n",
      "// at db.example:5433\nexport default new DataSource({ type: 'postgres', host: process.env.DB_HOST ?? '127.0.0.1', port: 40000, username: 'app', password: 'entry', database: 'shop', ssl: false });\n",
    ],
    [
      'settings.py',
      "DATABASES = {\n    'default': {\n        'ENGINE': 'django.db.backends.postgresql',\n        'NAME': 'shop',\n        'USER': 'app',\n        'PASSWORD': 'it\\'s',\n        'HOST': 'db.example',\n        'PORT': '5433',\n        'OPTIONS': {'sslmode': 'require'},\n    },\n    'reports': {'NAME': 'reports', 'HOST': 'other', 'PORT': 5432, 'USER': 'app'},\n}\nCACHE = {'HOST': 'cache', 'PORT': 6379}\n",
      "DATABASES = {\n    'default': {\n        'ENGINE': 'django.db.backends.postgresql',\n        'NAME': 'shop',\n        'USER': 'app',\n        'PASSWORD': 'entry',\n        'HOST': '127.0.0.1',\n        'PORT': '40000',\n        'OPTIONS': {'sslmode': 'disable'},\n    },\n    'reports': {'NAME': 'reports', 'HOST': 'other', 'PORT': 5432, 'USER': 'app'},\n}\nCACHE = {'HOST': 'cache', 'PORT': 6379}\n",
    ],
    [
      'connect.py',
      'conn = psycopg2.connect("host=db.example port=5433 dbname=shop user=app password=x")\n',
      'conn = psycopg2.connect("host=127.0.0.1 port=40000 dbname=shop user=app password=entry")\n',
    ],
    [
      'arguments.py',
      'conn = psycopg2.connect(host="db.example", port=5433, dbname="shop", user="app", password="x")\n',
      'conn = psycopg2.connect(host="127.0.0.1", port=40000, dbname="shop", user="app", password="entry")\n',
    ],
    [
      'appsettings.json',
      '{"ConnectionStrings": {"Default": "Host=db.example;Port=5433;Username=app;Password=x;Database=shop"}, "Smtp": {"Host": "mail", "Port": 25}}',
      '{"ConnectionStrings": {"Default": "Host=127.0.0.1;Port=40000;Username=app;Password=entry;Database=shop"}, "Smtp": {"Host": "mail", "Port": 25}}',
    ],
    [
      'application.properties',
      'server.port=8080\nspring.datasource.url=jdbc:postgresql://db.example:5433/shop\nspring.datasource.username=app\nspring.datasource.password=x\n',
      'server.port=8080\nspring.datasource.url=jdbc:postgresql://127.0.0.1:40000/shop\nspring.datasource.username=app\nspring.datasource.password=entry\n',
    ],
    [
      'production.env',
      'PORT=3000\nexport DB_HOST=db.example\nDB_PORT=5433\nDB_DATABASE=shop\nDB_USERNAME=app\nDB_PASSWORD="se@cret"\n',
      'PORT=3000\nexport DB_HOST=127.0.0.1\nDB_PORT=40000\nDB_DATABASE=shop\nDB_USERNAME=app\nDB_PASSWORD="entry"\n',
    ],
    [
      'ormconfig.json',
      '{\n  "type": "postgres",\n  "host": "db.example",\n  "port": 5433,\n  "username": "app",\n  "password": "x",\n  "database": "shop"\n}\n',
      '{\n  "type": "postgres",\n  "host": "127.0.0.1",\n  "port": 40000,\n  "username": "app",\n  "password": "entry",\n  "database": "shop"\n}\n',
    ],
    [
      'two.yaml',
      `main: ${TARGET}\ntest: postgresql://app:x@db.example:5433/shop_test\n`,
      `main: ${LED}\ntest: postgresql://app:entry@127.0.0.1:40000/shop_test\n`,
    ],
  ])('%s names the clone', async (file, text, copy) => {
    const made = await copyOf(file, text);
    expect(made.text).toBe(copy);
    expect(made.rewritten).toEqual([`${file} (a copy)`]);
    expect(made.added).toEqual(['PGSSLMODE']);
  });

  test.each<[file: string, text: string, copy: string]>([
    [
      'a.toml',
      '[db]\nhost = "db.example"\nname = "shop"\nuser = "app"\n',
      '[db]\nhost = "127.0.0.1"\nport = 40000\nname = "shop"\nuser = "app"\n',
    ],
    [
      'a.py',
      "D = {'HOST': 'db.example', 'NAME': 'shop'}\n",
      "D = {'HOST': '127.0.0.1', 'PORT': 40000, 'NAME': 'shop'}\n",
    ],
    [
      'a.yaml',
      'db:\n  dbHost: db.example\n  dbName: shop\n',
      'db:\n  dbHost: 127.0.0.1\n  dbPort: 40000\n  dbName: shop\n',
    ],
  ])('%s gets a port where it had none', async (file, text, copy) => {
    const made = await copyOf(file, text, 'postgresql://app@db.example/shop');
    expect(made.text).toBe(copy);
    expect(made.env.PGPASSWORD).toBe('entry');
  });

  test('may log in as another user, who gets a route', async () => {
    const made = await copyOf('a.yaml', 'url: postgresql://owner:x@db.example:5433/shop\n');
    expect(made.users).toEqual(['app', 'owner']);
    expect(made.text).toBe('url: postgresql://owner:entry@127.0.0.1:40000/shop\n');
  });

  test.each([
    ['it names something else', 'a.yaml', 'url: postgresql://app:x@elsewhere/shop\n'],
    ['it names the database alone', 'a.yaml', 'database: shop\nusername: app\n'],
    ['it names another service of the same host', 'a.yaml', 'redis:\n  host: db.example\n  port: 6379\n'],
  ])('is refused if %s', async (_why, file, text) => {
    await expect(copyOf(file, text)).rejects.toMatchObject({
      code: 'CONFIGURATION',
      message: expect.stringContaining('a.yaml does not name the target'),
    });
  });

  test.each([
    ['settings.js', `const a = '${TARGET}'; const b = \`postgres://\${user}@db.example:5433/shop\`;\n`],
    ['settings.ini', `url = ${TARGET}\naddress = tcp(db.example:5433)\n`],
  ])('%s is refused if it would still name the target', async (file, text) => {
    await expect(copyOf(file, text)).rejects.toMatchObject({
      code: 'CONFIGURATION',
      message: expect.stringContaining('in a way that cannot be replaced'),
    });
  });

  test('is refused if the file is not there', async () => {
    await expect(copyOf('other.yaml', '').then(() => copyOf('missing/../x', ''))).rejects.toMatchObject({
      code: 'CONFIGURATION',
    });
  });
});
