import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { comparer } from '../../../src/database/same-target.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../../helpers/database.ts';
import { skipReason } from '../../helpers/requirements.ts';

function pgbouncer(): string | undefined {
  for (const program of ['pgbouncer', '/usr/sbin/pgbouncer']) {
    try {
      execFileSync(program, ['--version'], { stdio: 'ignore' });
      return program;
    } catch {}
  }
  return undefined;
}

const program = pgbouncer();

describe.skipIf(skipReason(program ? null : 'PgBouncer is not installed'))('behind PgBouncer', () => {
  let database: TemporaryDatabase;
  let folder: string;
  let child: ChildProcess;
  let pooled: string;

  beforeAll(async () => {
    database = await temporaryDatabase(18);
    folder = mkdtempSync(join(tmpdir(), 'pgbouncer-'));
    chmodSync(folder, 0o755);
    const { hostname, port, username, password } = new URL(database.url);
    const listen = await freePort();
    writeFileSync(join(folder, 'users'), `"${username}" "${password}"\n`);
    writeFileSync(
      join(folder, 'ini'),
      `[databases]\n* = host=${hostname} port=${port}\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=${listen}\nunix_socket_dir=\nauth_type=plain\nauth_file=${folder}/users\npool_mode=transaction\nadmin_users=${username}\n`,
    );
    const asRoot = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
    child = spawn(program ?? '', ['-q', join(folder, 'ini')], { stdio: 'ignore', ...asRoot });
    pooled = `postgresql://${username}:${password}@127.0.0.1:${listen}/${database.name}`;
    await vi.waitFor(() => withClient(pooled, (client) => client.query('SELECT 1')), 60_000);
  });

  afterAll(async () => {
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    rmSync(folder, { recursive: true });
    await database.drop();
  });

  const settings = (url: string) => parseSettings(url, readEnvironment({}, '.'));

  test('a session is refused, and the direct address asked for', async () => {
    const attempt = openSession(settings(pooled), { purpose: 'test' });
    await expect(attempt).rejects.toMatchObject({
      code: 'SERVER',
      message: expect.stringContaining('pooler'),
      hint: expect.stringContaining('direct address'),
    });
  });

  test('none of our settings stays on a connection that others get next', async () => {
    await openSession(settings(pooled), { purpose: 'test' }).catch(() => {});
    await withClient(pooled, async (client) => {
      const { rows } = await client.query(
        `SELECT current_setting('search_path') AS path, current_setting('statement_timeout') AS timeout`,
      );
      expect(rows).toEqual([{ path: '"$user", public', timeout: '0' }]);
    });
  });

  test('its own console is no target either', async () => {
    const attempt = openSession({ ...settings(pooled), database: 'pgbouncer' }, { purpose: 'test' });
    await expect(attempt).rejects.toMatchObject({
      code: 'SERVER',
      message: expect.stringContaining('console'),
    });
  });

  test('the same database is recognised, and another one', async () => {
    const compare = comparer(settings(database.url));
    expect(await compare(settings(pooled))).toEqual({ kind: 'same' });
    expect(await compare({ ...settings(pooled), database: 'postgres' })).toEqual({ kind: 'other-database' });
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address ? address.port : 0;
}
