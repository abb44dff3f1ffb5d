import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { serverUrl, VERSIONS } from '../helpers/servers.ts';

const COMMAND = sqlCommand('CREATE TABLE added (id int PRIMARY KEY)');

/** The server of 19, whose answers call it PostgreSQL 20. @returns the database's URL there. */
async function asPostgres20(database: TemporaryDatabase): Promise<string> {
  const numbers = await withClient(serverUrl(19), async (client) => {
    const { rows } = await client.query(`SELECT split_part(setting, ' ', 1) AS number FROM pg_settings
      WHERE name IN ('server_version', 'server_version_num')`);
    return rows.map(({ number }) => String(number));
  });
  const renamed = (chunk: Buffer) => {
    const text = numbers.reduce(
      (sent, number) => sent.replaceAll(number, number.replace('19', '20')),
      chunk.toString('latin1'),
    );
    return Buffer.from(text, 'latin1');
  };
  const { hostname, port } = new URL(database.url);
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    client.on('error', () => upstream.destroy()).pipe(upstream);
    upstream.on('error', () => client.destroy()).on('end', () => client.end());
    upstream.on('data', (chunk: Buffer) => client.write(renamed(chunk)));
    client.on('close', () => upstream.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const there = new URL(database.url);
  there.port = String((server.address() as AddressInfo).port);
  return there.href;
}

const tables = (url: string) =>
  withClient(url, async (client) => {
    const { rows } = await client.query("SELECT relname FROM pg_class WHERE relname = 'added'");
    return rows.length;
  });

test.skipIf(!VERSIONS.includes(19))(
  'PostgreSQL 20 is rehearsed with a caveat on the first lines, and neither applied to nor swapped',
  async () => {
    const database = await temporaryDatabase(19, { sql: 'CREATE TABLE t (id int)' });
    const url = await asPostgres20(database);

    const { report, exitCode, stderr } = await rehearse(url, COMMAND);
    expect(exitCode, stderr).toBe(0);
    expect(report.target.serverVersion).toMatch(/^20/);
    expect(report.caveats).toContainEqual({
      path: 'target.serverVersion',
      kind: 'estimate',
      reason: 'not tried with PostgreSQL 20: safemigrate knows 14 to 19',
    });
    const shown = await safemigrate(['--', ...COMMAND], { env: { DATABASE_URL: url } });
    expect(shown.stderr).toMatch(/PASSED.*\n(.*\n)?.*Not tried with PostgreSQL 20/);

    for (const mode of ['apply', 'swap']) {
      const refused = await safemigrate([mode, '--yes', '--', ...COMMAND], { env: { DATABASE_URL: url } });
      expect(refused.exitCode, refused.stderr).toBe(4);
      expect(refused.stderr).toContain('not tried with PostgreSQL 20');
      expect(refused.stderr).toContain('Nothing was touched');
    }
    expect(await tables(database.url)).toBe(0);
  },
);
