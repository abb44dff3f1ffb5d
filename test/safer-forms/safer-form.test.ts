import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { runProgram, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { profiled, sampleProfile } from '../helpers/profiles.ts';
import { psqlCommand, rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';
import { startTraffic } from '../helpers/traffic.ts';

beforeAll(() => useOwnServers(18));

const TABLES = `CREATE TABLE orders (id bigint PRIMARY KEY, status text, at timestamptz);
  INSERT INTO orders SELECT n, 'open', now() FROM generate_series(1, 12000) AS n;
  CREATE TABLE customers (id bigint PRIMARY KEY);
  ANALYZE;`;
const MIGRATION = `BEGIN; ALTER TABLE customers ADD note text;
  UPDATE orders SET status = 'paid', at = clock_timestamp(); CREATE INDEX orders_status ON orders (status); COMMIT`;

test('a safer form is written if a second clone proves it, and psql runs it with the same result', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const folder = temporaryFolder();
  const [file, page, note] = ['safer.sql', 'report.html', 'report.md'].map((name) => path.join(folder, name));
  const args = ['--propose', file, '--report', page, '--report', note] as string[];
  const { report, exitCode } = await rehearse(target.url, sqlCommand(MIGRATION), { args });
  expect(exitCode).toBe(0);
  const { proposal } = report;
  expect(proposal, JSON.stringify(proposal?.reasons)).toMatchObject({
    outcome: 'proved',
    file,
    reasons: [],
    left: [],
    tablesCompared: 2,
    tablesSkipped: 0,
    tolerated: ['public.orders: other values in at'],
  });
  expect(proposal?.safer?.readsBlockedMs).toBeLessThan(proposal?.original.readsBlockedMs ?? 0);
  expect(statSync(file ?? '').mode & 0o777).toBe(0o600);
  expect(readFileSync(page ?? '', 'utf8')).toMatch(
    /Safer form[\s\S]*As it is[\s\S]*CREATE INDEX CONCURRENTLY/,
  );
  expect(readFileSync(note ?? '', 'utf8')).toMatch(/Safer form: proved[\s\S]*reads blocked, at most/);
  const receipt = path.join(folder, 'receipt.json');
  const run = psqlCommand('-f', file ?? '');
  const safer = await rehearse(target.url, run, { args: ['--receipt', receipt] });
  expect(safer.report.schema?.after).toBe(report.schema?.after);
  expect(safer.report.hazards.map(({ code }) => code)).not.toContain('BACKFILL_WITH_DDL');
  expect(report.target.changes).toEqual([]);
  const applied = await rehearse(target.url, run, { args: ['apply', '--yes', '--receipt', receipt] });
  expect(applied.exitCode, applied.stderr).toBe(0);
  expect(applied.report.apply).toMatchObject({ outcome: 'applied', rehearsal: safer.report.run.id });
});

test('the lock on an index that is built keeps nobody from reading, and is not the strongest', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const folder = temporaryFolder();
  const [file, note] = [path.join(folder, 'safer.sql'), path.join(folder, 'report.md')];
  const { report } = await rehearse(target.url, sqlCommand('CREATE INDEX built ON orders (status)'), {
    args: ['--propose', file, '--report', note],
  });
  expect(report.proposal).toMatchObject({ outcome: 'proved', original: { readsBlockedMs: 0 } });
  expect(report.statements[0]?.locks).toContainEqual(
    expect.objectContaining({ relation: 'public.built', indexOf: 'public.orders', blocks: [] }),
  );
  expect(readFileSync(note, 'utf8')).toMatch(/#### Safer form[\s\S]*SHARE on `?public\.orders/);
});

test('what no script takes away stays in it, with the reason', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const file = path.join(temporaryFolder(), 'safer.sql');
  const { report } = await rehearse(
    target.url,
    sqlCommand(`CREATE INDEX i ON orders (status); ALTER TABLE orders ADD EXCLUDE (id WITH =);
      ALTER TABLE customers ALTER id TYPE numeric; ALTER TABLE orders ALTER at TYPE date`),
    { args: ['--propose', file] },
  );
  expect(report.proposal, JSON.stringify(report.proposal?.reasons)).toMatchObject({ outcome: 'proved' });
  expect(report.proposal?.left.map(({ statement, codes }) => [statement, ...codes]).sort()).toEqual([
    [2, 'EXCLUSION_CONSTRAINT'],
    [3, 'TYPE_CHANGE_REWRITES'],
    [4, 'TYPE_CHANGE_REWRITES'],
  ]);
  const text = readFileSync(file, 'utf8');
  expect(text).toMatch(
    /^-- Left as it was \(EXCLUSION_CONSTRAINT\): its index cannot be built.*\nALTER TABLE orders/m,
  );
  const reasons = text.match(/^-- Left as it was \(TYPE_CHANGE_REWRITES\): .*\nALTER TABLE \w+/gm);
  expect(reasons).toEqual([
    expect.stringMatching(/: more depends on the column .* customers_pkey.*\nALTER TABLE customers/),
    expect.stringMatching(/: --propose-all writes it: .*\nALTER TABLE orders/),
  ]);
});

test('a safer form is announced only if a script of it can be written', async () => {
  const target = await temporaryDatabase(18, { sql: `${TABLES} CREATE TABLE keyless (n int);` });
  const { report } = await rehearse(
    target.url,
    sqlCommand(`CREATE INDEX i ON orders (status); ALTER TABLE customers ALTER id TYPE numeric;
      ALTER TABLE orders ALTER at TYPE date; ALTER TABLE keyless ADD luck float DEFAULT random()`),
  );
  const forms = report.hazards
    .filter(({ code }) => /_REWRITES$|^INDEX_/.test(code))
    .map(({ code, relation, saferForm }) => [code, relation, saferForm]);
  expect(forms.sort()).toEqual([
    ['INDEX_NOT_CONCURRENT', 'public.orders', 'default'],
    ['TYPE_CHANGE_REWRITES', 'public.customers', undefined],
    ['TYPE_CHANGE_REWRITES', 'public.orders', 'asked'],
    ['VOLATILE_DEFAULT_REWRITES', 'public.keyless', undefined],
  ]);
});

test('a form that blocks others for longer than the original is not offered', async () => {
  const target = await temporaryDatabase(18, {
    // The change of type waits for a time by the size of the table, which the batches double.
    sql: `CREATE TABLE sized (id int PRIMARY KEY, n int); INSERT INTO sized SELECT n, n FROM generate_series(1, 3000) n;
      CREATE FUNCTION waited(n int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_sleep(pg_relation_size('sized') / 8192 * 0.02); RETURN n; END $$;`,
  });
  const folder = temporaryFolder();
  const [file, note] = [path.join(folder, 'safer.sql'), path.join(folder, 'report.md')];
  const { report } = await rehearse(
    target.url,
    sqlCommand(`ALTER TABLE sized ADD at timestamptz DEFAULT clock_timestamp(),
      ALTER n TYPE bigint USING CASE id WHEN 1 THEN waited(n) ELSE n END`),
    { args: ['--propose', file, '--report', note] },
  );
  expect(report.proposal).toMatchObject({ outcome: 'none', file: null, changes: [] });
  expect(report.proposal?.safer?.readsBlockedMs).toBeGreaterThan(
    report.proposal?.original.readsBlockedMs ?? 0,
  );
  expect(report.proposal?.left).toContainEqual({
    statement: 1,
    codes: ['VOLATILE_DEFAULT_REWRITES'],
    words: expect.stringMatching(/^it was tried, and is not better: reads were blocked for .* instead of /),
  });
  expect(readFileSync(note, 'utf8')).toMatch(
    /no safer form is proposed: the one that was tried is not better/,
  );
  expect(existsSync(file)).toBe(false);
});

test('a script whose build was interrupted is run again as it is', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const file = path.join(temporaryFolder(), 'index.sql');
  await rehearse(target.url, sqlCommand('CREATE INDEX i ON orders (status)'), { args: ['--propose', file] });
  const run = () => runProgram(psqlCommand('-f', file), { env: { DATABASE_URL: target.url } });
  await withClient(target.url, async (client) => {
    const valid = async () =>
      (await client.query("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('i')")).rows;
    await withClient(target.url, async (other) => {
      // The build waits for transactions that were there before.
      await other.query('BEGIN; UPDATE orders SET status = status WHERE id = 1');
      const first = run();
      await until('the build was cancelled', async () => {
        const { rows } = await client.query(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity
          WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock'`);
        return rows.length > 0;
      });
      expect((await first).exitCode).toBe(3);
    });
    expect(await valid()).toEqual([{ indisvalid: false }]);
    const again = await run();
    expect(again.exitCode, again.stderr).toBe(0);
    expect(await valid()).toEqual([{ indisvalid: true }]);
  });
});

test('a key that a new column gets from its default is filled first', async () => {
  const target = await temporaryDatabase(18, {
    sql: `CREATE TABLE uqk (k int NOT NULL UNIQUE, v text); INSERT INTO uqk SELECT n FROM generate_series(1, 20000) n`,
  });
  const file = path.join(temporaryFolder(), 'safer.sql');
  const { report } = await rehearse(
    target.url,
    sqlCommand('ALTER TABLE uqk ADD COLUMN id uuid DEFAULT gen_random_uuid() PRIMARY KEY'),
    { args: ['--propose', file] },
  );
  expect(report.proposal, JSON.stringify(report.proposal?.reasons)).toMatchObject({
    outcome: 'proved',
    left: [],
  });
});

test('a form that fails is left out with the reason, and the rest is proved', async () => {
  const target = await temporaryDatabase(18, {
    sql: `${TABLES} CREATE TABLE taken (id int); CREATE INDEX customers_id_key ON taken (id);`,
  });
  const file = path.join(temporaryFolder(), 'safer.sql');
  const { report } = await rehearse(
    target.url,
    // PostgreSQL names the second constraint customers_id_key1.
    sqlCommand(`CREATE INDEX orders_status ON orders (status); ALTER TABLE customers ADD UNIQUE (id)`),
    { args: ['--propose', file] },
  );
  expect(report.proposal, JSON.stringify(report.proposal?.reasons)).toMatchObject({
    outcome: 'proved',
    changes: [{ statement: 1 }],
    left: [
      {
        statement: 2,
        codes: ['CONSTRAINT_BUILDS_INDEX'],
        words: expect.stringMatching(/^its safer form failed: .*customers_id_key.*already exists/),
      },
    ],
  });
  expect(readFileSync(file, 'utf8')).toMatch(
    /CREATE INDEX CONCURRENTLY[\s\S]*Left as it was[\s\S]*ADD UNIQUE/,
  );
});

test('what cannot be proved is not proposed, with what differs', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const file = path.join(temporaryFolder(), 'random.sql');
  const { report, stderr } = await rehearse(
    target.url,
    sqlCommand('ALTER TABLE orders ADD luck double precision DEFAULT random()'),
    { args: ['--propose', file] },
  );
  expect(report.proposal).toMatchObject({
    outcome: 'refused',
    reasons: ['it leaves other rows: public.orders: other values in luck'],
  });
  expect(stderr).not.toMatch(/A safer form exists/);
  expect(existsSync(file)).toBe(false);
});

describe('what cannot be written is refused before another clone is made', () => {
  const recorded = (...names: string[]) =>
    `INSERT INTO schema_migrations (version) VALUES ${names.map((name) => `('${name}')`).join(', ')}`;
  const index = 'CREATE INDEX orders_status ON orders (status)';

  const unwritable: [string, string[], RegExp, NodeJS.ProcessEnv?][] = [
    [
      'copied rows',
      psqlCommand('-c', index, '-c', `\\copy customers FROM PROGRAM 'printf "1000\\n"'`),
      /statement 2 copies rows from the command \(COPY … FROM STDIN\)/,
    ],
    [
      'a loop of more than 2,000 statements',
      scriptCommand(`const client = await connect();
        await client.query('${index}');
        for (let n = 1; n <= 2100; n++) await client.query('INSERT INTO customers VALUES (' + n + ')');
        await client.end();`),
      /more than 2,000 statements/,
    ],
    [
      'no migration of the tool whose format is wanted',
      sqlCommand(index),
      /recorded no migration in schema_migrations, as rails does/,
      { SAFEMIGRATE_PROPOSE_FORMAT: 'rails' },
    ],
    [
      'several migrations that are recorded in one statement',
      sqlCommand(`${index}; ${recorded('1', '2')}`),
      /recorded several migrations in one statement/,
      { SAFEMIGRATE_PROPOSE_FORMAT: 'rails' },
    ],
  ];

  test.each(inThisShare(unwritable))('%s', async (_what, command, reason, env = {}) => {
    const journal = 'CREATE TABLE schema_migrations (version text PRIMARY KEY);';
    const target = await temporaryDatabase(18, { sql: journal + TABLES });
    const [file = '', audit = ''] = ['safer.sql', 'audit'].map((name) => path.join(temporaryFolder(), name));
    const { report } = await rehearse(target.url, command, {
      env,
      args: ['--propose', file, '--audit', audit],
    });
    expect(report.proposal).toMatchObject({ outcome: 'refused', safer: null });
    expect(report.proposal?.reasons.join()).toMatch(reason);
    expect(readFileSync(audit, 'utf8').match(/CREATE DATABASE/g)).toHaveLength(1);
    expect(existsSync(file)).toBe(false);
  });
});

test('with a profile, what production has counts, before and in the proof', async () => {
  const target = await temporaryDatabase(18, {
    sql: `CREATE TABLE orders (id bigint PRIMARY KEY, status text);
      INSERT INTO orders SELECT n, 'open' FROM generate_series(1, 50) AS n; ANALYZE`,
  });
  const folder = temporaryFolder();
  const [file = '', profile = ''] = ['safer.sql', 'profile.json'].map((name) => path.join(folder, name));
  writeFileSync(
    profile,
    JSON.stringify(
      sampleProfile([profiled('public.orders', 20e9, 50e6)], { takenAt: new Date().toISOString() }),
    ),
  );
  const command = sqlCommand("UPDATE orders SET status = 'paid'");
  const without = await rehearse(target.url, command, { args: ['--propose', file] });
  expect(without.report.proposal).toMatchObject({ outcome: 'none', changes: [] });
  const { report } = await rehearse(target.url, command, {
    args: ['--propose', file, '--profile', profile],
  });
  expect(report.proposal, JSON.stringify(report.proposal?.reasons)).toMatchObject({
    outcome: 'proved',
    reasons: [],
    changes: [{ codes: ['BACKFILL_IN_ONE_TRANSACTION'] }],
  });
  expect(readFileSync(file, 'utf8')).toContain('LIMIT 5000');
});

test('a file that exists is not overwritten, and nothing is touched', async () => {
  const file = path.join(temporaryFolder(), 'mine.sql');
  writeFileSync(file, 'SELECT 1;');
  const { exitCode, stderr } = await safemigrate(['--propose', file, '--', 'true'], {
    env: { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' },
  });
  expect(exitCode).toBe(2);
  expect(stderr).toMatch(/mine\.sql exists, and is not overwritten/);
  expect(readFileSync(file, 'utf8')).toBe('SELECT 1;');
});

test('parameters of prepared statements are values in the script', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const file = path.join(temporaryFolder(), 'parameters.sql');
  const program = `
    const pg = require(${JSON.stringify(createRequire(import.meta.url).resolve('pg'))});
    const client = new pg.Client(process.env.DATABASE_URL);
    await client.connect();
    await client.query('UPDATE orders SET status = $1 WHERE id > $2', ["it's", 100]);
    await client.end();`;
  const command = [process.execPath, '-e', `(async () => {${program}})()`];
  const { report } = await rehearse(target.url, command, { args: ['--propose', file] });
  expect(report.proposal, JSON.stringify(report.proposal?.reasons)).toMatchObject({
    outcome: 'proved',
    tolerated: [],
    changes: [{ codes: ['BACKFILL_IN_ONE_TRANSACTION'] }],
  });
  expect(readFileSync(file, 'utf8')).toContain("SET status = 'it''s'");
});

test('the files for Prisma do the same as messages of one file each', async () => {
  const journal = 'CREATE TABLE _prisma_migrations (id text, migration_name text);';
  const [target, other] = await Promise.all(
    [1, 2].map(() => temporaryDatabase(18, { sql: journal + TABLES })),
  );
  const folder = path.join(temporaryFolder(), 'proposed');
  const recorded = "INSERT INTO _prisma_migrations (id, migration_name) VALUES ('1', '2026_paid')";
  const migration = sqlCommand(`${MIGRATION.replace(', at = clock_timestamp()', '')}; ${recorded}`);
  const { report } = await rehearse(target?.url ?? '', migration, {
    env: { SAFEMIGRATE_PROPOSE_FORMAT: 'prisma' },
    args: ['--propose', folder],
  });
  expect(report.proposal).toMatchObject({ outcome: 'proved', reasons: [], file: folder });
  const names = readdirSync(folder).sort();
  expect(names).toEqual(['2026_paid_1', '2026_paid_2', '2026_paid_3']);
  await withClient(other?.url ?? '', async (client) => {
    for (const name of names)
      await client.query(readFileSync(path.join(folder, name, 'migration.sql'), 'utf8'));
    const { rows } = await client.query("SELECT count(*)::int FROM orders WHERE status = 'paid'");
    expect(rows).toEqual([{ count: 12_000 }]);
  });
  const after = await rehearse(other?.url ?? '', ['true']);
  expect(after.report.schema?.after).toBe(report.schema?.after);
});

test('of several migrations for Prisma each has what was sent after it was recorded', async () => {
  const journal = 'CREATE TABLE _prisma_migrations (id text, migration_name text, finished_at timestamptz);';
  const target = await temporaryDatabase(18, { sql: journal + TABLES });
  const folder = path.join(temporaryFolder(), 'proposed');
  const begun = (name: string) =>
    `INSERT INTO _prisma_migrations (id, migration_name) VALUES ('1', '${name}')`;
  const done = 'UPDATE _prisma_migrations SET finished_at = now()';
  const sent = [
    begun('1_table'),
    'CREATE TABLE notes ()',
    done,
    begun('2_index'),
    'CREATE INDEX i ON orders (status)',
    done,
  ];
  const command = psqlCommand(...sent.flatMap((sql) => ['-c', sql]));
  const { report } = await rehearse(target.url, command, {
    env: { SAFEMIGRATE_PROPOSE_FORMAT: 'prisma' },
    args: ['--propose', folder],
  });
  expect(report.proposal, JSON.stringify(report.proposal?.reasons)).toMatchObject({ outcome: 'proved' });
  const names = readdirSync(folder).sort();
  expect(names).toEqual(['2_index']);
  expect(readFileSync(path.join(folder, '2_index', 'migration.sql'), 'utf8')).not.toMatch(/notes/);
});

test('both are measured under the same load', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const held = sqlCommand(
    'BEGIN; ALTER TABLE orders ADD w int; ALTER TABLE customers ADD w int; DO $$ BEGIN PERFORM pg_sleep(1); END $$; COMMIT',
  );
  const traffic = await startTraffic(target.url, 4, ['UPDATE orders SET status = status WHERE id = $1']);
  try {
    const { report } = await rehearse(target.url, held, {
      env: {
        SAFEMIGRATE_CLONE: 'cluster',
        SAFEMIGRATE_LOAD_WINDOW: '4s',
        SAFEMIGRATE_LOAD_WARMUP: '1s',
      },
      args: ['--load', '--propose', path.join(temporaryFolder(), 'safer.sql')],
    });
    const { proposal } = report;
    expect(proposal, JSON.stringify(proposal?.reasons)).toMatchObject({ outcome: 'proved' });
    expect(report.caveats.filter(({ path: at }) => at.startsWith('proposal'))).toEqual([]);
    expect(proposal?.original.load?.longestWaitMs).toBe(report.load?.longestWaitMs);
    expect(proposal?.original.load?.longestWaitMs).toBeGreaterThan(700);
    expect(proposal?.safer?.load?.longestWaitMs).toBeLessThan(proposal?.original.load?.longestWaitMs ?? 0);
    expect(report.target.changes).toEqual([]);
  } finally {
    await traffic.stop();
  }
}, 60_000);

test('a transaction whose only hazard is the order of its locks takes them at its beginning', async () => {
  const target = await temporaryDatabase(18, { sql: 'CREATE TABLE a (id int); CREATE TABLE b (id int)' });
  const file = path.join(temporaryFolder(), 'safer.sql');
  const both = 'BEGIN; ALTER TABLE a ADD x int; ALTER TABLE b ADD x int; COMMIT';
  const { report } = await rehearse(target.url, psqlCommand('-c', both), { args: ['--propose', file] });
  expect(report.proposal?.reasons).toEqual([]);
  expect(report.proposal).toMatchObject({
    outcome: 'proved',
    changes: [{ codes: ['SEVERAL_STRONG_LOCKS'] }],
  });
  expect(readFileSync(file, 'utf8')).toMatch(
    /BEGIN;\nLOCK TABLE ONLY public\.a, ONLY public\.b IN ACCESS EXCLUSIVE MODE;\nALTER TABLE a .*;\nALTER TABLE b /,
  );
});
