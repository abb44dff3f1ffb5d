import { execFileSync } from 'node:child_process';
import { chmodSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { literal } from '../../src/postgres/sql/quote.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withoutClientPrograms } from '../helpers/client-programs.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { serverUrl, useOwnServers } from '../helpers/servers.ts';

const programsOf19 = inject('programs')[19];
const skip = await withoutClientPrograms('pg_dump', 'pg_restore', 'psql');

const SQL = `
CREATE ROLE "Shop Owner"; CREATE ROLE reader;
CREATE TABLE orders (id int PRIMARY KEY, body text);
INSERT INTO orders SELECT n, E'line\\r\\nä ' || n FROM generate_series(1, 500) n;
ALTER TABLE orders OWNER TO "Shop Owner"; GRANT SELECT ON orders TO reader;
CREATE FUNCTION f() RETURNS text LANGUAGE sql AS E'SELECT ''a\\rb''::text'`;
const COMMAND = sqlCommand('ALTER TABLE orders ADD COLUMN total int; UPDATE orders SET total = length(body)');

/** What the rehearsal's server leaves behind would be in there. */
function enterable(): string {
  const folder = temporaryFolder();
  chmodSync(folder, 0o755);
  return folder;
}

describe.skipIf(skip)('a rehearsal on a dump', () => {
  beforeAll(() => useOwnServers(15));

  test.each([
    ['shop.sql', ['--format=plain']],
    ['created.sql', ['--format=plain', '--create', '--clean', '--if-exists']],
    ['shop.dump', ['--format=custom']],
    ['shop', ['--format=directory']],
  ])('%s needs no target, and reaches none', async (name, options) => {
    const database = await temporaryDatabase(15, {
      sql: name === 'shop.sql' ? SQL : SQL.replace(/CREATE ROLE .*;/, ''),
    });
    const folder = temporaryFolder();
    const file = path.join(folder, name);
    execFileSync('/usr/lib/postgresql/15/bin/pg_dump', [...options, `--file=${file}`, database.url]);
    const tmp = enterable();
    const { report, exitCode, stderr } = await rehearse(database.url, COMMAND, {
      args: ['--dump', name],
      folder,
      env: { TMPDIR: tmp, PGHOST: '192.0.2.1', PGDATABASE: 'production' },
    });
    expect(exitCode, stderr).toBe(0);
    expect(report.target).toMatchObject({
      source: `--dump ${name}`,
      database: name === 'shop.sql' ? 'shop' : database.name,
      changes: [],
    });
    expect(report.target.serverVersion).toMatch(/^15\./);
    expect(report.clone.method).toBe('template');
    // Nothing works on the server of a dump.
    expect(report.forecast).toBeNull();
    expect(stderr).toContain('✓ Passed, nothing was changed.');
    expect(report.data?.tables).toMatchObject([{ relation: 'public.orders' }]);
    expect(readdirSync(tmp)).toEqual([]);
    await withClient(database.url, async (client) => {
      const { rows } = await client
        .query('SELECT * FROM orders LIMIT 0')
        .then(({ fields }) => ({ rows: fields }));
      expect(rows.map((field) => field.name)).toEqual(['id', 'body']);
    });
    await database.drop();
  });
});

test.skipIf(programsOf19 === undefined).each(['plain', 'custom'])(
  'a dump of PostgreSQL 19 (%s) is restored by the programs that PGBIN names',
  async (format) => {
    const programs = programsOf19 ?? '';
    const database = await temporaryDatabase(19, {
      sql: `CREATE TABLE orders (id int PRIMARY KEY, body text, CONSTRAINT filled CHECK (body <> '') NOT ENFORCED);
        INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 500) n; CREATE TABLE kept (id int);
        CREATE PUBLICATION sent FOR ALL TABLES EXCEPT (TABLE kept), ALL SEQUENCES`,
    });
    const folder = temporaryFolder();
    const file = path.join(folder, 'shop.dump');
    execFileSync(path.join(programs, 'pg_dump'), [`--format=${format}`, `--file=${file}`, database.url]);
    const { report, exitCode, stderr } = await rehearse(database.url, COMMAND, {
      args: ['--dump', 'shop.dump'],
      folder,
      env: { TMPDIR: enterable(), PGBIN: programs },
    });
    expect(exitCode, stderr).toBe(0);
    expect(report.target.serverVersion).toMatch(/^19/);
    expect(report.data?.tables).toMatchObject([{ relation: 'public.orders', rowsAfter: 500 }]);
  },
);

describe('a rehearsal on SQL', () => {
  const from = (folder: string, name: string, env: NodeJS.ProcessEnv = {}, args: string[] = []) =>
    safemigrate(['--dump', name, '--format', 'json', ...args, '--', ...COMMAND], {
      folder,
      env: { TMPDIR: enterable(), ...env },
    });

  test('that somebody wrote runs on the newest server', async () => {
    const folder = temporaryFolder();
    writeFileSync(
      path.join(folder, 'schema.sql'),
      "CREATE TABLE orders (id int, body text);\nINSERT INTO orders VALUES (1, 'ä');\nALTER TABLE orders OWNER TO shop_owner;\n",
    );
    const { exitCode, stdout, stderr } = await from(folder, 'schema.sql', {
      DIRECT_URL: 'postgres://someone@192.0.2.1/production',
    });
    expect(exitCode, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      target: { database: 'schema', serverVersion: expect.stringMatching(/^18/) },
      caveats: expect.arrayContaining([
        expect.objectContaining({
          reason: expect.stringMatching(/row security.*settings of roles.*damaged unique indexes/),
        }),
      ]),
    });
    expect(stderr).toContain('DIRECT_URL');
  });

  test('without the rows of the history is the reason of the failure, with the commands that dump them', async () => {
    const folder = temporaryFolder();
    const schema = 'CREATE TABLE orders (id int); CREATE TABLE alembic_version (version_num text);\n';
    writeFileSync(path.join(folder, 'schema.sql'), schema);
    const { exitCode, stderr } = await safemigrate(
      [
        '--dump',
        'schema.sql',
        '--',
        ...sqlCommand('SELECT * FROM alembic_version; CREATE TABLE orders (id int)'),
      ],
      { folder, env: { TMPDIR: enterable() } },
    );
    expect(exitCode).toBe(1);
    expect(stderr.replace(/\s+/g, ' ')).toContain('ERROR: relation "orders" already exists (SQLSTATE 42P07)');
    expect(stderr.replace(/\s+/g, ' ')).toContain(
      'public.alembic_version is empty in this dump, so that the tool began with its first migration',
    );
    expect(stderr.split('\n').map((line) => line.trim())).toEqual(
      expect.arrayContaining([
        'pg_dump --schema-only "$DATABASE_URL" > test/dump.sql',
        'pg_dump --data-only --inserts \\',
        "--table='public.alembic_version' \\",
        '"$DATABASE_URL" >> test/dump.sql',
      ]),
    );
  });

  test.each([
    ['missing.sql', null, /missing\.sql cannot be read/],
    ['packed.sql', '\u001f\u008bxx', /no dump, or compressed/],
    ['cut.sql', 'CREATE TABLE t (n int);\nCOPY t (n) FROM stdin;\n1\n', /cut\.sql is cut off/],
    ['all.sql', '-- PostgreSQL database cluster dump\n', /pg_dumpall/],
    [
      'broken.sql',
      'CREATE TABLE t (n nonsense);\n',
      /broken\.sql could not be restored:[\s\S]*type "nonsense" does not exist/,
    ],
  ])('%s is refused with the reason', async (name, content, words) => {
    const folder = temporaryFolder();
    if (content !== null) writeFileSync(path.join(folder, name), content, 'latin1');
    const { exitCode, stderr } = await from(folder, name);
    expect(stderr).toMatch(words);
    expect(exitCode).toBeGreaterThan(1);
  });

  test('beside --url is refused', async () => {
    const { exitCode, stderr } = await from(temporaryFolder(), 'x.sql', {}, ['--url', serverUrl(18)]);
    expect(stderr).toContain('--dump and --url');
    expect(exitCode).toBe(2);
  });
});

describe('--after-clone', () => {
  test('changes the clone before the command sees it, from SQL and from files, in one session', async () => {
    const folder = temporaryFolder();
    const database = await temporaryDatabase(18, {
      sql: `CREATE TABLE people (id int, mail text); INSERT INTO people SELECT n, 'p' || n || '@example.org' FROM generate_series(1, 9) n`,
    });
    writeFileSync(
      path.join(folder, 'mask.sql'),
      'UPDATE people SET mail = (SELECT word FROM mask);\n-- done',
    );
    const mail = sqlCommand('SELECT DISTINCT mail FROM people');
    const { report, stderr, exitCode } = await rehearse(database.url, mail, {
      folder,
      args: [
        '--after-clone',
        `CREATE TEMP TABLE mask AS SELECT 'masked'::text AS word`,
        '--after-clone',
        'mask.sql',
      ],
    });
    expect(exitCode, stderr).toBe(0);
    expect(stderr).toContain('masked');
    expect(stderr).not.toContain('@example.org');
    expect(report.data?.tables.filter(({ relation }) => relation === 'public.people')).toEqual([]);
    expect(report.caveats.map(({ reason }) => reason).join()).toContain('--after-clone');
  });

  test('that fails ends the run before the command, and leaves nothing', async () => {
    const database = await temporaryDatabase(18);
    const result = await safemigrate(
      [
        '--after-clone',
        `UPDATE ${literal('x')} SET y = 1`,
        '--after-clone',
        'SELECT 1',
        '--',
        'sh',
        '-c',
        'echo RAN',
      ],
      { env: { DATABASE_URL: database.url } },
    );
    expect(result.stderr).toMatch(/--after-clone UPDATE 'x' SET y = 1 failed on the clone: syntax error/);
    expect(result.exitCode).toBe(3);
    expect(result.stdout).not.toContain('RAN');
  });

  test('names a file that must be there', async () => {
    const { exitCode, stderr } = await safemigrate(['--after-clone', 'nowhere.sql', '--', 'true'], {
      env: { DATABASE_URL: serverUrl(18) },
    });
    expect(stderr).toMatch(/--after-clone: .*nowhere\.sql cannot be read/);
    expect(exitCode).toBe(2);
  });
});
