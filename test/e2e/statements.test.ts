import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { StatementSection } from '../../src/model/report.ts';
import { sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { locksOf, psqlCommand, rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { serverUrl, useOwnServers } from '../helpers/servers.ts';
import { clonesOf, withDatabase } from '../helpers/target-state.ts';

const SCHEMA = `
  CREATE TABLE jobs (id int PRIMARY KEY, note text);
  CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL);
  INSERT INTO jobs SELECT n, 'job ' || n FROM generate_series(1, 1000) n`;

/** Ten statements in autocommit, each with its locks on relations of the user's. */
const TEN: [sql: string, locks: string[]][] = [
  ['CREATE TABLE notes (id int)', ['ACCESS EXCLUSIVE public.notes']],
  ['ALTER TABLE jobs ADD COLUMN person int', ['ACCESS EXCLUSIVE public.jobs']],
  ['CREATE INDEX ON people (name)', ['ACCESS EXCLUSIVE public.people_name_idx', 'SHARE public.people']],
  [
    "UPDATE jobs SET note = 'x' WHERE id < 11",
    ['ROW EXCLUSIVE public.jobs', 'ROW EXCLUSIVE public.jobs_pkey'],
  ],
  ['DELETE FROM jobs WHERE id = 1', ['ROW EXCLUSIVE public.jobs', 'ROW EXCLUSIVE public.jobs_pkey']],
  ["INSERT INTO people VALUES (1, 'Ada'), (2, 'Grace')", ['ROW EXCLUSIVE public.people']],
  ['ALTER TABLE people ADD CHECK (id > 0)', ['ACCESS EXCLUSIVE public.people']],
  ['TRUNCATE notes', ['ACCESS EXCLUSIVE public.notes', 'SHARE public.notes']],
  ["COMMENT ON TABLE jobs IS 'work'", ['SHARE UPDATE EXCLUSIVE public.jobs']],
  ['VALUES (1)', []],
];

let target: TemporaryDatabase;

beforeAll(() => useOwnServers(18));
beforeAll(async () => {
  target = await temporaryDatabase(18, { sql: SCHEMA });
});

/** Scripts that end well although their statement was cut off. */
const ON_PURPOSE = { args: ['--accept', 'ERRORS_SWALLOWED="it is cut off on purpose"'] };

const lines = (text: string) => text.split('\n');
const tags = (statements: readonly StatementSection[]) => statements.map(({ tag }) => tag);

describe('with psql', () => {
  test('ADD COLUMN in autocommit has the exact lock, how long it was held, and what it blocks; CREATE INDEX CONCURRENTLY that ends at once is sampled, whatever was seen of it', async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      psqlCommand(
        ...['-c', 'ALTER TABLE jobs ADD COLUMN done bool'],
        ...['-c', 'CREATE INDEX CONCURRENTLY people_name ON people (name)'],
      ),
    );
    expect(exitCode).toBe(0);
    expect(report.statements).toHaveLength(2);
    const [statement, built] = report.statements;
    if (!statement) throw new Error('no statement');
    expect(statement).toMatchObject({
      sql: 'ALTER TABLE jobs ADD COLUMN done bool',
      tag: 'ALTER TABLE',
      exactness: 'exact',
      explicit: false,
      error: null,
      rewrote: [],
    });
    expect(locksOf(statement)).toEqual(['ACCESS EXCLUSIVE public.jobs']);
    const lock = statement.locks?.find(({ relation }) => relation === 'public.jobs');
    expect(lock?.heldMs).toBeGreaterThan(0);
    expect(lock?.blocks).toEqual(expect.arrayContaining(['reads', 'writes']));
    expect(statement.durationMs).toBeGreaterThan(0);
    expect(built).toMatchObject({ tag: 'CREATE INDEX', exactness: 'sampled', error: null });
  });

  test('a file of ten statements has ten, each with its own time and locks', async () => {
    const folder = temporaryFolder();
    const file = path.join(folder, 'ten.sql');
    writeFileSync(file, TEN.map(([sql]) => `${sql};\n`).join(''));
    const { report, exitCode } = await rehearse(target.url, psqlCommand('-f', file));
    expect(exitCode).toBe(0);
    expect(report.statements.map((each) => [each.sql, locksOf(each)])).toEqual(TEN);
  });

  test('CREATE INDEX CONCURRENTLY works as directly, and its locks are sampled', async () => {
    // A snapshot that is held in the clone makes it wait, so that it can be looked at.
    const { report, exitCode, stderr } = await rehearse(
      target.url,
      scriptCommand(`
        const [holder, maker, watcher] = [await connect(), await connect(), await connect()];
        await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
        await holder.query('SELECT count(*) FROM jobs');
        const made = maker.query('CREATE INDEX CONCURRENTLY jobs_note ON jobs (note)');
        const phases = "SELECT FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting for %'";
        while ((await watcher.query(phases)).rowCount === 0);
        for (const start = Date.now(); Date.now() < start + 150; await watcher.query('SELECT pg_sleep(0.05)'));
        await holder.query('COMMIT');
        await made;
        for (const client of [holder, maker, watcher]) await client.end();`),
    );
    expect(exitCode, stderr).toBe(0);
    const built = report.statements.find(({ tag }) => tag === 'CREATE INDEX');
    expect(built?.exactness).toBe('sampled');
    expect(built && locksOf(built)).toContain('SHARE UPDATE EXCLUSIVE public.jobs');
    expect(report.schema?.changes).toMatchObject([{ verb: 'create', kind: 'index' }]);
    expect(report.schema?.leftovers).toEqual([]);
  });

  test('what commits within works as directly, and has the locks of its statements by rule', async () => {
    const bodyWith = (branch: string) =>
      `$body$BEGIN ALTER TABLE first_one ADD COLUMN IF NOT EXISTS more int; COMMIT; UPDATE second_one SET id = 2; COMMIT;
        IF current_user = 'nobody' THEN TRUNCATE ${branch}; END IF; END$body$`;
    await withClient(target.url, (client) =>
      client.query(`CREATE TABLE first_one (id int); CREATE TABLE second_one (id int); INSERT INTO second_one VALUES (1);
        CREATE PROCEDURE in_two() LANGUAGE plpgsql AS ${bodyWith('people')}`),
    );
    const { report, exitCode } = await rehearse(
      target.url,
      psqlCommand('-c', 'CALL in_two()', '-c', `DO ${bodyWith('jobs')}`),
    );
    expect(exitCode).toBe(0);
    expect(tags(report.statements)).toEqual(['CALL', 'DO']);
    for (const own of report.statements) {
      expect(own).toMatchObject({ exactness: 'sampled', error: null });
      expect(locksOf(own)).toEqual(
        expect.arrayContaining(['ACCESS EXCLUSIVE public.first_one', 'ROW EXCLUSIVE public.second_one']),
      );
      expect(own.locks?.filter(({ relation }) => /people|jobs/.test(relation))).toEqual([]);
    }
    const caveats = report.caveats.filter(({ path }) => path === 'statements[].locks');
    const unmeasured = (reason: RegExp) => ({ kind: 'unmeasured', reason: expect.stringMatching(reason) });
    expect(caveats).toMatchObject([
      unmeasured(
        /^statement 1 may commit within: .*; if its branches and loops were entered: ACCESS EXCLUSIVE on public\.people$/,
      ),
      unmeasured(
        /^statement 2 may commit within: .*; if its branches and loops were entered: ACCESS EXCLUSIVE on public\.jobs$/,
      ),
    ]);
  });
});

describe('one message with many statements', () => {
  test('is told as its statements, in one transaction', async () => {
    const sql = [
      'CREATE TABLE notes (id int)',
      'ALTER TABLE jobs ADD COLUMN person int',
      'CREATE INDEX ON people (name)',
      "UPDATE jobs SET note = 'x' WHERE id < 11",
      'DELETE FROM jobs WHERE id = 1',
      "INSERT INTO people VALUES (1, 'Ada'), (2, 'Grace')",
      'ALTER TABLE people ADD CHECK (id > 0)',
      'CREATE VIEW both_ids AS SELECT jobs.id FROM jobs JOIN people USING (id)',
      "COMMENT ON TABLE jobs IS 'work'",
      'SELECT pg_sleep(0.1)',
    ];
    const { report, exitCode } = await rehearse(target.url, sqlCommand(sql.join(';\n')));
    expect(exitCode).toBe(0);
    expect(report.statements.map((each) => each.sql)).toEqual(sql);
    expect(new Set(report.statements.map(({ transaction }) => transaction)).size).toBe(1);
    expect(report.statements.every(({ exactness }) => exactness === 'exact')).toBe(true);
    expect(report.statements.map(({ rows }) => rows)).toEqual([
      null,
      null,
      null,
      10,
      1,
      2,
      null,
      null,
      null,
      1,
    ]);
    // Each tells what it added to the locks of those before it.
    expect(report.statements.map(locksOf)).toEqual([
      ['ACCESS EXCLUSIVE public.notes'],
      ['ACCESS EXCLUSIVE public.jobs'],
      ['ACCESS EXCLUSIVE public.people_name_idx', 'SHARE public.people'],
      ['ROW EXCLUSIVE public.jobs', 'ROW EXCLUSIVE public.jobs_pkey'],
      [],
      ['ROW EXCLUSIVE public.people'],
      ['ACCESS EXCLUSIVE public.people'],
      expect.arrayContaining(['ACCESS EXCLUSIVE public.both_ids']),
      ['SHARE UPDATE EXCLUSIVE public.jobs'],
      [],
    ]);
    const [, alter, , update, , , , , , sleep] = report.statements;
    expect(sleep?.durationMs).toBeGreaterThanOrEqual(100);
    // It ended before the pause began.
    const endedAt = (each: typeof update) => Date.parse(each?.startedAt ?? '') + (each?.durationMs ?? 0);
    expect(endedAt(update)).toBeLessThanOrEqual(Date.parse(sleep?.startedAt ?? '') + 1);
    // Held to the end of the one transaction, which the last statement delays.
    expect(alter?.locks?.find(({ relation }) => relation === 'public.jobs')?.heldMs).toBeGreaterThan(100);
  });

  test('a rewrite is named by its statement and by its table', async () => {
    const { report } = await rehearse(
      target.url,
      sqlCommand(
        'ALTER TABLE jobs ADD COLUMN size int; ALTER TABLE people ADD COLUMN size int; ' +
          'ALTER TABLE jobs ALTER COLUMN id TYPE bigint',
      ),
    );
    expect(report.statements.map(({ rewrote }) => rewrote)).toEqual([[], [], ['public.jobs']]);
    expect(report.data?.tables.filter(({ rewritten }) => rewritten)).toMatchObject([
      { relation: 'public.jobs', rowsBefore: 1000, rowsAfter: 1000 },
    ]);
  });
});

describe('errors', () => {
  test('come with all of PostgreSQL’s fields, and the statements after them did not run', async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      sqlCommand(
        "CREATE TABLE notes (id int); INSERT INTO jobs VALUES (1, 'again'); CREATE TABLE never (id int)",
      ),
    );
    expect(exitCode).toBe(1);
    expect(tags(report.statements)).toEqual(['CREATE TABLE', null]);
    expect(report.statements[1]).toMatchObject({
      exactness: 'unknown',
      locks: null,
      error: {
        sqlstate: '23505',
        message: 'duplicate key value violates unique constraint "jobs_pkey"',
        detail: 'Key (id)=(1) already exists.',
        hint: null,
        position: null,
        schema: 'public',
        table: 'jobs',
        constraint: 'jobs_pkey',
        where: null,
      },
    });
    expect(report.schema?.changes).toEqual([]);
  });

  test('point at their place in the statement, with the server’s hint, and name what a function ran', async () => {
    const text = 'CREATE TABLE notes (id int); SELECT nota FROM jobs';
    const { report, stderr } = await rehearse(
      target.url,
      psqlCommand(
        ...['-v', 'ON_ERROR_STOP=0', '-c', text],
        ...['-c', 'DO $$ BEGIN PERFORM 1 FROM nowhere; END $$'],
      ),
    );
    expect(report.statements).toHaveLength(3);
    expect(report.statements[1]?.error).toMatchObject({
      sqlstate: '42703',
      hint: expect.stringContaining('jobs.note'),
      position: text.indexOf('nota') + 1,
    });
    expect(stderr).toContain('jobs.note');
    expect(report.statements[2]?.error).toMatchObject({
      sqlstate: '42P01',
      where: expect.stringContaining('inline_code_block line 1'),
      internalQuery: expect.stringContaining('FROM nowhere'),
    });
  });

  test('that the command swallows are counted, and do not pass although another statement stays', async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      scriptCommand(`
        const client = await connect();
        await client.query('CREATE TABLE notes (id int)');
        await client.query('SELECT 1/0').catch(() => {});
        await client.end();`),
    );
    expect(exitCode).toBe(1);
    expect(report.command).toMatchObject({ swallowedErrors: [2], failedWithoutError: false });
    expect(report.hazards).toMatchObject([{ code: 'ERRORS_SWALLOWED', severity: 'error', statement: 2 }]);
  });

  test('that a pipe hides behind the exit code of its last program do not pass', async () => {
    const { report, exitCode } = await rehearse(target.url, [
      'sh',
      '-c',
      'printf "CREATE TABLE piped (id int);\\nSELECT 1/0;\\n" | psql -X -v ON_ERROR_STOP=1 "$DATABASE_URL" | tee /dev/null',
    ]);
    expect(exitCode).toBe(1);
    expect(report.command).toMatchObject({ exitCode: 0, swallowedErrors: [2] });
    expect(report.hazards).toMatchObject([{ code: 'ERRORS_SWALLOWED', severity: 'error', statement: 2 }]);
  });

  test('of a deadlock between two migrators of which psql ends with 0 do not pass', async () => {
    await withClient(target.url, (client) =>
      client.query('CREATE TABLE one (id int); CREATE TABLE other (id int)'),
    );
    const migrator = (first: string, second: string) => `BEGIN; ALTER TABLE ${first} ADD ${second}_seen int;
      DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE relation = '${second}'::regclass AND mode = 'AccessExclusiveLock')
        LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;
      ALTER TABLE ${second} ADD ${first}_seen int; COMMIT`;
    const { report, exitCode } = await rehearse(target.url, [
      'sh',
      '-c',
      'printf %s "$1" | psql -X "$DATABASE_URL" & printf %s "$2" | psql -X "$DATABASE_URL" & wait',
      'migrators',
      migrator('one', 'other'),
      migrator('other', 'one'),
    ]);
    expect(exitCode).toBe(1);
    const [victim] = report.statements.filter(({ error }) => error?.sqlstate === '40P01');
    expect(report.command).toMatchObject({ exitCode: 0, swallowedErrors: [victim?.index] });
    expect(report.hazards.map(({ code }) => code)).toContain('ERRORS_SWALLOWED');
  });

  test('that the server never had are told: the command failed, and no statement did', async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      scriptCommand(
        `const client = await connect(); await client.query('SELECT 1'); await client.end(); throw new Error('bad config')`,
      ),
    );
    expect(exitCode).toBe(1);
    expect(report.command).toMatchObject({ swallowedErrors: [], failedWithoutError: true, exitCode: 7 });
  });
});

test('a text too large to be read is sent all the same, and the report says that nobody asked what it does', async () => {
  const { report, exitCode } = await rehearse(
    target.url,
    scriptCommand(`
      const client = await connect();
      await client.query('SELECT 1 /*' + 'x'.repeat(2_200_000) + '*/');
      await client.end();`),
  );
  expect(exitCode).toBe(0);
  expect(report.statements).toMatchObject([{ tag: 'SELECT 1', exactness: 'sampled' }]);
  expect(report.caveats).toContainEqual(
    expect.objectContaining({ path: 'command.refused', kind: 'unmeasured' }),
  );
});

test('locks on what a statement itself drops have its name: indexes, views, sequences, partitioned tables', async () => {
  await withClient(target.url, (client) =>
    client.query(`CREATE TABLE parts (id serial, at date) PARTITION BY RANGE (at); CREATE INDEX parts_at ON parts (at);
    CREATE VIEW seen_parts AS SELECT * FROM parts; CREATE MATERIALIZED VIEW kept_parts AS SELECT * FROM parts`),
  );
  const { report } = await rehearse(
    target.url,
    psqlCommand('-c', 'DROP INDEX parts_at', '-c', 'DROP TABLE parts CASCADE'),
  );
  const names = report.statements.flatMap(({ locks }) => (locks ?? []).map(({ relation }) => relation));
  expect(names.filter((name) => /^relation \d/.test(name))).toEqual([]);
  expect(names).toEqual(
    expect.arrayContaining(['public.parts_at', 'public.parts', 'public.seen_parts', 'public.parts_id_seq']),
  );
});

describe('the setting observe', () => {
  test('sampled lets everything pass as it comes, looks now and then, and says of a text of many statements that it cannot be told which', async () => {
    const alone = ['BEGIN', 'ALTER TABLE jobs ADD COLUMN done bool', 'SELECT pg_sleep(1)', 'COMMIT'];
    const together = 'BEGIN; ALTER TABLE people ADD COLUMN done bool; SELECT pg_sleep(1); COMMIT';
    const { report, exitCode } = await rehearse(
      target.url,
      psqlCommand(...[...alone, together].flatMap((sql) => ['-c', sql])),
      { env: { SAFEMIGRATE_OBSERVE: 'sampled' } },
    );
    expect(exitCode).toBe(0);
    const expected = ['BEGIN', 'ALTER TABLE', 'SELECT 1', 'COMMIT'];
    expect(tags(report.statements)).toEqual([...expected, ...expected]);
    expect(report.statements.map(({ exactness }) => exactness)).toEqual([
      ...['exact', 'sampled', 'sampled', 'exact'],
      ...Array(4).fill('sampled'),
    ]);
    const seen = (statements: readonly StatementSection[]) =>
      statements.flatMap((statement) => locksOf(statement) ?? []);
    expect(seen(report.statements.slice(0, 4))).toContain('ACCESS EXCLUSIVE public.jobs');
    expect(seen(report.statements.slice(4))).toContain('ACCESS EXCLUSIVE public.people');
    expect(report.caveats).toContainEqual(
      expect.objectContaining({ path: 'statements[].durationMs', kind: 'estimate' }),
    );
  });

  test('off tells of no statement, and says so', async () => {
    const { report, exitCode } = await rehearse(target.url, sqlCommand('CREATE TABLE notes (id int)'), {
      env: { SAFEMIGRATE_OBSERVE: 'off' },
    });
    expect(exitCode).toBe(0);
    expect(report.statements).toEqual([]);
    expect(report.caveats).toContainEqual(
      expect.objectContaining({ path: 'statements', kind: 'unmeasured' }),
    );
    expect(report.schema?.changes).toMatchObject([{ object: 'public.notes' }]);
  });

  test('off keeps the guards up', async () => {
    const { report, exitCode } = await rehearse(target.url, sqlCommand('CREATE ROLE sneaky'), {
      env: { SAFEMIGRATE_OBSERVE: 'off' },
    });
    expect(exitCode).toBe(1);
    expect(report.command.refused).toMatchObject([{ what: 'CREATE ROLE' }]);
  });
});

describe('passwords that statements spell out', () => {
  const SECRET = 'hunter2-of-the-test';
  const STATEMENTS = [
    `CREATE ROLE teller LOGIN PASSWORD '${SECRET}'`,
    `CREATE ROLE teller2 PASSWORD E'${SECRET}'`,
    'CREATE EXTENSION postgres_fdw',
    'CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw',
    `CREATE USER MAPPING FOR postgres SERVER far OPTIONS (user 'u', password '${SECRET}')`,
    `SELECT 'host=db password=${SECRET} user=x'`,
    `SELECT 'postgresql://u:${SECRET}@db/x'`,
    `DO $$ BEGIN EXECUTE 'CREATE ROLE teller3 PASSWORD ''${SECRET}'''; END $$`,
    `DO $$ BEGIN EXECUTE format('CREATE ROLE teller4 PASSWORD %L', '${SECRET}'); END $$`,
    `DO $$ BEGIN EXECUTE 'CREATE ROLE teller5 PASSWORD ' || quote_literal('${SECRET}'); END $$`,
    `ALTER ROLE nobody_at_all PASSWORD '${SECRET}'`,
    `DO $$ BEGIN EXECUTE 'ALTER ROLE nobody_at_all PASSWORD ''${SECRET}'''; END $$`,
  ];

  test('are in no output and no report', async () => {
    const folder = temporaryFolder();
    const { report, stdout, stderr } = await rehearse(
      target.url,
      scriptCommand(`
        const client = await connect();
        for (const sql of JSON.parse(process.env.STATEMENTS)) await client.query(sql).catch(() => {});
        await client.end();`),
      {
        args: ['--report', 'r.txt', '--permit', 'cluster', '--permit', 'external'],
        env: { STATEMENTS: JSON.stringify(STATEMENTS) },
        folder,
      },
    );
    expect(report.statements).toHaveLength(STATEMENTS.length);
    expect(report.statements.filter(({ error }) => error)).toHaveLength(2);
    expect(lines(stdout + stderr).filter((line) => line.includes(SECRET))).toEqual([]);
    expect(readFileSync(path.join(folder, 'r.txt'), 'utf8').includes(SECRET)).toBe(false);
  });
});

describe('the connection', () => {
  test('is there for hundreds of clients at a time', async () => {
    const server = await ownServer(18, { settings: { max_connections: '320' } });
    try {
      await withClient(server.url, (client) => client.query('CREATE DATABASE crowded'));
      const { report, exitCode, stderr } = await rehearse(
        withDatabase(server.url, 'crowded'),
        scriptCommand(`
          const clients = await Promise.all(Array.from({ length: 300 }, () => connect()));
          await clients[0].query('CREATE TABLE people (id int)');
          await Promise.all(clients.map((client, n) => client.query('INSERT INTO people VALUES ($1)', [n])));
          const { rows } = await clients[299].query('SELECT count(DISTINCT id)::int AS n FROM people');
          await Promise.all(clients.map((client) => client.end()));
          if (rows[0].n !== 300) throw new Error('rows are missing: ' + rows[0].n);`),
      );
      expect(exitCode, stderr).toBe(0);
      expect(new Set(report.statements.map(({ session }) => session)).size).toBe(300);
      expect(report.statements).toHaveLength(302);
      expect(report.statements.filter(({ error }) => error)).toEqual([]);
    } finally {
      await server.stop();
    }
  });

  test('passes a cancel request on, as Ctrl-C in psql sends one', async () => {
    const script = `psql -X "$DATABASE_URL" -c "SELECT 'asleep', pg_sleep(600)" & child=$!
       until psql -X -At "$DATABASE_URL" -c "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%asleep%' AND wait_event = 'PgSleep'" | grep -q 1; do :; done
       kill -INT $child; wait $child; exit 0`;
    const { report, exitCode } = await rehearse(target.url, ['sh', '-c', script], ON_PURPOSE);
    expect(exitCode).toBe(0);
    const cancelled = report.statements.find(({ sql }) => sql.startsWith("SELECT 'asleep'"));
    expect(cancelled?.error?.sqlstate).toBe('57014');
  });

  test('copies in and out', async () => {
    const folder = temporaryFolder();
    const file = path.join(folder, 'copy.sql');
    writeFileSync(file, 'COPY people FROM stdin;\n1\tAda\n2\tGrace\n\\.\nCOPY people TO stdout;\n');
    const { report, exitCode, stderr } = await rehearse(target.url, psqlCommand('-f', file));
    expect(exitCode).toBe(0);
    expect(stderr).toContain('1\tAda\n2\tGrace\n');
    expect(report.statements.map((each) => [each.tag, each.rows, each.exactness, locksOf(each)])).toEqual([
      ['COPY 2', 2, 'exact', expect.arrayContaining(['ROW EXCLUSIVE public.people'])],
      ['COPY 2', 2, 'exact', expect.arrayContaining(['ACCESS SHARE public.people'])],
    ]);
  });

  test('brings notifications, and fetches from cursors', async () => {
    const { report, exitCode, stderr } = await rehearse(
      target.url,
      scriptCommand(`
        const client = await connect();
        await client.query('BEGIN');
        await client.query('DECLARE c CURSOR FOR SELECT id FROM jobs ORDER BY id');
        await client.query('FETCH 300 FROM c');
        const { rows } = await client.query('FETCH ALL FROM c');
        console.error(rows.length, rows[0].id);
        await client.query('COMMIT');
        await client.end();
        const [listener, speaker] = [await connect(), await connect()];
        const heard = new Promise((resolve) => listener.on('notification', resolve));
        await listener.query('LISTEN news');
        await speaker.query("NOTIFY news, 'it is done'");
        console.error((await heard).payload);
        await listener.end();
        await speaker.end();`),
    );
    expect(exitCode).toBe(0);
    expect(stderr).toMatch(/700 301\n(.*\n)*.*it is done/);
    expect(report.statements.map((each) => [each.tag, each.explicit])).toEqual([
      ['BEGIN', true],
      ['DECLARE CURSOR', true],
      ['FETCH 300', true],
      ['FETCH 700', true],
      ['COMMIT', true],
      ['LISTEN', false],
      ['NOTIFY', false],
    ]);
  });

  test('is refused to replication, with the reason', async () => {
    const { exitCode, stderr } = await rehearse(target.url, [
      'sh',
      '-c',
      'psql -X "$DATABASE_URL?replication=database" -c IDENTIFY_SYSTEM',
    ]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('no replication connections');
  });

  test('leaves no statement running on the server when the command is killed', async () => {
    const script = `psql -X "$DATABASE_URL" -c "SELECT 'orphan', pg_sleep(600)" & child=$!
       until psql -X -At "$DATABASE_URL" -c "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%orphan%' AND wait_event = 'PgSleep'" | grep -q 1; do :; done
       kill -KILL $child
       until psql -X -At "$DATABASE_URL" -c "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%orphan%' AND wait_event = 'PgSleep'" | grep -q 0; do :; done`;
    const { report, exitCode } = await rehearse(target.url, ['sh', '-c', script], ON_PURPOSE);
    expect(exitCode).toBe(0);
    const orphan = report.statements.find(({ sql }) => sql.startsWith("SELECT 'orphan'"));
    expect(orphan?.error).not.toBeNull();
    expect(await clonesOf(18, target.name)).toEqual([]);
    await withClient(serverUrl(18), async (client) => {
      const left = await client.query(
        "SELECT FROM pg_stat_activity WHERE query LIKE '%orphan%' AND pid <> pg_backend_pid()",
      );
      expect(left.rowCount).toBe(0);
    });
  });
});

test('times of a command that reads much that the clone has not cached are called estimates', async () => {
  const large = await temporaryDatabase(18, {
    sql: 'CREATE TABLE large AS SELECT n AS id, repeat(md5(n::text), 59) AS v FROM generate_series(1, 45000) n',
  });
  const cold = (caveats: { path: string }[]) =>
    caveats.filter(({ path }) => path === 'statements[].durationMs');
  const scanned = await rehearse(large.url, sqlCommand('SELECT count(*) FROM large'));
  expect(cold(scanned.report.caveats)).toHaveLength(1);
  const unscanned = await rehearse(large.url, sqlCommand('ALTER TABLE large ADD COLUMN c int'));
  expect(cold(unscanned.report.caveats)).toEqual([]);
  await large.drop();
});

test('locks of ANALYZE outside a transaction are not called exact, since it commits after each partition', async () => {
  const parted = await temporaryDatabase(18, {
    sql: `CREATE TABLE parted (id int) PARTITION BY RANGE (id);
      CREATE TABLE part PARTITION OF parted FOR VALUES FROM (1) TO (10); INSERT INTO parted VALUES (1)`,
  });
  const script = `const client = await connect();
    await client.query({ text: 'ANALYZE parted', queryMode: 'extended' });
    await client.query('ANALYZE parted');
    await client.end();`;
  const { report } = await rehearse(parted.url, scriptCommand(script));
  const [extended, simple] = report.statements;
  expect(extended?.exactness).not.toBe('exact');
  expect(simple?.exactness).toBe('exact');
  expect(simple?.locks?.map(({ relation }) => relation)).toContain('public.part');
  await parted.drop();
});
