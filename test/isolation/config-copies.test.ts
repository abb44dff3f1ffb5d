import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

let target: TemporaryDatabase;
let project: string;

beforeEach(async () => {
  target = await temporaryDatabase(18);
  project = temporaryFolder();
  const { hostname, port, username, password, pathname } = new URL(target.url);
  writeFileSync(
    path.join(project, 'db.json'),
    JSON.stringify({
      host: hostname,
      port: Number(port),
      username,
      password: decodeURIComponent(password),
      database: pathname.slice(1),
    }),
  );
});

afterEach(() => target.drop());

const copy = '{safemigrate:config db.json}';
const said = `stat -c 'mode %a' "$1"; echo "copy: $1"`;

/** Only without a sandbox, and in the rehearsal of an apply and of a receipt, is a file copied: elsewhere the file itself leads to the clone. */
const copying = () => ['--receipt', path.join(temporaryFolder(), 'receipt.json')];

function run(script: string, args: readonly string[] = copying(), started?: (pid: number) => void) {
  const words = ['sh', '-c', script, 'sh', copy, path.join(ROOT, 'test/helpers/commands/run-sql.mjs')];
  return safemigrate(['--url', target.url, ...args, '--', ...words], {
    folder: project,
    ...(started ? { started } : {}),
  });
}

const tables = () =>
  withClient(target.url, async (client) => {
    const { rows } = await client.query<{ name: string }>(
      "SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'",
    );
    return rows.map(({ name }) => name);
  });

/** Connects with the values of the file, by the repository's own packages. */
const migrate = `node -e '
  const { createRequire } = require("node:module");
  const pg = createRequire(process.argv[2])("pg");
  const { username, ...rest } = JSON.parse(require("node:fs").readFileSync(process.argv[1], "utf8"));
  const client = new pg.Client({ ...rest, user: username });
  client.connect().then(() => client.query("CREATE TABLE made (id int)")).then(() => client.end());
' "$1" "$2"`;

test('the copy is for its owner alone, and goes with the run', async () => {
  const { exitCode, stdout, stderr } = await run(`${said}; ${migrate}`);
  expect(exitCode, stderr).toBe(0);
  const [, file = ''] = /copy: (.*)/.exec(stdout) ?? [];
  expect(stdout).toContain('mode 600');
  expect(path.basename(file)).toBe('db.json');
  expect(existsSync(file)).toBe(false);
  expect(readdirSync(project).sort()).toEqual(['db.json']);
  expect(await tables()).toEqual([]);
  const { password } = JSON.parse(readFileSync(path.join(project, 'db.json'), 'utf8'));
  expect(stdout + stderr).not.toContain(password);
});

test('an apply has a copy as well, which leads to the target', async () => {
  const { exitCode, stdout, stderr } = await run(`${said}; ${migrate}`, ['apply', '--yes']);
  expect(exitCode, stdout + stderr).toBe(0);
  expect(await tables()).toEqual(['made']);
});

test('it goes even if the run is killed', async () => {
  const noted = path.join(project, 'noted');
  let pid = 0;
  const running = run(`echo "$1" > ${noted}; exec sleep 600`, copying(), (started) => {
    pid = started;
  });
  await vi.waitUntil(() => existsSync(noted) && readFileSync(noted, 'utf8').endsWith('\n'), {
    timeout: 60_000,
  });
  const file = readFileSync(noted, 'utf8').trim();
  expect(existsSync(file)).toBe(true);
  process.kill(pid, 'SIGKILL');
  await vi.waitUntil(() => !existsSync(file), { timeout: 60_000 });
  await vi.waitUntil(() => !existsSync(path.dirname(file)), { timeout: 60_000 });
  await running;
  await safemigrate(['clean'], { env: { DATABASE_URL: target.url } });
});

test('a file that does not name the target is an error before the command runs', async () => {
  writeFileSync(path.join(project, 'db.json'), '{"host": "elsewhere", "database": "other"}');
  const { exitCode, stderr } = await run('touch ran');
  expect(exitCode).toBe(2);
  expect(stderr).toContain('db.json does not name the target.');
  expect(existsSync(path.join(project, 'ran'))).toBe(false);
});

test('without a copy the run ends with the advice to name the file', async () => {
  const { exitCode, stderr } = await safemigrate(
    [
      '--url',
      target.url,
      ...copying(),
      '--sandbox',
      'required',
      '--',
      ...sqlCommand('SELECT 1', path.join(project, 'missing')),
    ],
    { folder: project },
  );
  expect(exitCode).toBe(1);
  expect(stderr.replaceAll(/\s+/g, ' ')).toContain('{safemigrate:config FILE}');
});
