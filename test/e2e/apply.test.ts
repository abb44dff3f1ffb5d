import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { apply } from '../helpers/apply.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { digestOf, fingerprintOf } from '../helpers/target-state.ts';

let target: TemporaryDatabase;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, {
    sql: 'CREATE TABLE jobs (id int PRIMARY KEY); INSERT INTO jobs SELECT generate_series(1, 100)',
  });
});

afterEach(() => target.drop());

const inTarget = async (sql: string) => {
  const { rows } = await withClient(target.url, (client) => client.query(sql));
  return rows;
};

describe('an apply', () => {
  test('runs on the target what was rehearsed, and says so first', async () => {
    const {
      exitCode,
      apply: applied,
      report,
    } = await apply(
      target.url,
      sqlCommand('ALTER TABLE jobs ADD COLUMN done bool; UPDATE jobs SET done = true WHERE id < 10'),
    );
    expect(applied).toMatchObject({ outcome: 'applied', reasons: [], schemaEqual: true, forced: null });
    expect(exitCode).toBe(0);
    expect(await inTarget('SELECT count(*)::int FROM jobs WHERE done')).toEqual([{ count: 9 }]);
    expect(report.run.mode).toBe('apply');
    expect(applied.fingerprints).toEqual({ before: report.schema?.before, after: report.schema?.after });
    expect(applied.comparedTimes.map(({ sql }) => sql)).toEqual(applied.statements.map(({ sql }) => sql));
    expect(applied.committed.map(({ sql }) => sql)).toEqual([
      'ALTER TABLE jobs ADD COLUMN done bool',
      'UPDATE jobs SET done = true WHERE id < 10',
    ]);
    expect(applied.wayBack).toMatch(/DROP COLUMN "?done"?/);
  });

  test('of statements that fail on both sides, which is allowed, is not called what was rehearsed', async () => {
    const swallowing = [
      'sh',
      '-c',
      'psql -X -q "$DATABASE_URL" -c "ALTER TABLE jobs ADD a int" -c "ALTER TABLE jobs ADD a int"; true',
    ];
    const args = ['--accept', 'ERRORS_SWALLOWED="known"', '--format', 'text'];
    const { exitCode, stdout } = await safemigrate(['apply', '--yes', ...args, '--', ...swallowing], {
      env: { DATABASE_URL: target.url },
    });
    expect(stdout).toContain('APPLIED IN PART');
    expect(stdout).not.toContain('matches the rehearsal');
    expect(exitCode).toBe(0);
  });

  test('is not done if a statement fails on the target that had not failed on the clone, whatever the exit code', async () => {
    const script = `const client = await connect();
      await client.query('UPDATE jobs SET id = id').catch(() => {});
      await client.end();`;
    await inTarget(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF current_database() = '${target.name}' THEN RAISE 'not here'; END IF; RETURN new; END $$`);
    await inTarget('CREATE TRIGGER refusing BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION refuse()');
    const { exitCode, apply: applied } = await apply(target.url, scriptCommand(script));
    expect(applied.reasons).toEqual([expect.stringContaining('UPDATE jobs SET id = id')]);
    expect(applied.outcome).toBe('failed');
    expect(exitCode).toBe(4);
  });

  test('permits other values in a DEFAULT, a comment and arguments, and compares the schema without them', async () => {
    await inTarget('CREATE PROCEDURE note(text) LANGUAGE sql AS $$ SELECT 1 $$');
    const script = `const client = await connect();
      const now = new Date().toISOString();
      await client.query(\`ALTER TABLE jobs ADD COLUMN at timestamptz DEFAULT '\${now}'\`);
      await client.query(\`COMMENT ON TABLE jobs IS 'at \${now}'\`);
      await client.query(\`CALL note('\${crypto.randomUUID()}')\`);
      await client.end();`;
    const { exitCode, apply: applied, report, stderr } = await apply(target.url, scriptCommand(script));
    expect(applied, stderr).toMatchObject({ outcome: 'applied', reasons: [], schemaEqual: true });
    expect(exitCode).toBe(0);
    expect(applied.during?.diverged.map(({ stopped, onlyValues }) => [stopped, onlyValues])).toEqual(
      Array.from({ length: 3 }, () => [false, true]),
    );
    expect(report.caveats).toContainEqual(expect.objectContaining({ path: 'apply.schemaEqual' }));
  });

  test('is refused before it begins if it would stop at a definition with the time of the run in its name', async () => {
    const before = await digestOf(target.url);
    const script = `const client = await connect();
      await client.query('CREATE TABLE first (id int)');
      await client.query(\`CREATE TABLE backup_\${Date.now()} (id int)\`);
      await client.end();`;
    const { exitCode, apply: applied, report } = await apply(target.url, scriptCommand(script));
    expect(report.hazards).toContainEqual(
      expect.objectContaining({ code: 'DIFFERS_EVERY_RUN', severity: 'warning' }),
    );
    expect(applied).toMatchObject({ outcome: 'refused', reasons: [expect.stringContaining('statement 2')] });
    expect(exitCode).toBe(4);
    expect(await digestOf(target.url)).toEqual(before);
  });

  test('lets through names that the command makes up for its session, and calls them rehearsed', async () => {
    const script = `const client = await connect();
      const name = 'n' + process.pid + Math.random().toString(36).slice(2);
      await client.query('CREATE TABLE first (id int)');
      await client.query('BEGIN');
      await client.query(\`SAVEPOINT \${name}\`);
      await client.query(\`DECLARE \${name} CURSOR FOR SELECT id FROM jobs WHERE id > \${process.pid}\`);
      await client.query(\`FETCH ALL FROM \${name}\`);
      await client.query('COMMIT');
      await client.query(\`CREATE TEMP TABLE \${name} AS SELECT id FROM jobs\`);
      await client.query(\`DELETE FROM jobs USING \${name} n WHERE n.id = jobs.id AND jobs.id = 7\`);
      await client.query('CREATE TABLE second (id int)');
      await client.end();`;
    const { exitCode, apply: applied } = await apply(target.url, scriptCommand(script));
    expect(applied).toMatchObject({ outcome: 'applied', reasons: [], schemaEqual: true });
    expect(applied.during?.diverged).toEqual([]);
    expect(exitCode).toBe(0);
  });

  test('of a permanent name that a UUID makes another one is refused before the first statement', async () => {
    const before = await digestOf(target.url);
    const script = `const client = await connect();
      await client.query('CREATE TABLE first (id int)');
      await client.query(\`CREATE TABLE "import_\${crypto.randomUUID()}" (id int)\`);
      await client.end();`;
    const { exitCode, apply: applied } = await apply(target.url, scriptCommand(script));
    expect(applied).toMatchObject({ outcome: 'refused', reasons: [expect.stringContaining('statement 2')] });
    expect(exitCode).toBe(4);
    expect(await digestOf(target.url)).toEqual(before);
  });

  test('without --yes and without a terminal is refused before anything is done: exit code 4', async () => {
    const before = await digestOf(target.url);
    const { exitCode, stderr } = await safemigrate(['apply', '--', ...sqlCommand('DROP TABLE jobs')], {
      env: { DATABASE_URL: target.url },
    });
    expect(stderr).toContain('no terminal');
    expect(exitCode).toBe(4);
    expect(await digestOf(target.url)).toEqual(before);
  });

  test('of what did not pass leaves the target alone: exit code 1; with --force it goes on, and says why', async () => {
    const failing = sqlCommand('CREATE TABLE made (id int); SELECT 1/0');
    const refused = await apply(target.url, failing);
    expect(refused.exitCode).toBe(1);
    expect(refused.apply).toMatchObject({ outcome: 'refused', reasons: ['the rehearsal did not pass'] });
    const forced = await apply(target.url, failing, { args: ['--force', 'the night is short'] });
    expect(forced.apply).toMatchObject({ outcome: 'failed', forced: 'the night is short' });
    expect(forced.exitCode).toBe(4);
  });
});

/** Passes on a clone, whose name is another one. */
const ONLY_THERE = "DO $$ BEGIN IF current_database() !~ '_rehearsal_' THEN RAISE 'not here'; END IF; END $$";

describe('a command that fails on the target', () => {
  test('half-way: exit code 5, with what was committed, what was not, and the way back', async () => {
    const {
      exitCode,
      apply: applied,
      stderr,
    } = await apply(
      target.url,
      scriptCommand(
        `const client = await connect();
         await client.query('SET lock_timeout = 5000');
         await client.query('CREATE TABLE first (id int)');
         await client.query('BEGIN');
         await client.query('CREATE TABLE second (id int)');
         await client.query(args[0]);
         await client.query('COMMIT');
         await client.end();`,
        ONLY_THERE,
      ),
    );
    expect(stderr).toContain('not here');
    expect(applied.outcome).toBe('partly');
    expect(exitCode).toBe(5);
    expect(applied.committed).toMatchObject([
      { sql: 'CREATE TABLE first (id int)', outcome: 'committed', explicit: false },
    ]);
    expect(applied.rolledBack.map(({ sql }) => sql)).toEqual(['CREATE TABLE second (id int)', ONLY_THERE]);
    expect(applied.wayBack).toMatch(/DROP TABLE "?public"?\."?first"?/);
    expect(applied.differences).toEqual(['missing: create table public.second']);
  });

  test.each([
    ['agrees where each transaction noted what it did', '', { agrees: true, unnoted: [] }],
    [
      'does not where something was committed without a note',
      'CREATE INDEX i ON first (id)',
      { agrees: false },
    ],
  ])("half-way, of which the tool's own table %s", async (_, loose, bookkeeping) => {
    const { exitCode, apply: applied } = await apply(
      target.url,
      scriptCommand(
        `const client = await connect();
         const [loose, last] = args;
         await client.query('CREATE TABLE schema_migrations (version text)');
         const migrate = async (version, sql) => {
           await client.query('BEGIN');
           await client.query(sql);
           await client.query('INSERT INTO schema_migrations VALUES ($1)', [version]);
           await client.query('COMMIT');
         };
         await migrate('1', 'CREATE TABLE first (id int)');
         if (loose) await client.query(loose);
         await migrate('2', last);
         await client.end();`,
        ...[loose, ONLY_THERE],
      ),
    );
    expect(exitCode).toBe(5);
    expect(applied.bookkeeping).toMatchObject(bookkeeping);
    const unnoted = applied.committed.filter(({ statement }) =>
      applied.bookkeeping?.unnoted.includes(statement),
    );
    expect(unnoted.map(({ sql }) => sql)).toEqual(loose === '' ? [] : [loose]);
  });

  test('within one transaction: exit code 4, and the target is as it was', async () => {
    const before = await fingerprintOf(target.url);
    const { exitCode, apply: applied } = await apply(
      target.url,
      sqlCommand(`SELECT 1; CREATE TABLE first (id int); ${ONLY_THERE}`),
    );
    expect(applied).toMatchObject({ outcome: 'failed', committed: [], wayBack: null });
    expect(exitCode).toBe(4);
    expect(await fingerprintOf(target.url)).toBe(before);
  });
});
