import { access, readdir } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Server } from '../../../src/server/embedded.ts';
import { openSession } from '../../../src/target/connect.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl } from '../../helpers/cloning.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { enterableFolder, withPrivateClone } from '../../helpers/private-clone.ts';
import { VERSIONS } from '../../helpers/servers.ts';

let parent: Awaited<ReturnType<typeof enterableFolder>>;
beforeAll(async () => {
  parent = await enterableFolder();
  vi.stubEnv('XDG_STATE_HOME', parent.path);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await parent.remove();
});

describe.each(VERSIONS)('a clone on a server of its own, PostgreSQL %d', (version) => {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    server = await ownServer(version, { settings: { max_prepared_transactions: '5', work_mem: '7MB' } });
    await withClient(server.url, async (client) => {
      await client.query("CREATE ROLE app LOGIN PASSWORD 'app'");
      await client.query('CREATE DATABASE shop OWNER app');
      await client.query('CREATE DATABASE other');
    });
    url = changedUrl(server.url, { user: 'app', password: 'app', database: 'shop' });
    await withClient(url, (client) =>
      client.query('CREATE TABLE items AS SELECT generate_series(1, 1000) AS id'),
    );
  });
  afterAll(() => server.stop());

  test('has the rows of the target, under its name and for its roles, and is gone afterwards', async () => {
    await withPrivateClone(server, url, { parent: parent.path }, async ({ clone }) => {
      const session = await openSession(clone.connect, { purpose: 'test' });
      const [row] = await session.query(
        'SELECT current_user::text AS who, current_database()::text AS at, (SELECT count(*)::int FROM public.items) AS items, current_setting($1) AS work_mem',
        ['work_mem'],
      );
      expect(row).toEqual({ who: 'app', at: 'shop', items: 1000, work_mem: '7MB' });
      await session.close();
    });
    expect(await readdir(parent.path)).toEqual(['safemigrate']);
    expect(await readdir(`${parent.path}/safemigrate/clones`)).toEqual([]);
    await access(server.folder);
  });
});
