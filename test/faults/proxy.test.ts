import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { psqlCommand, rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';

let server: Server;
let url: string;

beforeAll(async () => {
  server = await ownServer(18);
  url = withDatabase(server.url, 'shop');
  await onServer('CREATE DATABASE shop');
  await withClient(url, (client) => client.query('CREATE TABLE jobs (id int)'));
});

afterAll(() => server.stop());

beforeEach(async () => {
  expect(await databases()).toEqual(['postgres', 'shop', 'template0', 'template1']);
});

async function onServer<T extends object>(sql: string): Promise<T[]> {
  return withClient(server.url, async (client) => (await client.query<T>(sql)).rows);
}

const databases = async () =>
  (await onServer<{ datname: string }>('SELECT datname FROM pg_database ORDER BY 1')).map(
    (row) => row.datname,
  );

/** A command that says when its statement runs, by another session, and a statement that takes long. */
const ASLEEP = scriptCommand(`
  const [client, other] = [await connect(), await connect()];
  client.on('error', () => {});
  other.on('error', () => {});
  const running = client.query("SELECT 'asleep', pg_sleep(60)");
  running.catch(() => {});
  while ((await other.query("SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).rowCount === 0);
  console.error('it sleeps');
  await running;`);

const sleepers = () =>
  onServer("SELECT FROM pg_stat_activity WHERE query LIKE '%asleep%' AND pid <> pg_backend_pid()");

describe('while a statement runs', () => {
  test('the server restarts at once: the run ends, says so, and nothing is left', async () => {
    const { exitCode, stderr } = await safemigrate(['--', ...ASLEEP], {
      env: { DATABASE_URL: url },
      typed: [[/it sleeps/, () => server.restart('immediate').then(() => '')]],
    });
    expect(exitCode, stderr).toBe(3);
    expect(stderr).toMatch(/lost/);
    expect(await databases()).toEqual(['postgres', 'shop', 'template0', 'template1']);
    expect(await sleepers()).toEqual([]);
  });

  test('somebody drops the clone: the command’s statement fails, and the run ends with a report', async () => {
    const { exitCode, report } = await rehearse(url, ASLEEP, {
      typed: [
        [
          /it sleeps/,
          async () => {
            const [clone] = await onServer<{ datname: string }>(
              "SELECT datname FROM pg_database WHERE datname LIKE 'shop\\_rehearsal\\_%'",
            );
            await onServer(`DROP DATABASE ${clone?.datname} WITH (FORCE)`);
            return '';
          },
        ],
      ],
    });
    expect(exitCode).toBe(1);
    expect(report.statements.find(({ sql }) => sql.includes('asleep'))?.error?.sqlstate).toBe('57P01');
    expect(report.schema).toBeNull();
    expect(report.caveats).toContainEqual(expect.objectContaining({ path: 'schema', kind: 'unmeasured' }));
    expect(report.cleanup.failed).toEqual([]);
  });

  test('SIGTERM cancels it, and nothing is left', async () => {
    let pid = 0;
    const { exitCode } = await safemigrate(['--', ...ASLEEP], {
      env: { DATABASE_URL: url },
      started: (child) => {
        pid = child;
      },
      typed: [
        [
          /it sleeps/,
          async () => {
            process.kill(pid, 'SIGTERM');
            return '';
          },
        ],
      ],
    });
    expect(exitCode).toBe(143);
    expect(await sleepers()).toEqual([]);
    expect(await databases()).toEqual(['postgres', 'shop', 'template0', 'template1']);
  });
});

test('the backend that reads locks is ended: the run goes on, and says what it does not know', async () => {
  const { exitCode, report, stderr } = await rehearse(
    url,
    scriptCommand(`
      const client = await connect();
      const watcher = await connect('postgres');
      console.error('ready');
      await new Promise((resolve) => process.stdin.once('data', resolve));
      for (let n = 0; n < 5; n++) await client.query('ALTER TABLE jobs ADD COLUMN c' + n + ' int');
      await client.query('SELECT pg_sleep(1)');
      await client.query('ALTER TABLE jobs ADD COLUMN last int');
      await client.end();
      await watcher.end();
      process.exit(0);`),
    {
      typed: [
        [
          /ready/,
          async () => {
            const ended = await onServer(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                WHERE application_name ~ '^safemigrate.*locks'`);
            expect(ended).toHaveLength(1);
            return 'go\n';
          },
        ],
      ],
    },
  );
  expect(exitCode, stderr).toBe(0);
  expect(report.schema?.changes).toHaveLength(6);
  expect(report.statements.map(({ error }) => error)).toEqual(Array(7).fill(null));
  expect(report.statements[0]).toMatchObject({ exactness: 'unknown', locks: null });
  // The connection was made anew meanwhile.
  expect(report.statements.at(-1)).toMatchObject({ exactness: 'exact' });
});

test('the sampler’s backend is ended: the run goes on', async () => {
  const shortly = ASLEEP.map((word) =>
    word.replace('pg_sleep(60)', 'pg_sleep(3)').replace('await running;', 'await running; process.exit(0);'),
  );
  const { exitCode, stderr } = await rehearse(url, shortly, {
    typed: [
      [
        /it sleeps/,
        async () => {
          await expect
            .poll(() =>
              onServer(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                WHERE application_name ~ '^safemigrate.*sampler'`),
            )
            .toHaveLength(1);
          return '';
        },
      ],
    ],
  });
  expect(exitCode, stderr).toBe(0);
});

test('a run after all of that is as any other', async () => {
  const { exitCode, report } = await rehearse(
    url,
    psqlCommand('-c', 'ALTER TABLE jobs ADD COLUMN done bool'),
  );
  expect(exitCode).toBe(0);
  expect(report.statements).toMatchObject([{ exactness: 'exact' }]);
  expect((await rehearse(url, sqlCommand('SELECT 1'))).exitCode).toBe(0);
});
