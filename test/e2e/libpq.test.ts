import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { Authority, opensslObstacle } from '../helpers/certificates.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { withProxy } from '../helpers/proxy.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { upgradePrograms } from '../helpers/upgrade-programs.ts';

const newest = inject('programs')[19];
const LIBPQS = [
  { libpq: 17, ...(await upgradePrograms(17)) },
  { libpq: 18, ...(await upgradePrograms(18)) },
  { libpq: 19, programs: newest ?? '', obstacle: newest ? null : 'there is no PostgreSQL 19' },
].map(({ libpq, programs, obstacle }) => ({ libpq, psql: path.join(programs, 'psql'), obstacle }));
const skipped = skipReason(LIBPQS.find(({ obstacle }) => obstacle !== null)?.obstacle ?? null);

/** Variables of libpq 18 and newer; 17 does not know them, and speaks 3.0. */
const LATEST = { PGMAXPROTOCOLVERSION: 'latest' };

const psql = (program: string, words: readonly string[], env: NodeJS.ProcessEnv) => {
  const child = spawn(program, ['-X', ...words], { env: { PATH: process.env.PATH, ...env } });
  const said = Promise.all([once(child, 'exit'), text(child.stderr)]).then(([, stderr]) => stderr);
  return { child, said };
};

describe.skipIf(skipped).each(LIBPQS)('libpq of $libpq', ({ libpq, psql: program }) => {
  test.each([17, 19] as const)(
    'cancels what it runs through the proxy, on PostgreSQL %d',
    async (version) => {
      const database = await temporaryDatabase(version);
      await withProxy(database.url, { serverVersionNum: version * 10_000 }, async ({ url }) => {
        const { child, said } = psql(program, [url, '-c', 'SELECT pg_sleep(600)'], LATEST);
        await expect.poll(() => isSleeping(database.url)).toBe(true);
        child.kill('SIGINT');
        expect(await said).toContain('canceling statement due to user request');
      });
    },
  );

  // The package of Python's 18 was built without TLS: faults/tls.test.ts has another one's.
  if (libpq === 18) return;

  test('is told that there is no TLS if it begins with it', async () => {
    const database = await temporaryDatabase(19);
    await withProxy(database.url, {}, async ({ url, proxy }) => {
      const direct = `${url}?sslmode=require&sslnegotiation=direct`;
      expect(await psql(program, [direct, '-c', 'SELECT 1'], {}).said).not.toBe('');
      expect(proxy.leftForTls).toBe(true);
    });
  });
});

const isSleeping = (url: string) =>
  withClient(url, async (client) => {
    const { rows } = await client.query(
      `SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active' AND datname = current_database()`,
    );
    return rows.length > 0;
  });

describe.skipIf(skipped || opensslObstacle())('a target that is reached by direct TLS', () => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(19);
    const file = (name: string) => path.join(server.folder, name);
    new Authority(server.folder, 'ca').sign('server', { name: 'localhost' });
    await withClient(server.url, async (client) => {
      await client.query(`ALTER SYSTEM SET ssl_cert_file = '${file('server.crt')}'`);
      await client.query(`ALTER SYSTEM SET ssl_key_file = '${file('server.key')}'`);
      await client.query('ALTER SYSTEM SET ssl = on');
      await client.query(`SET password_encryption = md5; CREATE ROLE old SUPERUSER LOGIN PASSWORD 'pw'`);
    });
    const rules = file('data/pg_hba.conf');
    writeFileSync(rules, `hostssl all old all md5\n${readFileSync(rules, 'utf8')}`);
    await server.restart();
  });
  afterAll(() => server?.stop());

  test('is rehearsed by each with the newest protocol, and with the notices of its login', async () => {
    const url = `postgresql://old:pw@localhost:${server.port}/postgres?sslmode=require&sslnegotiation=direct`;
    const notices = /MD5/gi;
    const direct = await psql(path.join(newest ?? '', 'psql'), [url, '-c', ''], {}).said;
    expect(direct).toMatch(notices);
    const words = LIBPQS.map(
      ({ libpq, psql: program }) =>
        // Some are built without TLS, and refuse a URL that demands it.
        `${program} -X -q -v ON_ERROR_STOP=1 "\${DATABASE_URL%%\\?*}" -c 'CREATE TABLE by_${libpq} ()'`,
    );
    const { exitCode, report, stderr } = await rehearse(url, ['sh', '-ec', words.join('\n')], {
      env: { ...LATEST, PGMINPROTOCOLVERSION: '3.2' },
    });
    expect(exitCode, stderr).toBe(0);
    expect(report.schema?.changes.map(({ object }) => object)).toEqual(
      LIBPQS.map(({ libpq }) => `public.by_${libpq}`),
    );
    expect(stderr.match(notices)).toHaveLength((direct.match(notices) ?? []).length * LIBPQS.length);
    expect(report.target.unchanged).toBe(true);
  });
});
