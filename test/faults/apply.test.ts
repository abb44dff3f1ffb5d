import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { apply } from '../helpers/apply.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';

let server: Server;
let url: string;

beforeAll(async () => {
  server = await ownServer(18);
  url = withDatabase(server.url, 'shop');
});

afterAll(() => server.stop());

beforeEach(async () => {
  await onServer('DROP DATABASE IF EXISTS shop WITH (FORCE)');
  await onServer('CREATE DATABASE shop');
});

async function onServer<T extends object>(sql: string): Promise<T[]> {
  return withClient(server.url, async (client) => (await client.query<T>(sql)).rows);
}

const tables = () =>
  withClient(url, async (client) => {
    const { rows } = await client.query<{ name: string }>('SELECT relname AS name FROM pg_stat_user_tables');
    return rows.map(({ name }) => name).sort();
  });

/**
 * Makes one table by itself where asked to, and one in a block. On the target, which the clone is told from by its name, it
 * waits before the COMMIT for a line, or does what it is told.
 */
const migration = (options: { first: boolean; there?: string }) =>
  scriptCommand(
    `const client = await connect();
     client.on('error', () => {});
     const { rows: [{ name }] } = await client.query('SELECT current_database() AS name');
     if (args[0] === 'first') await client.query('CREATE TABLE first (id int)');
     await client.query('BEGIN');
     await client.query('CREATE TABLE second (id int)');
     if (name === 'shop') {
       console.error('it waits');
       ${options.there ?? "await new Promise((resolve) => process.stdin.once('data', resolve));"}
     }
     await client.query('COMMIT');
     await client.end();
     process.stdin.unref();`,
    options.first ? 'first' : 'second alone',
  );

/** With a table of its own committed before, the target is changed; without, it is not. */
describe.each([true, false])('an apply that committed something before: %s', (first) => {
  const expected = first
    ? { exitCode: 5, apply: { outcome: 'partly', committed: [{ sql: 'CREATE TABLE first (id int)' }] } }
    : { exitCode: 4, apply: { outcome: 'failed', committed: [], wayBack: null } };
  const left = first ? ['first'] : [];

  test('says what the target has when the server restarts', async () => {
    const run = await apply(url, migration({ first }), {
      args: ['--clone', 'template'],
      typed: [[/it waits/, () => server.restart('immediate').then(() => '\n')]],
    });
    expect(run, run.stderr).toMatchObject(expected);
    expect(run.apply.rolledBack).toMatchObject([{ sql: 'CREATE TABLE second (id int)' }]);
    expect(run.apply.reasons.join()).toContain('lost');
    expect(await tables()).toEqual(left);
  });

  test('says what the target has when the command is killed', async () => {
    const there = "process.kill(process.pid, 'SIGKILL'); await new Promise(() => {});";
    const run = await apply(url, migration({ first, there }), { args: ['--clone', 'template'] });
    expect(run, run.stderr).toMatchObject(expected);
    expect(run.apply.command?.signal).toBe('SIGKILL');
    expect(await tables()).toEqual(left);
  });

  test('says what the target has when it is told to end', async () => {
    let pid = 0;
    const run = await apply(url, migration({ first }), {
      args: ['--clone', 'template'],
      started: (started) => {
        pid = started;
      },
      typed: [
        [
          /it waits/,
          async () => {
            process.kill(pid, 'SIGTERM');
            return '';
          },
        ],
      ],
    });
    expect(run, run.stderr).toMatchObject({ ...expected, exitCode: first ? 5 : 143 });
    expect(await tables()).toEqual(left);
  });

  test('says what the target has when its session there is ended', async () => {
    const run = await apply(url, migration({ first }), {
      args: ['--clone', 'template'],
      typed: [[/it waits/, () => onServer(END_COMMAND).then(() => '\n')]],
    });
    expect(run, run.stderr).toMatchObject(expected);
    expect(await tables()).toEqual(left);
  });
});

// Waits until it is gone: it could still answer what comes next.
const END_COMMAND = `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
  WHERE datname = 'shop' AND application_name NOT LIKE 'safemigrate %'`;

test('a COMMIT that was written and never answered counts as committed, because the server says so', async () => {
  let restarted: Promise<void> | undefined;
  const run = await apply(url, migration({ first: false }), {
    args: ['--clone', 'template'],
    typed: [
      [
        /it waits/,
        async () => {
          // The COMMIT waits for a standby that never comes, with its record written already.
          await onServer("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
          await onServer('SELECT pg_reload_conf()');
          // A new session has it from the postmaster; it is the checkpointer that tells the sessions that are there.
          const name =
            'SELECT 1 FROM pg_settings WHERE name = $$synchronous_standby_names$$ AND setting = $$nobody$$';
          while ((await onServer(name)).length === 0);
          await onServer('CHECKPOINT');
          restarted = restartDuringCommit();
          return '\n';
        },
      ],
    ],
  });
  await restarted;
  expect(run.apply, run.stderr).toMatchObject({
    outcome: 'partly',
    committed: [{ sql: 'CREATE TABLE second (id int)', outcome: 'committed' }],
    rolledBack: [],
    schemaEqual: true,
  });
  expect(run.exitCode).toBe(5);
  expect(await tables()).toEqual(['second']);
});

async function restartDuringCommit(): Promise<void> {
  const waiting = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
  while ((await onServer(waiting)).length === 0);
  await onServer('ALTER SYSTEM RESET synchronous_standby_names');
  await server.restart('immediate');
}
