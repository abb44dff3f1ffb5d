import { execFile } from 'node:child_process';
import { mkdtemp, readdir, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { type CliOptions, type CliResult, runProgram } from './cli.ts';
import { withClient } from './client.ts';
import { changedUrl } from './cloning.ts';
import { until } from './cutting.ts';
import { debianPrograms, ownFolder, SERVER_UID } from './placed-server.ts';
import { archivingIn } from './point-in-time.ts';
import { enterableFolder } from './private-clone.ts';
import { fillProject } from './reader-project.ts';
import { type ServerToUpgrade, serverToUpgrade } from './upgrading.ts';

const run = promisify(execFile);
const CLIENTS = await debianPrograms(15);

/** What the database of a reader of the documentation has before the project's migrations. */
const SQL = `
CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL);
INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 100) AS n;
CREATE TABLE sessions (id int PRIMARY KEY, account int REFERENCES accounts);
INSERT INTO sessions SELECT n, n FROM generate_series(1, 10) AS n`;

/** The machine of a reader: a server that is full of life, a project with migrations to come, and safemigrate. */
export interface Reader {
  /** Of the database `shop`, which is what `refill()` made it. */
  readonly url: string;
  /** The place of a base backup and of the archived WAL, and a time between them. */
  readonly backup: string;
  readonly archive: string;
  readonly moment: string;
  /** Makes the project as it was, and the database; nothing of the commands before is left. */
  refill(): Promise<void>;
  /** Runs lines of bash in the project, up to the first that fails. */
  run(lines: string, options?: Pick<CliOptions, 'env'>): Promise<CliResult>;
  stop(): Promise<void>;
}

/** @throws Error if what `cannotUpgrade` asks for is missing. */
export async function makeReader(): Promise<Reader> {
  const place = await enterableFolder();
  const [archive, backup] = ['archive', 'backup'].map((name) => path.join(place.path, name)) as [
    string,
    string,
  ];
  await ownFolder(archive);
  const old = await serverToUpgrade({ settings: archivingIn(archive) });
  await withClient(old.url, (client) => client.query(SQL));
  const project = await mkdtemp(path.join(await realpath(tmpdir()), 'your-project-'));
  const url = changedUrl(old.url, { database: 'shop' });
  const { hostname, port, username } = new URL(url);
  const env = {
    DATABASE_URL: url,
    APP_DATABASE_URL: url,
    XDG_STATE_HOME: path.join(project, '..', `${path.basename(project)}-state`),
    PGHOST: hostname,
    PGPORT: port,
    PGUSER: username,
    PGDATABASE: 'shop',
    PATH: [path.join(project, 'bin'), process.env.PATH].join(path.delimiter),
  };
  const refill = async () => {
    await fillProject(project);
    await fillDatabase(old, url, project);
  };
  await refill();
  const moment = await makeBackup(old, backup, archive);
  const shell = (lines: string, options?: Pick<CliOptions, 'env'>) =>
    runProgram(['bash', '--norc', '-e', '-o', 'pipefail', '-c', lines], {
      folder: project,
      env: { ...env, ...options?.env },
    });
  return {
    url,
    backup,
    archive,
    moment,
    refill,
    run: shell,
    stop: async () => {
      // Clones that a page keeps would outlive the server, and hold its file system.
      await shell('safemigrate clean --kept');
      await old.stop();
      for (const folder of [project, env.XDG_STATE_HOME]) await rm(folder, { recursive: true, force: true });
      await place.remove();
    },
  };
}

async function fillDatabase(
  { server, url: template }: ServerToUpgrade,
  url: string,
  project: string,
): Promise<void> {
  await withClient(server.url, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      "SELECT datname FROM pg_database WHERE datname LIKE 'shop%'",
    );
    for (const { datname } of rows) await client.query(`DROP DATABASE "${datname}" WITH (FORCE)`);
    await client.query(
      `CREATE DATABASE shop TEMPLATE ${new URL(template).pathname.slice(1)} STRATEGY file_copy`,
    );
  });
  const dump = (format: string, file: string) =>
    run(path.join(CLIENTS.programs, 'pg_dump'), [
      `--format=${format}`,
      `--file=${path.join(project, file)}`,
      url,
    ]);
  await dump('plain', 'test/shop.sql');
  await dump('custom', 'shop.dump');
}

/** @returns a time after the backup, of which all WAL is archived. */
async function makeBackup({ server }: ServerToUpgrade, backup: string, archive: string): Promise<string> {
  const to = ['-h', '127.0.0.1', '-p', String(server.port), '-U', 'postgres', '-D', backup];
  await run(path.join(CLIENTS.programs, 'pg_basebackup'), [
    '--checkpoint=fast',
    '--wal-method=none',
    '--no-sync',
    ...to,
  ]);
  if (SERVER_UID !== undefined) await run('chown', ['-R', `${SERVER_UID}:${SERVER_UID}`, backup]);
  return withClient(server.url, async (client) => {
    const { rows } = await client.query<{ now: string }>('SELECT clock_timestamp()::text AS now');
    await client.query('CREATE TABLE later ()');
    const last = await client.query<{ file: string }>('SELECT pg_walfile_name(pg_switch_wal()) AS file');
    await until('all WAL is archived', async () =>
      (await readdir(archive)).includes(last.rows[0]?.file ?? ''),
    );
    return rows[0]?.now ?? '';
  });
}
