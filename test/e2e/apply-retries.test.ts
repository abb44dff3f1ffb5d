import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Client } from 'pg';
import { afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { apply } from '../helpers/apply.ts';
import { runProgram } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { copyProject, project } from '../helpers/projects.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { fingerprintOf } from '../helpers/target-state.ts';

let target: TemporaryDatabase;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, {
    sql: 'CREATE TABLE jobs (id int PRIMARY KEY); INSERT INTO jobs SELECT generate_series(1, 100)',
  });
});

afterEach(() => target.drop());

const inTarget = async (sql: string) => (await withClient(target.url, (client) => client.query(sql))).rows;

/** Somebody else's session, which ends with the test at the latest. */
async function somebody(): Promise<Client> {
  const client = new Client({ connectionString: target.url });
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Holds a lock on the table until it ends. */
async function reader(table = 'jobs'): Promise<Client> {
  const client = await somebody();
  await client.query('BEGIN');
  await client.query(`SELECT count(*) FROM ${table}`);
  return client;
}

/** A reader to be typed in: it comes at the first line, and has gone at the second. */
function passingReader(table?: string) {
  let other: Client | undefined;
  return {
    comes: async () => {
      other = await reader(table);
      return '\n';
    },
    goes: async () => {
      await other?.end();
      return '\n';
    },
  };
}

/** A command that connects, and on the target waits for a line wherever its body says `await ready()`. */
const command = (body: string) =>
  scriptCommand(
    `const client = await connect();
     const { rows: [{ name }] } = await client.query('SELECT current_database() AS name');
     const ready = async () => {
       if (name !== args[0]) return;
       console.error('ready');
       await new Promise((resolve) => process.stdin.once('data', resolve));
     };
     ${body}
     await client.end();
     process.stdin.unref();`,
    target.name,
  );

const QUICK = ['--lock-timeout', '200ms'];
const LOCKED = { sqlstate: '55P03', cause: 'lock' };

describe('a command that does not get its lock within its transaction', () => {
  const altering = () =>
    command(
      `await ready();
       await client.query('BEGIN');
       await client.query('CREATE TABLE made (id int)');
       await client.query('ALTER TABLE jobs ADD COLUMN done bool');
       await client.query('COMMIT');`,
    );

  test('is run again, and succeeds once the reader has gone', async () => {
    const { comes, goes } = passingReader();
    const run = await apply(target.url, altering(), {
      args: [...QUICK, '--retries', '2'],
      typed: [
        [/ready/, comes],
        [/ready/, goes],
      ],
    });
    expect(run.apply, run.stderr).toMatchObject({
      outcome: 'applied',
      reasons: [],
      schemaEqual: true,
      attempts: [
        { exitCode: 7, failure: LOCKED, firstStatement: 1, committed: [] },
        { exitCode: 0, failure: null, pausedMs: null },
      ],
    });
    expect(run.exitCode).toBe(0);
    const [first, second] = run.apply.attempts;
    expect(first?.pausedMs).toBeGreaterThan(400);
    const sent = run.apply.statements.find(({ index }) => index === first?.failure?.statement);
    expect(sent?.sql).toBe('ALTER TABLE jobs ADD COLUMN done bool');
    expect(second?.committed).toEqual(run.apply.committed.map(({ statement }) => statement));
    expect(run.apply.committed.map(({ sql }) => sql)).toEqual([
      'CREATE TABLE made (id int)',
      'ALTER TABLE jobs ADD COLUMN done bool',
    ]);
    expect(run.apply.rolledBack.map(({ sql }) => sql)).toEqual(run.apply.committed.map(({ sql }) => sql));
    expect(run.apply.comparedTimes.every(({ applied }) => applied >= (second?.firstStatement ?? 0))).toBe(
      true,
    );
    expect(await inTarget('SELECT done FROM jobs WHERE id = 1')).toEqual([{ done: null }]);
  });

  test('is not run again where nobody asked for it', async () => {
    const run = await apply(target.url, altering(), {
      args: QUICK,
      typed: [[/ready/, () => reader().then(() => '\n')]],
    });
    expect(run.apply.attempts).toMatchObject([{ failure: LOCKED, committed: [], pausedMs: null }]);
    expect(run.apply.reasons).toEqual(['the command failed with exit code 7']);
    expect(run.exitCode).toBe(4);
  });

  test('fails in the end where the reader stays, and the target is as it was', async () => {
    const before = await fingerprintOf(target.url);
    const text = 'CREATE TABLE made (id int); ALTER TABLE jobs ADD COLUMN done bool';
    const run = await apply(target.url, command(`await ready(); await client.query('${text}');`), {
      args: [...QUICK, '--retries', '1'],
      env: { SAFEMIGRATE_RETRY_COUNT: '1' },
      typed: [
        [/ready/, () => reader().then(() => '\n')],
        [/ready/, '\n'],
      ],
    });
    expect(run.apply, run.stderr).toMatchObject({
      outcome: 'failed',
      committed: [],
      wayBack: null,
      attempts: [{ failure: LOCKED }, { failure: LOCKED, pausedMs: null }],
    });
    expect(run.apply.reasons.join()).toContain('run 2 times, the maximum with --retries 1');
    expect(run.exitCode).toBe(4);
    expect(await fingerprintOf(target.url)).toBe(before);
  });

  test('is not run again once somebody has ended the run in the pause', async () => {
    let pid = 0;
    const run = await apply(target.url, altering(), {
      args: [...QUICK, '--retries', '5'],
      started: (started) => {
        pid = started;
      },
      typed: [
        [/ready/, () => reader().then(() => '\n')],
        [
          /(retry|rerun \d of \d) in/,
          async () => {
            process.kill(pid, 'SIGTERM');
            return '';
          },
        ],
      ],
    });
    expect(run.apply, run.stderr).toMatchObject({ outcome: 'failed', attempts: [{ failure: LOCKED }] });
    expect(run.apply.reasons.join()).toContain('the run ended during the pause');
    expect(run.exitCode).toBe(143);
  });
});

describe('a command that has committed something before', () => {
  test('is not run again, and it is said why', async () => {
    const run = await apply(
      target.url,
      command(
        `await client.query('CREATE TABLE first (id int)');
         await ready();
         await client.query('BEGIN');
         await client.query('ALTER TABLE jobs ADD COLUMN done bool');
         await client.query('COMMIT');`,
      ),
      { args: [...QUICK, '--retries', '3'], typed: [[/ready/, () => reader().then(() => '\n')]] },
    );
    const [committed] = run.apply.committed;
    expect(committed).toMatchObject({ sql: 'CREATE TABLE first (id int)' });
    expect(run.apply.attempts).toMatchObject([{ failure: LOCKED, committed: [committed?.statement] }]);
    expect(run.apply.reasons.join()).toContain(
      `not rerun (--retries): statement ${committed?.statement} was committed`,
    );
    expect(run.apply.outcome).toBe('partly');
    expect(run.exitCode).toBe(5);
  });

  test('is run again where its tool has noted that itself, and goes on from there', async () => {
    const { comes, goes } = passingReader();
    const migrations = `{
      a: 'CREATE TABLE first (id int)',
      b: 'ALTER TABLE jobs ADD COLUMN done bool',
    }`;
    const run = await apply(
      target.url,
      command(
        `await client.query('CREATE TABLE IF NOT EXISTS schema_migrations (version text PRIMARY KEY)');
         const { rows } = await client.query('SELECT version FROM schema_migrations');
         const done = rows.map(({ version }) => version);
         for (const [version, sql] of Object.entries(${migrations})) {
           if (done.includes(version)) continue;
           if (version === 'b') await ready();
           await client.query('BEGIN');
           await client.query(sql);
           await client.query('INSERT INTO schema_migrations VALUES ($1)', [version]);
           await client.query('COMMIT');
         }`,
      ),
      {
        args: [...QUICK, '--retries', '1'],
        typed: [
          [/ready/, comes],
          [/ready/, goes],
        ],
      },
    );
    expect(run.apply, run.stderr).toMatchObject({ outcome: 'applied', schemaEqual: true });
    expect(run.exitCode).toBe(0);
    expect(run.apply.attempts.map(({ committed }) => committed.length > 0)).toEqual([true, true]);
    expect(run.apply.committed.filter(({ sql }) => sql.startsWith('CREATE TABLE first'))).toHaveLength(1);
    expect(await inTarget('SELECT version FROM schema_migrations ORDER BY 1')).toEqual([
      { version: 'a' },
      { version: 'b' },
    ]);
  });
});

test('a command that was cancelled because of those behind it is run again', async () => {
  const run = await apply(
    target.url,
    command(
      `await client.query('BEGIN');
       await client.query('UPDATE jobs SET id = -id');
       await ready();
       await client.query('SELECT pg_sleep(2)');
       await client.query('COMMIT');`,
    ),
    {
      args: ['--limit', 'blocked=300ms', '--retries', '1'],
      typed: [
        [
          /ready/,
          async () => {
            const other = await somebody();
            void other.query('UPDATE jobs SET id = id WHERE id = 7').catch(() => {});
            return '\n';
          },
        ],
        [/ready/, '\n'],
      ],
    },
  );
  expect(run.apply, run.stderr).toMatchObject({
    outcome: 'applied',
    attempts: [{ failure: { sqlstate: '57014', cause: 'watchdog' }, committed: [] }, { exitCode: 0 }],
    during: { cancelled: [{ sql: 'SELECT pg_sleep(2)', outcome: 'cancelled' }] },
  });
  expect(await inTarget('SELECT count(*)::int FROM jobs WHERE id < 0')).toEqual([{ count: 100 }]);
});

const dbmate = project('dbmate');
const available = dbmate.available();

describe.skipIf(skipReason(available === true ? null : available))(
  'a file of dbmate without a transaction',
  () => {
    test('is sent again as a whole, and dbmate sees no error', async () => {
      const { folder, remove } = await copyProject('dbmate');
      onTestFinished(remove);
      const env = dbmate.environment(target.url);
      expect((await runProgram(dbmate.command, { folder, env })).exitCode).toBe(0);
      const alter = 'ALTER TABLE customers ADD COLUMN verified boolean NOT NULL DEFAULT false';
      await writeFile(
        path.join(folder, 'db/migrations/20260301090000_verified.sql'),
        [
          '-- migrate:up transaction:false',
          'CREATE TABLE made (id int);',
          'INSERT INTO made VALUES (1);',
          `${alter};`,
          'INSERT INTO made VALUES (2);',
          '-- migrate:down transaction:false',
          'DROP TABLE made;',
        ].join('\n'),
      );
      const { comes, goes } = passingReader('customers');
      const waiting = ['sh', '-c', 'echo ready >&2; read line; exec "$@"', 'sh', ...dbmate.command];
      const run = await apply(target.url, waiting, {
        folder,
        env,
        args: QUICK,
        typed: [
          [/ready/, '\n'],
          [/ready/, comes],
          [/(retry|rerun \d of \d) in/, goes],
        ],
      });
      expect(run.apply, run.stderr).toMatchObject({
        outcome: 'applied',
        reasons: [],
        schemaEqual: true,
        attempts: [{ exitCode: 0, failure: null }],
        during: { retries: [{ sql: alter, outcome: 'went on' }] },
      });
      expect(run.exitCode).toBe(0);
      expect(run.apply.rolledBack).toEqual([]);
      expect(run.apply.statements.filter(({ sql }) => sql === alter)).toHaveLength(1);
      expect(run.apply.comparedTimes.map(({ sql }) => sql)).toContain(alter);
      expect(await inTarget('SELECT id FROM made ORDER BY id')).toEqual([{ id: 1 }, { id: 2 }]);
      expect(run.stderr).not.toContain('lock timeout');
    }, 60_000);
  },
);
