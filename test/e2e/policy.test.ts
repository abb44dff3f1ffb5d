import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { readReport } from '../helpers/read-report.ts';
import { rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

const SCHEMA = `
  CREATE TABLE users (id int PRIMARY KEY, legacy_email text);
  INSERT INTO users SELECT n, CASE WHEN n % 4 > 0 THEN 'x' END FROM generate_series(1, 1000) n;
  CREATE TABLE sessions (id int); INSERT INTO sessions SELECT generate_series(1, 50);
  CREATE TABLE schema_migrations (version text)`;

let target: TemporaryDatabase;
beforeAll(() => useOwnServers(18));
beforeAll(async () => {
  target = await temporaryDatabase(18, { sql: SCHEMA });
});

/** Exit code 0 whatever the server says. */
const swallowing = (sql: string) =>
  scriptCommand(
    'const client = await connect(); await client.query(args[0]).catch(() => {}); await client.end()',
    sql,
  );
const MISTAKE = swallowing('SELEC 1');

describe('a command that says it succeeded although the server refused it', () => {
  test('does not pass, and the refusal names the flag with which it does', async () => {
    const refused = await rehearse(target.url, MISTAKE);
    expect(refused.exitCode).toBe(1);
    expect(refused.report.verdict.reasons).toEqual([
      expect.stringMatching(/^ERRORS_SWALLOWED: .*--accept 'ERRORS_SWALLOWED="…"'$/),
    ]);
    const allowed = await rehearse(target.url, MISTAKE, {
      args: ['--accept', 'ERRORS_SWALLOWED="it tries things out"'],
    });
    expect(allowed.exitCode).toBe(0);
    expect(allowed.report.hazards).toMatchObject([{ code: 'ERRORS_SWALLOWED', allowed: true }]);
  });

  test('may be allowed in the config file until a day, after which the refusal says that it is over', async () => {
    const folder = temporaryFolder();
    const config = (until: string) =>
      writeFileSync(
        path.join(folder, 'safemigrate.config.json'),
        JSON.stringify({ accept: [{ code: 'ERRORS_SWALLOWED', reason: 'agreed with ops', until }] }),
      );
    config('2999-12-31');
    expect((await rehearse(target.url, MISTAKE, { folder })).exitCode).toBe(0);
    config('2020-01-31');
    const { exitCode, report } = await rehearse(target.url, MISTAKE, { folder });
    expect(exitCode).toBe(1);
    expect(report.verdict.reasons[0]).toContain(
      'the allowance until 2020-01-31 ("agreed with ops") has expired',
    );
  });
});

test('a command that fails after a part was committed is half applied', async () => {
  const body = `const client = await connect(); await client.query('CREATE TABLE half (id int)');
    await client.query('CREATE TABLE half (id int)')`;
  const { exitCode, report } = await rehearse(target.url, scriptCommand(body));
  expect(exitCode).toBe(1);
  expect(report.hazards).toMatchObject([{ code: 'HALF_APPLIED', evidence: 'It changed public.half.' }]);
});

test.each([
  ['leaves its transaction open', 'BEGIN; CREATE TABLE lost (id int)', ['NEVER_COMMITTED']],
  [
    'leaves it prepared',
    "BEGIN; CREATE TABLE lost (id int); PREPARE TRANSACTION 'left open'",
    ['TRANSACTION_LEFT_PREPARED'],
  ],
])('a command that %s', async (_, sql, expected) => {
  const { exitCode, report } = await rehearse(target.url, sqlCommand(sql));
  expect(report.command.exitCode).toBe(0);
  expect(report.hazards.map(({ code }) => code)).toEqual(expected);
  expect(exitCode).toBe(1);
});

test('transactions that are taken back, have only looked, or have read as pg_dump does may stay open', async () => {
  const silent = [
    'BEGIN; CREATE TABLE lost (id int); ROLLBACK',
    'BEGIN; SELECT count(*) FROM users',
    'BEGIN; COPY public.users (id) TO stdout; COPY (SELECT 1) TO stdout',
  ];
  const body = `for (const sql of args) {
    const client = await connect();
    await client.query(sql);
    await client.end();
  }`;
  const { exitCode, report } = await rehearse(target.url, scriptCommand(body, ...silent));
  expect(report.command.exitCode).toBe(0);
  expect(report.statements.map(({ session }) => session)).toEqual([1, 1, 1, 2, 2, 3, 3, 3]);
  expect(report.hazards).toEqual([]);
  expect(exitCode).toBe(0);
});

test('a migration that is only noted as done is a warning, which fails where the policy says so', async () => {
  const command = sqlCommand("INSERT INTO schema_migrations VALUES ('1')");
  const passed = await rehearse(target.url, command);
  expect(passed.exitCode).toBe(0);
  expect(passed.report.hazards).toMatchObject([{ code: 'BOOKKEEPING_ONLY', severity: 'warning' }]);
  expect((await rehearse(target.url, command, { args: ['--fail-on', 'warning'] })).exitCode).toBe(1);
});

describe('a budget', () => {
  const slow = sqlCommand('BEGIN; ALTER TABLE users ADD note text; SELECT pg_sleep(0.2); COMMIT');

  test('for locks is overdrawn by the longest of the mode, unless one for the relation is wider', async () => {
    const general = ['--limit', 'lock=ACCESS EXCLUSIVE=100ms'];
    const { exitCode, report } = await rehearse(target.url, slow, { args: general });
    expect(exitCode).toBe(1);
    const [reason = ''] = report.verdict.reasons;
    expect(reason).toMatch(/ACCESS EXCLUSIVE on public\.users .*the limit is 100 ms/);
    const wayOut = /--limit '(lock=public\.users:ACCESS EXCLUSIVE=\d+m?s)'/.exec(reason)?.[1] ?? '';
    const wider = wayOut.replace(/=\d.*/, '=1m');
    expect((await rehearse(target.url, slow, { args: [...general, '--limit', wider] })).exitCode).toBe(0);
  });

  test('for locks is not overdrawn by those on what the command makes, which nobody else can see', async () => {
    const making = sqlCommand(
      'BEGIN; CREATE TABLE made (id bigserial PRIMARY KEY); CREATE VIEW shown AS SELECT * FROM made; LOCK TABLE users IN SHARE MODE; SELECT pg_sleep(0.2); COMMIT',
    );
    const args = ['--limit', 'lock=ACCESS EXCLUSIVE=100ms'];
    const { exitCode, report } = await rehearse(target.url, making, { args });
    expect(exitCode).toBe(0);
    const locks = report.statements.flatMap((statement) => statement.locks ?? []);
    const blocking = (mode: string) =>
      locks.filter((lock) => lock.mode === mode).map(({ relation, blocks }) => [relation, blocks.length > 0]);
    expect(blocking('SHARE')).toContainEqual(['public.users', true]);
    for (const relation of ['public.made_pkey', 'public.made_id_seq', 'public.shown'])
      expect(blocking('ACCESS EXCLUSIVE')).toContainEqual([relation, false]);
    expect(blocking('ACCESS EXCLUSIVE').filter(([, blocks]) => blocks)).toEqual([]);
  });

  test('for time, WAL and disk is overdrawn, each with its own reason', async () => {
    const args = ['--limit', 'duration=10ms', '--limit', 'wal=1kB', '--limit', 'disk=1kB'];
    const writing = sqlCommand('INSERT INTO sessions SELECT generate_series(1, 5000)');
    const { exitCode, report } = await rehearse(target.url, writing, { args });
    expect(exitCode).toBe(1);
    expect(report.verdict.reasons.map((reason) => /--limit [a-z]+/.exec(reason)?.[0])).toEqual([
      '--limit duration',
      '--limit wal',
      '--limit disk',
    ]);
  });

  test('for locks cannot be kept where nobody looked', async () => {
    const { exitCode, report } = await rehearse(target.url, slow, {
      args: ['--limit', 'lock=SHARE=1s'],
      env: { SAFEMIGRATE_OBSERVE: 'off' },
    });
    expect(exitCode).toBe(1);
    expect(report.verdict.reasons).toEqual([expect.stringContaining('--limit lock counts as exceeded')]);
  });
});

test('mistakes in the policy are told together, and nothing is touched', async () => {
  const { exitCode, stderr } = await safemigrate([
    ...['--accept', 'NO_SUCH_HAZARD=x', '--accept', 'HALF_APPLIED', '--limit', 'lock=EXCLUSIF=1s'],
    ...['--limit', 'wal=much', '--', 'true'],
  ]);
  expect(exitCode).toBe(2);
  for (const place of ['--accept', '--limit lock', '--limit wal']) expect(stderr).toContain(place);
});

test('what was lost is counted on the target, in the report as JSON and as text', async () => {
  const sql = 'ALTER TABLE users DROP COLUMN legacy_email; DELETE FROM sessions WHERE id <= 20';
  const allow = ['--accept', 'COLUMN_DROPPED="nobody reads it"'];
  const folder = temporaryFolder();
  const { stderr } = await safemigrate([...allow, '--report', 'r.json', '--', ...sqlCommand(sql)], {
    env: { DATABASE_URL: target.url },
    folder,
  });
  const report = readReport(readFileSync(path.join(folder, 'r.json'), 'utf8'));
  expect(report.data?.lost).toEqual([
    {
      object: 'public.users.legacy_email',
      kind: 'column',
      what: 'dropped',
      rows: 1000,
      rowsWithValue: 750,
      rowsChanged: null,
      exact: true,
    },
    {
      object: 'public.sessions',
      kind: 'table',
      what: 'deleted',
      rows: 50,
      rowsWithValue: 20,
      rowsChanged: null,
      exact: true,
    },
  ]);
  expect(report.target.touched).toEqual(
    expect.arrayContaining([expect.stringMatching(/^counted the rows of public\.users/)]),
  );
  expect(stderr.replace(/\s+/g, ' ')).toContain(
    'drops column users.legacy_email: 750 of 1,000 rows had a value',
  );
});

test('rows are those that count(*) finds, also of a larger table, and none of what was rolled back', async () => {
  // The statistics are of the first half of the rows, which are smaller.
  const big = await temporaryDatabase(18, {
    sql: `CREATE TABLE big (id int PRIMARY KEY, note text, total int) WITH (autovacuum_enabled = off);
      INSERT INTO big SELECT n, CASE WHEN n % 3 > 0 THEN repeat('x', 40) END, n FROM generate_series(1, 50000) n;
      ANALYZE big;
      INSERT INTO big SELECT n, CASE WHEN n % 3 > 0 THEN repeat('x', 200) END, n FROM generate_series(50001, 100000) n`,
  });
  const body = `const client = await connect();
    const send = (sql) => client.query(sql);
    await send('UPDATE big SET total = 1 / (id - 5000)').catch(() => {});
    for (const sql of ['BEGIN', 'SAVEPOINT a', 'UPDATE big SET total = 0 WHERE id < 5000', 'ROLLBACK TO a',
      'DELETE FROM big WHERE id <= 10', 'ALTER TABLE big DROP COLUMN note', 'COMMIT']) await send(sql);
    await client.end()`;
  const folder = temporaryFolder();
  const args = ['--accept', 'ERRORS_SWALLOWED="on purpose"', '--accept', 'COLUMN_DROPPED="nobody reads it"'];
  const { stderr } = await safemigrate(
    [...args, '--verbose', '--report', 'r.json', '--', ...scriptCommand(body)],
    { env: { DATABASE_URL: big.url }, folder },
  );
  const report = readReport(readFileSync(path.join(folder, 'r.json'), 'utf8'));
  const counted = await withClient(big.url, (client) =>
    client.query('SELECT count(*)::int AS rows, count(note)::int AS notes FROM big'),
  );
  expect(counted.rows).toEqual([{ rows: 100_000, notes: 66_667 }]);
  expect(report.data?.tables).toMatchObject([
    { relation: 'public.big', rowsBefore: 100_000, rowsAfter: 99_990, exact: true },
  ]);
  expect(report.data?.written).toEqual([{ relation: 'public.big', inserted: 0, updated: 0, deleted: 10 }]);
  expect(report.data?.lost).toMatchObject([
    { what: 'dropped', rows: 100_000, rowsWithValue: 66_667, exact: true },
    { what: 'deleted', rows: 100_000, rowsWithValue: 10, exact: true },
  ]);
  const updates = report.statements.filter(({ sql }) => sql.startsWith('UPDATE big SET total = 0'));
  expect(updates).toMatchObject([{ rows: 4_999, rolledBack: true, error: null }]);
  const text = stderr.replace(/\s+/g, ' ');
  expect(text).toContain('66,667 of 100,000 rows had a value');
  expect(text).toMatch(/SET total = 0 WHERE id < 5000 \[.*rolled back.*4,999 rows/);
  expect(text).not.toMatch(/4,999 updated|at most [\d,]+ (?:inserted|updated|deleted)/);
});

test('the report forecasts what the locks would do on the target, with its inputs', async () => {
  const { report } = await rehearse(target.url, sqlCommand('ALTER TABLE users ADD note text'));
  expect(report.forecast).toMatchObject({
    locks: [{ relation: 'public.users', mode: 'ACCESS EXCLUSIVE', queued: 0, sessionsRunOut: false }],
    preparedTransactions: { count: 0 },
    wal: { standbys: [], inactiveSlots: [] },
    disk: { freeBytes: expect.any(Number) },
  });
  expect(report.forecast?.sampledMs).toBeGreaterThan(0);
  expect(report.forecast?.disk.neededBytes).toBeGreaterThan(0);
  expect(report.caveats.map(({ path }) => path)).not.toContain('forecast.disk.freeBytes');
});

test('a target in use is forecast with its traffic and the transaction that the lock would wait for', async () => {
  const body = `const client = await connect();
    await client.query('BEGIN; ALTER TABLE users ALTER COLUMN id TYPE bigint; ALTER TABLE users RENAME TO people');
    console.log('it waits');
    await new Promise((resolve) => process.stdin.once('data', resolve));
    await client.query('COMMIT'); await client.end(); process.exit(0)`;
  /** Transactions of several statements, most of which scan and write. */
  const visit = () =>
    withClient(target.url, async (client) => {
      const transaction = `BEGIN; ${'UPDATE users SET legacy_email = legacy_email WHERE id < 10; '.repeat(3)} COMMIT`;
      for (let n = 0; n < 40; n++) await client.query(transaction);
      return 'go\n';
    });
  await withClient(target.url, async (client) => {
    await client.query("SET application_name = 'nightly report'");
    await client.query('BEGIN; SELECT count(*) FROM users');
    const { report } = await rehearse(target.url, scriptCommand(body), {
      args: ['--clone', 'cluster'],
      typed: [[/it waits/, visit]],
    });
    expect(report.forecast?.locks).toMatchObject([
      {
        relation: 'public.people',
        waitsFor: { mode: 'ACCESS SHARE', application: 'nightly report', state: 'idle in transaction' },
      },
    ]);
    expect(report.forecast?.oldestTransaction?.application).toBe('nightly report');
    const queued = report.forecast?.locks[0]?.queued;
    expect(queued).toBeGreaterThan(0);
    const evidence = report.hazards.map((hazard) => `${hazard.code}: ${hazard.evidence}`);
    const words = evidence.flatMap((each) => each.match(/about [\d,]+ statements? would wait/g) ?? []);
    expect(new Set(words), evidence.join('\n')).toEqual(
      new Set([`about ${queued?.toLocaleString('en-US')} statements would wait`]),
    );
    await client.query('ROLLBACK');
  });
});
