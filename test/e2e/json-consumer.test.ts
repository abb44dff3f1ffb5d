import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CliOptions, safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../helpers/database.ts';
import { psqlCommand } from '../helpers/rehearse.ts';
import { decide } from './json-consumer.ts';

const MIGRATIONS = {
  'add.sql': 'CREATE TABLE coupons (id bigint PRIMARY KEY);\n',
  'drop.sql': '-- tidy up\n\nALTER TABLE customers\n  DROP COLUMN vat;\n',
  'wrong.sql': 'SELECT 1;\nALTER TABLE customers ADD COLUMN name integer;\n',
};

let database: TemporaryDatabase;
const folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-test-'));

beforeAll(async () => {
  const sql = `CREATE TABLE customers (id bigint PRIMARY KEY, name text, vat text);
    INSERT INTO customers SELECT i, 'n', 'v' FROM generate_series(1, 2000) i; ANALYZE`;
  database = await temporaryDatabase(18, { sql });
  mkdirSync(path.join(folder, 'migrations'));
  for (const [name, text] of Object.entries(MIGRATIONS))
    writeFileSync(path.join(folder, 'migrations', name), text);
}, 60_000);
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await database?.drop();
});

const migrate = (name: string) => psqlCommand('-f', `migrations/${name}`);

/** Runs the built tool as a program would, and lets the consumer decide. */
async function decision(args: readonly string[], command: readonly string[], options: CliOptions = {}) {
  const words = command.length === 0 ? [] : ['--', ...command];
  const { exitCode, stdout, stderr } = await safemigrate([...args, '--format', 'json', ...words], {
    ...options,
    folder,
    env: { DATABASE_URL: database.url, ...options.env },
  });
  expect(stdout, stderr).toMatch(/^\{[\s\S]*\}\n$/);
  const decided = decide(stdout);
  expect(decided.exitCode).toBe(exitCode);
  expect(decided.pass).toBe(exitCode === 0);
  return decided;
}

describe('a program decides from stdout alone after', () => {
  test('a rehearsal that passed', async () => {
    expect(await decision([], migrate('add.sql'))).toEqual({ pass: true, exitCode: 0, todo: [] });
  });

  test('a rehearsal that a hazard stops: where, what to do, and what would accept it', async () => {
    const { exitCode, todo } = await decision([], migrate('drop.sql'));
    expect(exitCode).toBe(1);
    expect(todo).toEqual([
      expect.stringMatching(
        /^migrations\/drop\.sql:3 COLUMN_DROPPED: First release code .* \| --accept 'COLUMN_DROPPED:public\.customers="…"'$/,
      ),
    ]);
  });

  test('a command that failed: at which line, with the words of the server', async () => {
    const { exitCode, todo } = await decision([], migrate('wrong.sql'));
    expect(exitCode).toBe(1);
    expect(todo).toContainEqual(
      expect.stringMatching(/^migrations\/wrong\.sql:2 COMMAND_FAILED: .*column "name" .* already exists/),
    );
  });

  test('a limit that is exceeded', async () => {
    const { exitCode, todo } = await decision(['--limit', 'wal=1kB'], migrate('add.sql'));
    expect({ exitCode, todo }).toEqual({
      exitCode: 1,
      todo: [expect.stringMatching(/^LIMIT_EXCEEDED: .*--limit wal=/)],
    });
  });

  test('a command that never connected', async () => {
    const { exitCode, todo } = await decision([], ['true']);
    expect({ exitCode, todo }).toEqual({ exitCode: 1, todo: [expect.stringMatching(/^NOT_CONNECTED: /)] });
  });

  test('a wrong option', async () => {
    const { exitCode, todo } = await decision(['--pln'], migrate('add.sql'));
    expect({ exitCode, todo }).toEqual({ exitCode: 2, todo: [expect.stringMatching(/^USAGE: /)] });
  });

  test('a wrong value', async () => {
    const { exitCode, todo } = await decision(['--timeout', 'soon'], migrate('add.sql'));
    expect({ exitCode, todo }).toEqual({ exitCode: 2, todo: [expect.stringMatching(/^CONFIGURATION: /)] });
  });

  test('no command', async () => {
    const { exitCode, todo } = await decision([], []);
    expect({ exitCode, todo }).toEqual({
      exitCode: 2,
      todo: [expect.stringMatching(/^USAGE: Put your migration command after two dashes/)],
    });
  });

  test('no connection', async () => {
    const env = { DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none' };
    const { exitCode, todo } = await decision([], migrate('add.sql'), { env });
    expect({ exitCode, todo }).toEqual({ exitCode: 3, todo: [expect.stringMatching(/^CONNECTION: /)] });
  });

  test('an interrupt', async () => {
    let pid = 0;
    const interrupt = async () => {
      process.kill(pid, 'SIGINT');
      return '';
    };
    // A shell that gets SIGINT just before it starts a program lets that come to its end.
    const command = ['sh', '-c', 'psql -X -q -c "SELECT 1" "$DATABASE_URL"; echo ready; sleep 5'];
    const { exitCode, todo } = await decision([], command, {
      started: (started) => {
        pid = started;
      },
      typed: [[/ready/, interrupt]],
    });
    expect({ exitCode, todo }).toEqual({ exitCode: 130, todo: [expect.stringMatching(/^INTERRUPTED: /)] });
  });

  test('an apply that nobody confirmed, and one that was made', async () => {
    const refused = await decision(['apply'], migrate('add.sql'));
    expect(refused).toMatchObject({ exitCode: 4, todo: [expect.stringMatching(/^REFUSED: .*--yes/)] });
    expect(await decision(['apply', '--yes'], migrate('add.sql'))).toMatchObject({ pass: true, todo: [] });
  });
});

test('the summary of a run and of an error is one object of at most 2 kB', async () => {
  for (const [args, command] of [
    [[], migrate('drop.sql')],
    [['--pln'], migrate('drop.sql')],
  ] as const) {
    const { stdout } = await safemigrate([...args, '--format', 'summary', '--', ...command], {
      folder,
      env: { DATABASE_URL: database.url },
    });
    expect(Buffer.byteLength(stdout)).toBeLessThanOrEqual(2048);
    expect(() => JSON.parse(stdout)).not.toThrow();
  }
});

test.each([
  ['safemigrate.config.json', '{"format": "json", "timeout": "soon"}'],
  ['safemigrate.config.mjs', 'export default { format: "json", timeout: "soon" };'],
])('an error is one object, too, if only %s asks for JSON', async (name, text) => {
  const own = temporaryFolder();
  writeFileSync(path.join(own, name), text);
  const { stdout, exitCode } = await safemigrate(['--', 'true'], { folder: own });
  expect(decide(stdout)).toMatchObject({ exitCode: 2, todo: [expect.stringMatching(/^CONFIGURATION: /)] });
  expect(exitCode).toBe(2);
});

test('the schemas are printed by their names, and explain prints JSON', async () => {
  for (const name of ['report', 'summary', 'error', 'profile', 'upgrade']) {
    const { stdout, exitCode } = await safemigrate(['schema', name]);
    expect({ exitCode, title: JSON.parse(stdout).title }).toEqual({
      exitCode: 0,
      title: expect.stringContaining('safemigrate'),
    });
  }
  const explained = async (...words: string[]) =>
    (await safemigrate(['explain', ...words, '--format', 'json'])).stdout;
  const one = JSON.parse(await explained('TABLE_DROPPED'));
  expect(one).toMatchObject({ code: 'TABLE_DROPPED', safer: expect.any(String) });
  expect(JSON.parse(await explained())).toEqual({ hazards: expect.arrayContaining([one]) });
  for (const wrong of [['NO_SUCH'], ['TABLE_DROPPED', '--nonesuch'], ['TABLE_DROPPED', 'INDEX_DROPPED']])
    expect(decide(await explained(...wrong))).toMatchObject({ exitCode: 2 });
});
