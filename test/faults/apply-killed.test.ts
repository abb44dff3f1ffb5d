import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { apply } from '../helpers/apply.ts';
import { plainEnvironment, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

/** Two whole runs. */
const PATIENCE_MS = 90_000;

let target: TemporaryDatabase;
let env: NodeJS.ProcessEnv;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18);
  env = { ...plainEnvironment(), XDG_STATE_HOME: temporaryFolder(), DATABASE_URL: target.url };
});

afterEach(() => target.drop());

/** On the target it waits before its last statement until nobody is there to tell. */
const migration = (last: string) =>
  scriptCommand(
    `const client = await connect();
     client.on('error', () => process.exit(1));
     const { rows: [{ name }] } = await client.query('SELECT current_database() AS name');
     await client.query('CREATE TABLE first (id int)');
     if (args[0] !== '') await client.query(args[0]);
     if (name === args[1]) {
       console.error('it waits');
       client.on('end', () => process.exit(1));
       await new Promise(() => {});
     }
     await client.query('CREATE TABLE last (id int)');
     await client.query('COMMIT');
     await client.end();`,
    last,
    target.name,
  );

async function killed(command: string[]): Promise<void> {
  let pid = 0;
  const result = await safemigrate(['apply', '--yes', '--clone', 'template', '--', ...command], {
    env,
    started: (started) => {
      pid = started;
    },
    typed: [
      [
        /it waits/,
        async () => {
          process.kill(pid, 'SIGKILL');
          return '';
        },
      ],
    ],
  });
  expect(result.signal, result.stderr).toBe('SIGKILL');
}

const list = async (...args: string[]) => (await safemigrate(['list', ...args], { env })).stdout;

test(
  'after SIGKILL `list` tells what the target has, and the next apply to it makes that history',
  async () => {
    await killed(migration('BEGIN; CREATE TABLE second (id int)'));
    const told = await list();
    expect(told).toContain(`to ${target.name} on 127.0.0.1`);
    expect(told).toContain('was killed. A person must check the target.');
    expect(told).toContain('neither the one before the command nor the result of the rehearsal');
    expect(told).toMatch(/statements committed:\n.*\n\s+CREATE TABLE first/);
    expect(told).toMatch(/1 statement in transactions that had not ended.*\n\s+CREATE TABLE second/);

    const { apply: applied } = await apply(target.url, sqlCommand('CREATE TABLE last (id int)'), { env });
    expect(applied.outcome).toBe('applied');
    expect(await list()).not.toContain('was killed');
  },
  PATIENCE_MS,
);

test('where nothing was committed, it says that the schema is as before', async () => {
  await killed(migration(''));
  await withClient(target.url, (client) => client.query('DROP TABLE first'));
  const [row] = JSON.parse(await list('--format', 'json'));
  expect(row).toMatchObject({
    role: 'apply',
    owning: 'dead',
    schema: 'as before',
    committed: expect.arrayContaining(['CREATE TABLE first (id int)']),
    open: [],
  });
});
