import { Client } from 'pg';
import { beforeAll, expect, test } from 'vitest';
import { type DatabaseAccount, readAccounts } from '../../../src/database/read-accounts.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { useOwnServers } from '../../helpers/servers.ts';

const VERSIONS = [14, 15, 18] as const;

beforeAll(() => useOwnServers(...VERSIONS));

test.each(VERSIONS)('PostgreSQL %i counts every session that has come, however short', async (version) => {
  const target = await temporaryDatabase(version, { sql: 'CREATE TABLE jobs (id int)' });
  const settings = parseSettings(target.url, readEnvironment({}, '/'));
  const read = async () => {
    const session = await openSession(settings, { purpose: 'watch' });
    try {
      const books = await readAccounts(session, { wait: true });
      const account = [...books.databases.values()].find(({ name }) => name === target.name);
      return { books, account: account as DatabaseAccount };
    } finally {
      await session.close();
    }
  };
  const { account: first } = await read();
  for (let visit = 0; visit < 20; visit++)
    await withClient(target.url, (client) => client.query('INSERT INTO jobs VALUES (1)'));
  await (await openSession(settings, { purpose: 'inspect' })).close();
  const { account: last, books } = await read();
  expect(books).toMatchObject({ isCurrent: true, countsRows: true });
  expect(last.ownSessions - first.ownSessions).toBe(2);
  expect(last.sessions - first.sessions).toBe(20 + 2);
});

test.each(VERSIONS)(
  'PostgreSQL %i lists everybody but us, whatever they call themselves',
  async (version) => {
    const target = await temporaryDatabase(version, {});
    const settings = parseSettings(target.url, readEnvironment({}, '/'));
    const named = new URL(target.url);
    named.searchParams.set('application_name', 'safemigrate 01jq4x9d0k7pt watch');
    const impostor = new Client(named.href);
    await impostor.connect();
    const session = await openSession(settings, { purpose: 'inspect' });
    try {
      const { visitors, databases } = await readAccounts(session, { wait: false });
      const { rows } = await impostor.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      const [oid] = [...databases].find(([, { name }]) => name === target.name) ?? [];
      expect(visitors.filter(({ database }) => database === oid)).toMatchObject([
        { pid: rows[0]?.pid, client: { address: '127.0.0.1', port: expect.any(Number) } },
      ]);
    } finally {
      await session.close();
      await impostor.end();
    }
  },
);
