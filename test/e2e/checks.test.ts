import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { psqlCommand, rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';
import { clonesOf, withDatabase } from '../helpers/target-state.ts';

const SCHEMA = `
  CREATE TABLE people (id int PRIMARY KEY, email text, nick text);
  INSERT INTO people SELECT n, 'p' || n || '@x.org', 'nick ' || n FROM generate_series(1, 100) n;
  CREATE VIEW adults AS SELECT id FROM people`;

const ADD_COLUMN = 'ALTER TABLE people ADD COLUMN age int';
const psql = (sql: string) => `psql -X -q -v ON_ERROR_STOP=1 "$DATABASE_URL" -c "${sql}"`;

let target: TemporaryDatabase;

beforeAll(() => useOwnServers(18));
beforeAll(async () => {
  target = await temporaryDatabase(18, { sql: SCHEMA });
});

const VERSIONS: readonly ServerVersion[] = [14, 18];

describe.each(inThisShare(VERSIONS))('an INSERT of running code on %d', (version) => {
  // No CHECK, column or table changes: only an execution shows it.
  test('that is refused only when it is executed is an error; that nobody runs, a warning', async () => {
    const database = await temporaryDatabase(version, {
      sql: `CREATE DOMAIN mail AS text;
        CREATE TABLE members (id serial PRIMARY KEY, email mail, nick text);
        CREATE TABLE guests (id serial PRIMARY KEY, email mail, nick text);
        INSERT INTO members (email, nick) SELECT 'm' || n, 'n' || n FROM generate_series(1, 10) n;
        INSERT INTO guests (email, nick) SELECT 'm' || n, 'n' || n FROM generate_series(1, 10) n`,
    });
    const folder = temporaryFolder();
    writeFileSync(
      path.join(folder, 'queries.sql'),
      'INSERT INTO members (nick) VALUES ($1);\nINSERT INTO guests (nick, email) VALUES ($1, $2);\n',
    );
    const { report } = await rehearse(database.url, sqlCommand('ALTER DOMAIN mail SET NOT NULL'), {
      args: ['--queries', path.join(folder, 'queries.sql')],
    });
    expect(report.queries?.broken).toEqual([]);
    const accepting = report.hazards.filter(({ code }) => code === 'ACCEPTS_LESS');
    const severities = accepting.map(({ relation, severity }) => [relation, severity]);
    expect(severities.toSorted()).toEqual([
      ['public.guests', 'warning'],
      ['public.members', 'error'],
    ]);
    expect(accepting.find(({ severity }) => severity === 'error')?.message).toMatch(
      /^public\.members refuses an INSERT of the columns that running code names, INSERT of required columns alone/,
    );
  });
});

describe.each(inThisShare(VERSIONS))('pg_stat_statements on %d', (version) => {
  test('a dropped column that a query of the application uses is reported with that query and its rate', async () => {
    const server = await ownServer(version, { settings: { shared_preload_libraries: 'pg_stat_statements' } });
    onTestFinished(() => server.stop());
    const url = withDatabase(server.url, 'shop');
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    await withClient(url, async (client) => {
      await client.query('CREATE EXTENSION pg_stat_statements');
      await client.query(SCHEMA);
      await client.query('SELECT pg_stat_statements_reset()');
      for (let n = 0; n < 20; n++) await client.query(`SELECT nick FROM people WHERE id = ${n}`);
      await client.query('SELECT id FROM people WHERE email = $1', ['a']);
      await client.query('WITH known AS (SELECT id FROM people) SELECT count(*) FROM known');
    });
    // Its own statements, also those that count the values of the column, are none of the application's.
    await rehearse(url, sqlCommand('ALTER TABLE people DROP COLUMN email'));
    await withClient(url, async (client) => {
      await client.query('SELECT count(*)::float8 AS rows, ARRAY[count(nick)::float8] AS values FROM people');
      await client.query('CREATE TABLE schema_migrations (version text)');
      await client.query('SELECT version FROM schema_migrations ORDER BY version');
      await client.query(`SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'`);
      await client.query('SELECT pg_advisory_lock(1), version()');
    });
    const { report, exitCode } = await rehearse(url, sqlCommand('ALTER TABLE people DROP COLUMN nick'));
    expect(exitCode).toBe(1);
    expect(report.queries).toMatchObject({
      source: 'pg_stat_statements',
      planned: true,
      checked: 3,
      skipped: { failedBefore: 0, hidden: 0 },
    });
    expect(report.queries?.skipped.others).toBeGreaterThan(4);
    expect(report.queries?.broken).toEqual([
      {
        sql: 'SELECT nick FROM people WHERE id = $1',
        calls: 20,
        callsPerSecond: expect.any(Number),
        error: { sqlstate: '42703', message: 'column "nick" does not exist' },
      },
    ]);
    expect(report.queries?.broken[0]?.callsPerSecond).toBeGreaterThan(0.1);
    expect(report.hazards).toContainEqual(
      expect.objectContaining({
        code: 'QUERY_BREAKS',
        severity: 'error',
        message: expect.stringMatching(
          /^1 query of the running application no longer works: SELECT nick FROM people WHERE id = \$1 \(.* calls\/s, 42703: /,
        ),
      }),
    );
    expect(report.verdict.reasons.join('\n')).toContain("--accept 'QUERY_BREAKS=");
  });
});

describe('queries of a file', () => {
  test('are tried without pg_stat_statements, and those that break are listed', async () => {
    const folder = temporaryFolder();
    writeFileSync(
      path.join(folder, 'queries.sql'),
      'SELECT nick FROM people WHERE id = $1;\nSELECT id FROM people;\nBEGIN;\nSELECT none FROM people;\n',
    );
    const { report } = await rehearse(target.url, sqlCommand('ALTER TABLE people DROP COLUMN nick'), {
      args: ['--queries', 'queries.sql'],
      folder,
    });
    expect(report.queries).toMatchObject({
      source: 'queries.sql',
      checked: 2,
      skipped: { utility: 1, failedBefore: 1, hidden: 0 },
      broken: [{ sql: 'SELECT nick FROM people WHERE id = $1', calls: null, callsPerSecond: null }],
    });
  });

  test('that cannot be read, or pg_stat_statements where it is not, end the run before anything is touched', async () => {
    const env = { DATABASE_URL: target.url };
    const command = ['--', ...sqlCommand(ADD_COLUMN)];
    const missing = await safemigrate(['--queries', 'none.sql', ...command], { env });
    expect(missing).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('none.sql') });
    const absent = await safemigrate(['--queries', 'pg_stat_statements', ...command], { env });
    expect(absent).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('not installed') });
    expect(await clonesOf(18, target.name)).toEqual([]);
  });
});

describe('checks of the user', () => {
  test('that hold let the rehearsal pass, each of them reported; no queries are only a caveat', async () => {
    const { report, exitCode } = await rehearse(target.url, sqlCommand(ADD_COLUMN), {
      args: [
        ...['--check', 'SELECT id, email FROM people'],
        ...['--check-empty', 'SELECT id FROM people WHERE age < 0'],
      ],
    });
    expect(exitCode).toBe(0);
    expect(report.checks).toMatchObject([
      { rule: 'same', passed: true, rowsBefore: 100, rowsAfter: 100 },
      { rule: 'empty', passed: true, rowsBefore: null, rowsAfter: 0 },
    ]);
    expect(report.queries).toBeNull();
    expect(report.caveats).toContainEqual(expect.objectContaining({ path: 'queries', kind: 'unmeasured' }));
  });

  test('that do not hold fail it, with rows that differ; so does one that cannot be run', async () => {
    const folder = temporaryFolder();
    writeFileSync(path.join(folder, 'emails.sql'), '-- all of them\nSELECT id, email FROM people;\n');
    const migration =
      "UPDATE people SET email = 'gone' WHERE id = 7; ALTER TABLE people DROP COLUMN nick CASCADE";
    const { report, exitCode } = await rehearse(target.url, sqlCommand(migration), {
      args: [
        ...[
          '--check',
          'emails.sql',
          '--check',
          'SELECT nick FROM people',
          '--check',
          'SELECT 1 FROM nothing',
        ],
        ...['--check-empty', "SELECT id FROM people WHERE email = 'gone'"],
      ],
      folder,
    });
    expect(exitCode).toBe(1);
    expect(report.checks).toMatchObject([
      { name: 'emails.sql', passed: false, missing: ['["7","p7@x.org"]'], added: ['["7","gone"]'] },
      { passed: false, error: { when: 'after', sqlstate: '42703' } },
      { passed: false, error: { when: 'before', sqlstate: '42P01' } },
      { rule: 'empty', passed: false, rowsAfter: 1, added: ['["7"]'] },
    ]);
    expect(report.verdict.reasons).toHaveLength(4);
    expect(report.verdict.reasons[0]).toContain('emails.sql returned different rows');
  });

  test('show no value of a row with --redact', async () => {
    const { stdout } = await rehearse(target.url, sqlCommand("UPDATE people SET email = 'secretive'"), {
      args: ['--redact', '--check', "SELECT email FROM people WHERE email <> 'hushed'"],
    });
    expect(stdout).not.toMatch(/secretive|hushed|@x\.org/);
  });

  test.each(['DELETE FROM people', 'SELECT 1; SELECT 2', 'none.sql'])(
    'are refused before anything is touched: %s',
    async (check) => {
      const args = ['--check', check, '--', ...sqlCommand(ADD_COLUMN)];
      expect(await safemigrate(args, { env: { DATABASE_URL: target.url } })).toMatchObject({ exitCode: 2 });
    },
  );
});

describe('--rerun', () => {
  test('passes for a command that can be run twice, and keeps its statements apart', async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      sqlCommand(
        'CREATE TABLE IF NOT EXISTS extra (id int); CREATE OR REPLACE VIEW adults AS SELECT id FROM people',
      ),
      { args: ['--rerun'] },
    );
    expect(exitCode).toBe(0);
    expect(report.rerun).toMatchObject({
      passed: true,
      exitCode: 0,
      schemaEqual: true,
      differences: [],
      dataDifferences: [],
    });
    expect(report.statements).toHaveLength(2);
    expect(report.rerun?.statements).toHaveLength(2);
    expect(report.down).toBeNull();
  });

  test('fails where the second run fails, and where it changes schema or rows again', async () => {
    const failing = await rehearse(target.url, sqlCommand(ADD_COLUMN), { args: ['--rerun'] });
    expect(failing.exitCode).toBe(1);
    expect(failing.report.rerun).toMatchObject({ exitCode: 7, schemaEqual: true, passed: false });
    expect(failing.report.verdict.reasons.join()).toContain('second run (--rerun) failed with exit code 7');

    const adding = await rehearse(
      target.url,
      sqlCommand(
        "INSERT INTO people SELECT max(id) + 1 FROM people; DO $$BEGIN EXECUTE format('CREATE TABLE t%s()', (SELECT count(*) FROM people)); END$$",
      ),
      { args: ['--rerun'] },
    );
    expect(adding.report.rerun).toMatchObject({
      exitCode: 0,
      passed: false,
      differences: [{ what: 'table public.t102 is there too' }],
      dataDifferences: [{ relation: 'public.people', what: '101 → 102 rows' }],
    });
    expect(adding.report.verdict.reasons.join()).toContain('not safe to run twice');
  });

  test('passes if it changes only rows of tables that rerunIgnore names', async () => {
    const command = sqlCommand('INSERT INTO people SELECT max(id) + 1 FROM people');
    const folder = temporaryFolder();
    writeFileSync(
      path.join(folder, 'safemigrate.config.json'),
      JSON.stringify({ rerunIgnore: ['audit', 'people'] }),
    );
    const { report, exitCode } = await rehearse(target.url, command, { args: ['--rerun'], folder });
    expect(report.rerun).toMatchObject({
      passed: true,
      dataDifferences: [{ relation: 'public.people', what: '101 → 102 rows', ignored: true }],
    });
    expect(exitCode).toBe(0);
  });

  test('is not tried after a command that failed', async () => {
    const { report } = await rehearse(target.url, sqlCommand('SELECT 1/0'), { args: ['--rerun'] });
    expect(report.rerun).toBeNull();
    expect(report.caveats).toContainEqual(expect.objectContaining({ path: 'rerun' }));
  });
});

describe('--down', () => {
  test('passes where it leads back to the schema and the data before', async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      psqlCommand('-c', `${ADD_COLUMN}; CREATE TABLE extra (id int)`),
      { args: ['--down', psql('DROP TABLE extra; ALTER TABLE people DROP COLUMN age')] },
    );
    expect(report.verdict.reasons).toEqual([]);
    expect(exitCode).toBe(0);
    expect(report.down).toMatchObject({ passed: true, exitCode: 0, schemaEqual: true, reachedClone: true });
    expect(report.down?.statements.map(({ tag }) => tag)).toEqual(['DROP TABLE', 'ALTER TABLE']);
    expect(report.schema?.changes.map(({ object }) => object)).toContain('public.extra');
  });

  test('fails where the schema is not the one before', async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      psqlCommand('-c', `${ADD_COLUMN}; CREATE TABLE extra (id int)`),
      { args: ['--down', psql('ALTER TABLE people DROP COLUMN age')] },
    );
    expect(exitCode).toBe(1);
    expect(report.down).toMatchObject({ schemaEqual: false, passed: false });
    expect(report.down?.differences).toEqual([
      { what: 'table public.extra is there too', bookkeeping: false },
    ]);
    expect(report.verdict.reasons.join()).toContain(
      'does not restore the previous state: table public.extra is there too',
    );
  });

  test('fails where the column is back and its values are not', async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      psqlCommand('-c', 'ALTER TABLE people DROP COLUMN nick'),
      { args: ['--down', psql('ALTER TABLE people ADD COLUMN nick text')] },
    );
    expect(exitCode).toBe(1);
    expect(report.down).toMatchObject({
      schemaEqual: true,
      dataDifferences: [{ relation: 'public.people', what: 'other values in nick' }],
    });
  });

  test('comes after the second run, and a table of the tool for itself counts for nothing', async () => {
    const up =
      'CREATE TABLE IF NOT EXISTS schema_migrations (version text PRIMARY KEY); ALTER TABLE people ADD COLUMN IF NOT EXISTS age int';
    const { report, exitCode } = await rehearse(target.url, psqlCommand('-c', up), {
      args: ['--rerun', '--down', psql('ALTER TABLE people DROP COLUMN age')],
    });
    expect(report.verdict.reasons).toEqual([]);
    expect(exitCode).toBe(0);
    expect(report.rerun).toMatchObject({ passed: true });
    expect(report.down).toMatchObject({ passed: true, schemaEqual: false });
    expect(report.down?.differences.every(({ bookkeeping }) => bookkeeping)).toBe(true);
  });

  test('is kept within the clone as the command is, and tells no password that stands in it', async () => {
    const down = psql('ALTER TABLE people DROP COLUMN age; CREATE ROLE intruder');
    const { report, exitCode } = await rehearse(target.url, sqlCommand(ADD_COLUMN), {
      args: ['--down', `PGPASSWORD=hunter2hunter2 ${down}`],
    });
    expect(JSON.stringify(report)).not.toContain('hunter2');
    expect(exitCode).toBe(1);
    expect(report.down?.refused).toHaveLength(1);
    const roles = await withClient(target.url, (client) =>
      client.query("SELECT 1 FROM pg_roles WHERE rolname = 'intruder'"),
    );
    expect(roles.rowCount).toBe(0);
  });

  test('is given the clone by placeholders too, and longer than --timeout it does not run', async () => {
    const { report, exitCode } = await rehearse(target.url, sqlCommand(ADD_COLUMN), {
      args: [
        ...['--timeout', '5s', '--down'],
        'psql -X -q "{safemigrate:url}" -c "ALTER TABLE people DROP COLUMN age" && exec sleep 100',
      ],
    });
    expect(exitCode).toBe(1);
    expect(report.down).toMatchObject({ timedOut: true, schemaEqual: true, passed: false });
    expect(report.verdict.reasons.join()).toContain(
      'down migration (--down) ran longer than --timeout allows',
    );
  });

  test('that is interrupted leaves nothing behind', async () => {
    let pid = 0;
    const { exitCode, stderr } = await safemigrate(
      ['--down', 'echo waiting; exec sleep 100', '--', ...sqlCommand(ADD_COLUMN)],
      {
        env: { DATABASE_URL: target.url },
        started: (child) => {
          pid = child;
        },
        typed: [
          [
            /waiting/,
            async () => {
              process.kill(pid, 'SIGTERM');
              return '';
            },
          ],
        ],
      },
    );
    expect(stderr).toContain('interrupted');
    expect(exitCode).toBe(143);
    expect(await clonesOf(18, target.name)).toEqual([]);
  });
});
