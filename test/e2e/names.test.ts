import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { identifier, literal } from '../../src/postgres/sql/quote.ts';
import { type CliOptions, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { inThisShare } from '../helpers/share.ts';

const NAMES = [
  'Shop "the big one"',
  "o'shop $1 $HOME `id` %41 \\ #?&=",
  'großer Laden 🛒 数据库',
  'x'.repeat(63),
  '🛒'.repeat(15),
  '-- {safemigrate}',
];
const PASSWORD = `pass:w@rd/%20 'quoted" $x`;

let server: Server;

beforeAll(async () => {
  server = await ownServer(18);
  await withClient(server.url, async (client) => {
    for (const name of NAMES) {
      await client.query(`CREATE ROLE ${identifier(name)} LOGIN CREATEDB PASSWORD ${literal(PASSWORD)}`);
      await client.query(`CREATE DATABASE ${identifier(name)} OWNER ${identifier(name)}`);
    }
  });
});

afterAll(() => server.stop());

const urlOf = (name: string) => {
  const [user, password, database] = [name, PASSWORD, name].map(encodeURIComponent);
  return `postgresql://${user}:${password}@${server.host}:${server.port}/${database}`;
};

/** Through whatever names the target, the command must have come to a clone that bears all of the name that fits. */
async function rehearse(name: string, options: CliOptions, args: string[] = [], command = MIGRATION) {
  const { exitCode, stdout, stderr } = await safemigrate(
    [...args, '--format', 'json', '--', ...command],
    options,
  );
  expect(exitCode, stderr + stdout).toBe(0);
  expect(stdout + stderr).not.toContain(PASSWORD);
  expect(stdout + stderr).not.toContain(encodeURIComponent(PASSWORD));
  const report = readReport(stdout);
  expect(report.target.database).toBe(name);
  expect(report.target.changes).toEqual([]);
  expect(Buffer.byteLength(report.clone.database)).toBeLessThanOrEqual(63);
  expect(report.clone.database).toMatch(/_rehearsal_[0-9a-z]{13}$/);
  expect(report.schema?.changes).toMatchObject([{ verb: 'create', object: 'public.made' }]);
  return report;
}

const SQL = 'CREATE TABLE made AS SELECT current_user AS by';
const MIGRATION = sqlCommand(SQL);

/** Each way that names the target, as the report calls it. */
const WAYS = {
  DATABASE_URL: (name: string) => rehearse(name, { env: { DATABASE_URL: urlOf(name) } }),
  '--url': (name: string) => rehearse(name, { env: { DATABASE_URL: urlOf(name) } }, ['--url', urlOf(name)]),
  'PG* variables': (name: string) => {
    const { host: PGHOST, port } = server;
    const login = { PGUSER: name, PGPASSWORD: PASSWORD, PGDATABASE: name };
    return rehearse(name, { env: { PGHOST, PGPORT: String(port), ...login } }, [], pgVariablesCommand());
  },
  'DATABASE_URL in .env': (name: string) => {
    const folder = temporaryFolder();
    writeFileSync(path.join(folder, '.env'), `# the shop\nDATABASE_URL=${urlOf(name)}\n`);
    return rehearse(name, { folder, env: {} });
  },
} as const;
const ALL = Object.keys(WAYS) as (keyof typeof WAYS)[];
/** Each pair of ways has a name; the one with the most special characters has all ways. */
const PAIRS = ALL.flatMap((one, at) => ALL.slice(at + 1).map((other) => [one, other] as const));

const CASES = NAMES.flatMap((name, at) =>
  (name.startsWith("o'") ? ALL : (PAIRS[at] ?? ALL)).map((way) => ({ name, way })),
);

test.each(inThisShare(CASES, ({ way }) => way))(
  'a database and a role named $name, by $way',
  async ({ name, way }) => {
    expect((await WAYS[way](name)).target.source).toBe(way);
  },
);

/** A command that knows of nothing but the PG* variables, as psql does. */
function pgVariablesCommand(): string[] {
  const url = `'postgresql://' + [process.env.PGUSER, process.env.PGPASSWORD].map(encodeURIComponent).join(':') + '@' + process.env.PGHOST + ':' + process.env.PGPORT + '/' + encodeURIComponent(process.env.PGDATABASE)`;
  const [node = '', script = ''] = MIGRATION;
  return [
    node,
    '-e',
    `process.env.DATABASE_URL = ${url}; process.argv = [process.argv[0], 'run-sql', ${JSON.stringify(SQL)}]; import(${JSON.stringify(script)})`,
  ];
}
