import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { Server, ServerOptions } from '../../src/local-server/embedded.ts';
import { freePort } from '../../src/local-server/embedded.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { skipReason } from '../helpers/requirements.ts';
import { withDatabase } from '../helpers/target-state.ts';

/** Each test has a server of its own, because it hurts it. */
const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

async function serverWithShop(options: ServerOptions = {}): Promise<Server> {
  const server = await ownServer(18, options);
  undo.push(() => server.stop());
  await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  return server;
}

const shopOf = (server: Server) => withDatabase(server.url, 'shop');

const databasesOf = (server: Server) =>
  withClient(server.url, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      `SELECT datname FROM pg_database WHERE datname LIKE 'shop%' ORDER BY 1`,
    );
    return rows.map(({ datname }) => datname);
  });

/** Migrates, says that it waits, and goes on when it is told to. */
const WAITING = ['sh', '-c', '"$@"; echo waiting; read go', 'sh', ...sqlCommand('CREATE TABLE t (id int)')];

describe('while the command runs', () => {
  test.each(['fast', 'immediate'] as const)(
    'a %s restart of the server: exit code 3, the target is as it was, and clean finds what is left',
    async (mode) => {
      const server = await serverWithShop();
      const env = { DATABASE_URL: shopOf(server) };
      const { exitCode, stderr } = await safemigrate(['--', ...WAITING], {
        env,
        typed: [[/waiting/, () => server.restart(mode).then(() => 'go\n')]],
      });
      expect(exitCode).toBe(3);
      expect(stderr).toContain('The connection to the server was lost during the run');
      expect(stderr).toContain('The target is as it was before.');
      expect(stderr).not.toMatch(/^\s+at .*:\d+:\d+/m);
      const cleaned = await safemigrate(['clean'], { env });
      expect(cleaned.exitCode, cleaned.stderr).toBe(0);
      expect(await databasesOf(server)).toEqual(['shop']);
    },
  );

  test('somebody drops the target: it is told, and the clone is dropped all the same', async () => {
    const server = await serverWithShop();
    const { exitCode, stdout, stderr } = await safemigrate(['--format', 'json', '--', ...WAITING], {
      env: { DATABASE_URL: shopOf(server) },
      typed: [
        [
          /waiting/,
          async () => {
            await withClient(server.url, (client) => client.query('DROP DATABASE shop WITH (FORCE)'));
            return 'go\n';
          },
        ],
      ],
    });
    expect(stdout, stderr).not.toBe('');
    const report = readReport(stdout);
    expect(report.target.changes).toMatchObject([{ what: 'database shop dropped', madeBy: 'others' }]);
    expect(exitCode).toBe(0);
    expect(await databasesOf(server)).toEqual([]);
  });
});

describe('a server that no clone can be made on', () => {
  test('a standby: exit code 3, and the primary is asked for', async () => {
    const primary = await ownServer(18);
    undo.push(() => primary.stop());
    const { stderr, exitCode } = await withStandbyOf(primary, (url) =>
      safemigrate(['--', 'true'], { env: { DATABASE_URL: url } }),
    );
    expect(exitCode).toBe(3);
    expect(stderr).toContain('The server is a standby');
    expect(stderr).toContain('Give the address of the primary');
  });

  const bouncer = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer'].find((file) => existsSync(file));

  test.skipIf(skipReason(bouncer ? null : 'PgBouncer is not installed'))(
    'PgBouncer: exit code 3, and the direct address is asked for',
    async () => {
      const server = await serverWithShop();
      const url = await startBouncer(bouncer ?? '', server);
      const { stderr, exitCode } = await safemigrate(['--', 'true'], { env: { DATABASE_URL: url } });
      expect(exitCode).toBe(3);
      expect(stderr).toContain('A connection pooler (such as PgBouncer)');
      expect(stderr).toContain("server's direct address");
    },
  );
});

describe('a disk that is too small', () => {
  const noDisk = loopFileSystemObstacle('ext4');

  test('is seen before, or while the clone is made: exit code 3, nothing is left, and the server lives', async (context) => {
    const obstacle = skipReason(await noDisk);
    if (obstacle) return context.skip(obstacle);
    const disk = await loopFileSystem('ext4', 480 * 1024 * 1024);
    undo.push(() => disk.destroy());
    const server = await serverWithShop({
      parent: disk.folder,
      // So that the table itself is not written twice.
      settings: { wal_level: 'minimal', max_wal_senders: '0', max_wal_size: '32MB', min_wal_size: '32MB' },
    });
    const url = shopOf(server);
    await withClient(url, async (client) => {
      await client.query(
        `CREATE TABLE big AS SELECT g AS id, repeat(md5(g::text), 60) AS text FROM generate_series(1, 100000) g`,
      );
      await client.query('CHECKPOINT');
      await client.query(`CREATE ROLE app LOGIN CREATEDB PASSWORD 'opensesame'`);
      await client.query('ALTER DATABASE shop OWNER TO app');
    });

    const seen = await safemigrate(['--', 'true'], { env: { DATABASE_URL: url } });
    expect(seen.exitCode, seen.stderr).toBe(3);
    expect(seen.stderr).toMatch(/a copy takes .* and .* are free on the server's disk/);

    // An ordinary role may not see where the data is.
    const asApp = new URL(url);
    asApp.username = 'app';
    asApp.password = 'opensesame';
    const met = await safemigrate(['--', 'true'], { env: { DATABASE_URL: asApp.href } });
    expect(met.exitCode, met.stderr).toBe(3);
    expect(met.stderr).toContain('SQLSTATE 53100');
    expect(met.stderr).toContain('The target was not touched.');

    expect(await databasesOf(server)).toEqual(['shop']);
    await withClient(url, async (client) => {
      expect((await client.query('SELECT id FROM big LIMIT 1')).rows).toEqual([{ id: 1 }]);
    });
  });
});

/** A copy of the stopped primary's folder in recovery: it never finds WAL to follow, and that is enough. */
async function withStandbyOf<T>(primary: Server, use: (url: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(path.join(tmpdir(), 'standby-'));
  undo.push(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o755);
  const data = path.join(folder, 'data');
  const [pid = ''] = execFileSync('head', ['-n', '1', path.join(primary.folder, 'data/postmaster.pid')], {
    encoding: 'utf8',
  }).split('\n');
  const program = execFileSync('readlink', [`/proc/${pid}/exe`], { encoding: 'utf8' }).trim();
  await withClient(primary.url, (client) => client.query('CHECKPOINT'));
  await withClient(primary.url, async (client) => {
    await client.query(`SELECT pg_backup_start('standby', true)`);
    cpSync(path.join(primary.folder, 'data'), data, { recursive: true });
    const { rows } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop(false)');
    writeFileSync(path.join(data, 'backup_label'), rows[0]?.labelfile ?? '');
    execFileSync('sh', [
      '-c',
      'cp "$0"/* "$1"/ 2>/dev/null || true',
      path.join(primary.folder, 'data/pg_wal'),
      path.join(data, 'pg_wal'),
    ]);
  });
  rmSync(path.join(data, 'postmaster.pid'));
  writeFileSync(path.join(data, 'standby.signal'), '');
  const port = await freePort('127.0.0.1');
  chmodSync(data, 0o700);
  const asNobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  if (asNobody.uid) execFileSync('chown', ['-R', '65534:65534', data]);
  chownSync(folder, asNobody.uid ?? process.getuid?.() ?? 0, asNobody.gid ?? process.getgid?.() ?? 0);
  const standby = spawn(program, ['-D', data, '-p', String(port), '-k', folder], {
    stdio: 'ignore',
    ...asNobody,
  });
  undo.push(() => ended(standby, 'SIGQUIT'));
  const url = new URL(primary.url);
  url.port = String(port);
  await vi.waitFor(() => withClient(url.href, (client) => client.query('SELECT 1')), 60_000);
  return use(url.href);
}

async function startBouncer(program: string, server: Server): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'pgbouncer-'));
  undo.push(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o755);
  const port = await freePort('127.0.0.1');
  writeFileSync(path.join(folder, 'users'), `"${server.user}" "${server.password}"\n`);
  writeFileSync(
    path.join(folder, 'ini'),
    `[databases]\n* = host=127.0.0.1 port=${server.port}\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=${port}\n` +
      `unix_socket_dir=\nauth_type=plain\nauth_file=${folder}/users\npool_mode=transaction\n`,
  );
  const asNobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  const child = spawn(program, ['-q', path.join(folder, 'ini')], { stdio: 'ignore', ...asNobody });
  undo.push(() => ended(child, 'SIGKILL'));
  const url = new URL(shopOf(server));
  url.port = String(port);
  await vi.waitFor(() => withClient(url.href, (client) => client.query('SELECT 1')), 60_000);
  return url.href;
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill(signal);
  await exit;
}
