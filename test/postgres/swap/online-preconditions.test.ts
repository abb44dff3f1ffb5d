import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { newRunId } from '../../../src/ownership/run-id.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { withSession } from '../../../src/postgres/session-helpers.ts';
import { findOwnConnection } from '../../../src/swap/online/own-connection.ts';
import { onlineObstacles } from '../../../src/swap/online/preconditions.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl } from '../../helpers/cloning.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

describe.each(OLDEST_AND_NEWEST)('PostgreSQL %d', (version: ServerVersion) => {
  let server: Server;
  let plain: string;
  beforeAll(async () => {
    const settings = { wal_level: 'replica', max_replication_slots: '1', max_prepared_transactions: '2' };
    server = await ownServer(version, { settings });
    plain = changedUrl(server.url, { user: 'plain', password: 'plainpass' });
    await withClient(server.url, (client) =>
      client.query("CREATE ROLE plain LOGIN CREATEDB PASSWORD 'plainpass'"),
    );
  });
  afterAll(() => server.stop());

  const settingsOf = (url: string) => parseSettings(url, readEnvironment({}, '/'));

  async function obstacles(url: string, wayBack = false): Promise<string[]> {
    const target = {
      server: { versionNum: version * 10_000 },
      role: { name: url === plain ? 'plain' : 'postgres', superuser: url !== plain },
    } as Parameters<typeof onlineObstacles>[1];
    return withSession(openSession(settingsOf(url), { purpose: 'test' }), async (session) => {
      const found = await onlineObstacles(session, target, wayBack);
      return found.map(({ reason, wayOut }) => `${reason}: ${wayOut}`);
    });
  }

  test('a superuser needs wal_level, and from PostgreSQL 19 on not even that', async () => {
    const walLevel = 'wal_level is replica: ALTER SYSTEM SET wal_level = logical; and restart the server';
    expect(await obstacles(server.url)).toEqual(version >= 19 ? [] : [walLevel]);
  });

  test('a way back needs more of everything, and a limit of the WAL that is kept for it', async () => {
    const found = (await obstacles(server.url, true)).join('\n');
    expect(found).toContain(
      'only one replication slot is free, and a way back needs another (max_replication_slots)',
    );
    expect(found).toContain("ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'; SELECT pg_reload_conf();");
  });

  test('a free slot is needed, and that no prepared transaction holds it up', async () => {
    await withClient(server.url, async (client) => {
      await client.query("SELECT pg_create_physical_replication_slot('others')");
      await client.query("BEGIN; CREATE TABLE held (id int); PREPARE TRANSACTION 'held'");
      const found = (await obstacles(server.url)).join('\n');
      expect(found).toContain('no replication slot is free (max_replication_slots)');
      expect(found).toContain('1 prepared transaction on the server (in postgres)');
      await client.query("SELECT pg_drop_replication_slot('others')");
      await client.query("ROLLBACK PREPARED 'held'");
    });
  });

  test('other roles need what their version can grant', async () => {
    const found = (await obstacles(plain)).join('\n');
    expect(found).toContain('ALTER ROLE "plain" REPLICATION;');
    expect(found).toContain(
      version < 16
        ? 'before PostgreSQL 16 only superusers may create subscriptions'
        : 'GRANT pg_create_subscription TO "plain";',
    );
  });

  test('the server is asked how it reaches itself, and nothing of that stays', async () => {
    const settings = settingsOf(server.url);
    const run = newRunId();
    await withSession(openSession(settings, { purpose: 'test' }), async (session) => {
      const way = await findOwnConnection(session, { settings, run, superuser: true });
      expect(way).toEqual(expect.stringContaining("dbname='postgres'"));
      const nobody = { ...settings, user: 'nobody' };
      const failed = await findOwnConnection(session, { settings: nobody, run, superuser: true });
      expect(failed).toEqual({ failure: expect.stringContaining('nobody') });
      expect(await session.query('SELECT FROM pg_subscription')).toEqual([]);
    });
  });
});
