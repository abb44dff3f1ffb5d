import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { apply } from '../helpers/apply.ts';
import type { CliOptions } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';

let server: Server;
let url: string;

beforeAll(async () => {
  server = await ownServer(18);
  url = withDatabase(server.url, 'shop');
  await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  await withClient(url, (client) => client.query('CREATE UNLOGGED TABLE big (v text)'));
});

afterAll(() => server.stop());

const LARGE = 200_000_000;
const SMALL = 1_000;
const SECRET = 'stands-in-a-large-text';

/** One statement of each kind with so many bytes, in its text, its parameter or its answer; of COPY see postgres/proxy/bulk.test.ts. */
const commandOf = (bytes: number) =>
  scriptCommand(`
    const client = await connect();
    const text = 'x'.repeat(${bytes});
    await client.query("INSERT INTO big VALUES ('" + text + "')");
    await client.query('DO $$ BEGIN PERFORM 1; /* ' + 'x'.repeat(${bytes / 10}) + ' */ END $$');
    await client.query('/* ' + text + " */ CREATE ROLE made_${bytes} PASSWORD '${SECRET}'");
    await client.query('INSERT INTO big VALUES ($1)', [text]);
    await client.query("SELECT repeat('x', ${bytes})");
    await client.query('ALTER TABLE big ADD COLUMN c${bytes} int');
    console.error('all is sent');
    await new Promise((resolve) => process.stdin.once('data', resolve));
    process.exit(0);`);

/** Reads the tool's peak of resident memory, in megabytes, each time that the command has sent all. */
function measuring(): { options: CliOptions; peak: () => number } {
  let pid = 0;
  let peak = 0;
  const step = [
    /all is sent/,
    async () => {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      peak = Number(/VmHWM:\s*(\d+) kB/.exec(status)?.[1]) / 1024;
      return 'go\n';
    },
  ] as const;
  const started = (child: number) => {
    pid = child;
  };
  return { options: { started, typed: [step, step] }, peak: () => peak };
}

const ARGS = ['--clone', 'cluster'];

test('statements of 200 MB are rehearsed and applied in the memory that small ones take, and reported as briefly', async () => {
  const [small, large] = [measuring(), measuring()];
  const few = await apply(url, commandOf(SMALL), { ...small.options, args: ARGS });
  expect(few.exitCode, few.stderr).toBe(0);
  const many = await apply(url, commandOf(LARGE), { ...large.options, args: ARGS });
  expect(many.exitCode, many.stderr).toBe(0);
  expect(large.peak()).toBeLessThan(2 * small.peak());
  expect(many.stdout.length).toBeLessThan(1.2 * few.stdout.length);
  expect(many.stdout + many.stderr).not.toMatch(/x{1000}/);
  for (const { stdout, stderr } of [few, many]) expect(stdout + stderr).not.toContain(SECRET);
  const shown = [
    expect.stringMatching(/^\[a text of 2000000\d\d bytes\]$/),
    expect.stringMatching(/^\[a text of 200000\d\d bytes\]$/),
    expect.stringMatching(/^\[a text of 2000000\d\d bytes\]$/),
    'INSERT INTO big VALUES ($1)',
    "SELECT repeat('x', 200000000)",
    'ALTER TABLE big ADD COLUMN c200000000 int',
  ];
  const tags = ['INSERT 0 1', 'DO', 'CREATE ROLE', 'INSERT 0 1', 'SELECT 1', 'ALTER TABLE'];
  expect(many.report.statements.map(({ tag }) => tag)).toEqual(tags);
  expect(many.report.statements.map(({ sql }) => sql)).toEqual(shown);
  await withClient(url, async (client) => {
    for (const bytes of [LARGE, SMALL]) await client.query(`DROP ROLE made_${bytes}`);
  });
}, 300_000);

test.each([3_000_000, 70_000_000])(
  'in the target’s server a role is not created behind %d bytes of comment',
  async (bytes) => {
    const { report, exitCode, stderr } = await rehearse(
      url,
      scriptCommand(`
        const client = await connect();
        await client.query('ALTER TABLE big ADD COLUMN d int');
        await client.query('/* ' + 'x'.repeat(${bytes}) + ' */ CREATE ROLE unwanted')`),
    );
    expect(exitCode).toBe(1);
    expect(stderr).toContain('safemigrate does not run CREATE ROLE in a text that cannot be read');
    expect(report.command.refused).toMatchObject([{ what: 'CREATE ROLE in a text that cannot be read' }]);
    expect(report.target.changes).toEqual([]);
    await withClient(url, async (client) => {
      const { rowCount } = await client.query("SELECT FROM pg_roles WHERE rolname = 'unwanted'");
      expect(rowCount).toBe(0);
    });
  },
);
