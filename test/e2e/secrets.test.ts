import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Report } from '../../src/model/report.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../helpers/database.ts';
import { useOwnServers } from '../helpers/servers.ts';

let target: TemporaryDatabase;
let password: string;

beforeAll(() => useOwnServers(18));

beforeAll(async () => {
  target = await temporaryDatabase(18);
  password = new URL(target.url).password;
});

afterAll(() => target.drop());

const FILES = ['--report', 'report.json', '--report', 'report.txt', '--audit', 'audit'];

/** Runs in an empty folder, and looks at everything that was printed and written. */
async function everything(args: string[], env: NodeJS.ProcessEnv): Promise<string> {
  const folder = temporaryFolder();
  const { stdout, stderr } = await safemigrate([...FILES, ...args], { env, folder });
  expect(stderr).toMatch(/PASS/);
  const files = readdirSync(folder).sort();
  expect(files).toEqual(['audit', 'report.json', 'report.txt']);
  return [stdout, stderr, ...files.map((file) => readFileSync(path.join(folder, file), 'utf8'))].join('\n');
}

const WORDS = sqlCommand('CREATE TABLE t (id int)');

test('a password in the environment is printed and written nowhere', async () => {
  expect(await everything(['--', ...WORDS], { DATABASE_URL: target.url })).not.toContain(password);
});

test('nor is one in a URL among the command’s words', async () => {
  const words = ['sh', '-c', 'shift; "$@"', target.url, `--url=${target.url}`, ...WORDS];
  expect(await everything(['--', ...words], { DATABASE_URL: target.url })).not.toContain(password);
});

test('nor is one among the words as a password alone, in keywords or for JDBC', async () => {
  const { hostname, port } = new URL(target.url);
  const words = [
    `host=${hostname} port=${port} dbname=${target.name} user=postgres password=${password}`,
    `jdbc:postgresql://${hostname}:${port}/${target.name}?user=postgres&password=${password}`,
    `--password=${password}`,
    '--password',
    password,
    'PGPASSWORD=of-another-database',
  ];
  const command = ['sh', '-c', 'shift 6; "$@"', 'sh', ...words, ...WORDS];
  const output = await everything(['--', ...command], { DATABASE_URL: target.url });
  expect(output).not.toContain(password);
  expect(output).not.toContain('of-another-database');
});

test('nor is one in the definitions of what the command changed, though they are all shown', async () => {
  const secrets = ['Mapped1Qx', 'Remapped2Qx', 'Served3Qx', 'Dialled5Qx', 'Viewed6Qx', 'Tabled7Qx'];
  const [mapped, remapped, served, dialled, viewed, tabled] = secrets;
  const other = await temporaryDatabase(18, {
    sql: `CREATE FOREIGN DATA WRAPPER w; CREATE SERVER far FOREIGN DATA WRAPPER w OPTIONS (token '${served}');
      CREATE FOREIGN TABLE there (id int) SERVER far OPTIONS (key '${tabled}');
      CREATE USER MAPPING FOR PUBLIC SERVER far OPTIONS (user 'u', password '${mapped}');
      CREATE FUNCTION dialled() RETURNS text LANGUAGE sql AS $$ SELECT 'host=h password=${dialled}' $$`,
  });
  const migration = `
    ALTER SERVER far OPTIONS (ADD host 'h');
    ALTER USER MAPPING FOR PUBLIC SERVER far OPTIONS (SET user 'v', SET password '${remapped}');
    ALTER FOREIGN TABLE there ADD name text;
    CREATE VIEW viewed AS SELECT 'postgresql://u:${viewed}@h/d'::text AS url;
    DROP FUNCTION dialled()`;
  const args = ['--no-redact', '--report', 'report.html'];
  const folder = temporaryFolder();
  const { stdout, stderr } = await safemigrate([...args, ...FILES, '--', ...sqlCommand(migration)], {
    env: { DATABASE_URL: other.url },
    folder,
  });
  await other.drop();
  const read = (name: string) => readFileSync(path.join(folder, name), 'utf8');
  const output = [stdout, stderr, ...readdirSync(folder).map(read)].join('\n');
  const { schema } = JSON.parse(read('report.json')) as Report;
  expect(schema?.objects?.map(({ verb, object }) => `${verb} ${object}`)).toEqual(
    expect.arrayContaining([
      'alter far',
      'alter public.there',
      'create public.viewed',
      'drop public.dialled()',
    ]),
  );
  expect(secrets.filter((secret) => output.includes(secret))).toEqual([]);
});

test.each([
  ['a command without dashes', (url: string) => ['psql', url, '-f', 'x.sql']],
  ['a command quoted as a whole', (url: string) => ['--', `psql ${url} -f x.sql`]],
  ['a mistyped option', (url: string) => [`--urll=${url}`, '--', 'true']],
  ['a value in the wrong place', (url: string) => ['--clone', url, '--', 'true']],
  ['a password in a mistyped option', () => ['--password=opensesame', '--', 'true']],
])('nor is one in a refusal: %s', async (_what, args) => {
  const { exitCode, stdout, stderr } = await safemigrate(args('postgresql://app:opensesame@db/shop'), {
    env: { DATABASE_URL: 'postgresql://localhost:1/x' },
  });
  expect(exitCode).toBe(2);
  expect(stdout + stderr).not.toContain('opensesame');
});
