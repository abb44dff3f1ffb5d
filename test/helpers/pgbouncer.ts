import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import type { Server } from '../../src/local-server/embedded.ts';
import { freePort } from '../../src/local-server/embedded.ts';
import { until } from './cutting.ts';
import { SERVER_UID } from './placed-server.ts';

/** A real PgBouncer, before one server. */
export interface PgBouncer {
  /** Of its console. */
  readonly console: string;
  url(alias: string): string;
  /** What its console says to SHOW DATABASES: the aliases that are paused. */
  paused(): Promise<string[]>;
  stop(): Promise<void>;
}

/** @returns why there is none here, for skipReason(). */
export async function pgBouncerObstacle(): Promise<string | null> {
  try {
    await promisify(execFile)('pgbouncer', ['--version']);
    return null;
  } catch {
    return 'pgbouncer is not installed';
  }
}

/** @param aliases the names that it offers, each with the database that it leads to. */
export async function startPgBouncer(
  server: Server,
  aliases: Readonly<Record<string, string>>,
  mode: 'transaction' | 'session' = 'transaction',
): Promise<PgBouncer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-pgbouncer-'));
  const port = await freePort('127.0.0.1');
  const databases = Object.entries(aliases).map(
    ([alias, database]) => `${alias} = host=127.0.0.1 port=${server.port} dbname=${database}`,
  );
  const config = [
    ...['[databases]', ...databases, '[pgbouncer]', 'listen_addr = 127.0.0.1', `listen_port = ${port}`],
    ...['unix_socket_dir =', `pool_mode = ${mode}`, 'auth_type = trust', 'admin_users = postgres'],
    ...[`auth_file = ${path.join(folder, 'users')}`, 'max_client_conn = 100', 'default_pool_size = 10'],
  ];
  await writeFile(path.join(folder, 'config'), `${config.join('\n')}\n`);
  await writeFile(path.join(folder, 'users'), `"${server.user}" "${server.password}"\n`, { mode: 0o600 });
  // It refuses to run as root.
  if (SERVER_UID !== undefined)
    for (const each of [folder, path.join(folder, 'config'), path.join(folder, 'users')])
      await chown(each, SERVER_UID, SERVER_UID);
  const program = spawn('pgbouncer', ['-q', path.join(folder, 'config')], {
    stdio: 'ignore',
    ...(SERVER_UID === undefined ? {} : { uid: SERVER_UID, gid: SERVER_UID }),
  });
  const url = (alias: string) => `postgresql://${server.user}@127.0.0.1:${port}/${alias}`;
  const paused = () => askConsole(url('pgbouncer'));
  await until('PgBouncer answers', () =>
    paused().then(
      () => true,
      () => false,
    ),
  );
  return {
    console: url('pgbouncer'),
    url,
    paused,
    async stop() {
      await end(program);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function askConsole(connectionString: string): Promise<string[]> {
  const client = new Client({ connectionString });
  client.on('error', () => {});
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string; paused: string }>('SHOW DATABASES');
    return rows.filter(({ paused }) => Number(paused) === 1).map(({ name }) => name);
  } finally {
    await client.end();
  }
}

async function end(program: ChildProcess): Promise<void> {
  if (program.exitCode !== null || program.signalCode !== null) return;
  const exited = once(program, 'exit');
  program.kill('SIGTERM');
  await exited;
}
