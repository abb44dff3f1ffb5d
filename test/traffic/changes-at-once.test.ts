import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { withDatabase } from '../helpers/target-state.ts';

let server: Server;
let target: string;

beforeEach(async () => {
  server = await ownServer(18);
  target = withDatabase(server.url, 'shop');
  await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
});

afterEach(() => server.stop());

const change = (...words: string[]) => ({ words, env: { DATABASE_URL: target } });

test.each([
  ['a swap', 'swap', 'a swap', ['swap', '--yes', '--', 'true'], 'swap'],
  ['a swap', 'swap', 'an apply', ['apply', '--yes', '--', 'true'], 'swap'],
  ['a swap', 'swap', 'a rollback', ['rollback', '--yes'], 'swap'],
  ['an apply', 'apply', 'a swap', ['swap', '--yes', '--', 'true'], 'apply'],
])(
  'beside %s (%s), %s ends with exit code 4 and says who is at work',
  async (_, mode, __, second, purpose) => {
    const { env } = change();
    const file = `${temporaryFolder()}/waited`;
    // It waits in the rehearsal, and not when it runs for the second time.
    const waits = `if [ ! -e ${file} ]; then touch ${file}; echo waiting >&2; read go; fi; exec "$@"`;
    const command = ['sh', '-c', waits, 'sh', ...sqlCommand('CREATE TABLE notes (id int)')];
    const first = await safemigrate([mode, '--yes', '--', ...command], {
      env,
      typed: [
        [
          /waiting/,
          async () => {
            const { exitCode, stderr } = await safemigrate(second, { env });
            expect(stderr.replace(/\s+/g, ' ')).toMatch(
              new RegExp(
                `Another apply, swap or rollback of shop is running: process \\d+ of postgres \\(safemigrate ${purpose}\\)`,
              ),
            );
            expect(exitCode).toBe(4);
            return 'go\n';
          },
        ],
      ],
    });
    expect(first.exitCode, first.stderr).toBe(0);
    await withClient(target, (client) => client.query('SELECT FROM notes'));
  },
);

test('two applies to the only database that could hold the lock take turns, too', async () => {
  const env = { DATABASE_URL: server.url };
  const file = `${temporaryFolder()}/rehearsed`;
  // It waits when it runs on the target.
  const waits = `if [ -e ${file} ]; then echo waiting >&2; read go; fi; touch ${file}; exec "$@"`;
  const command = ['sh', '-c', waits, 'sh', ...sqlCommand('CREATE TABLE notes (id int)')];
  const first = await safemigrate(['apply', '--yes', '--clone', 'cluster', '--', ...command], {
    env,
    typed: [
      [
        /waiting/,
        async () => {
          const words = [
            'apply',
            '--yes',
            '--clone',
            'cluster',
            '--',
            ...sqlCommand('CREATE TABLE more (id int)'),
          ];
          const { exitCode, stderr } = await safemigrate(words, { env });
          expect(stderr).toContain('Another apply, swap or rollback of postgres is running');
          expect(exitCode).toBe(4);
          return 'go\n';
        },
      ],
    ],
  });
  expect(first.exitCode, first.stderr).toBe(0);
});

test('a rehearsal beside a swap does not blame its command for the closed door and the other database', async () => {
  const { env } = change();
  const command = [
    'sh',
    '-c',
    '"$@"; echo waiting >&2; read go',
    'sh',
    ...sqlCommand('CREATE TABLE notes (id int)'),
  ];
  const { exitCode, stdout, stderr } = await safemigrate(['--format', 'json', '--', ...command], {
    env,
    typed: [
      [
        /waiting/,
        async () => {
          const swap = await safemigrate(
            ['swap', '--yes', '--', ...sqlCommand('CREATE TABLE notes (id int)')],
            { env },
          );
          expect(swap.exitCode, swap.stderr).toBe(0);
          return 'go\n';
        },
      ],
    ],
  });
  expect(exitCode, stderr).toBe(0);
  expect(JSON.parse(stdout).target.changes).toMatchObject([
    { what: 'database shop dropped and created again', madeBy: 'others' },
  ]);
});
