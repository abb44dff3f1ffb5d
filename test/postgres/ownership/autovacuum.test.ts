import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl, withCloning } from '../../helpers/cloning.ts';
import { until } from '../../helpers/cutting.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

/** A worker that begins at once, and takes minutes for some hundred pages. */
const SLOW_WORKERS = {
  autovacuum: 'on',
  autovacuum_naptime: '1s',
  autovacuum_vacuum_cost_delay: '100ms',
  autovacuum_vacuum_cost_limit: '1',
};

describe.each(OLDEST_AND_NEWEST)('PostgreSQL %d', (version) => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(version, { settings: SLOW_WORKERS });
    await withClient(server.url, async (client) => {
      await client.query(`CREATE ROLE maker LOGIN CREATEDB PASSWORD 'maker'`);
      await client.query('CREATE DATABASE mine OWNER maker');
    });
  });
  afterAll(() => server.stop());

  test('a role that is no superuser drops its clone while autovacuum works in it', async () => {
    const url = changedUrl(server.url, { user: 'maker', password: 'maker', database: 'mine' });
    await withCloning(url, {}, async ({ make }) => {
      const { database } = await make();
      const inClone = changedUrl(url, { database });
      await withClient(inClone, (client) =>
        client.query(`CREATE TABLE filled AS SELECT g AS id, repeat('x', 700) AS v FROM generate_series(1, 6000) g;
          ALTER TABLE filled SET (autovacuum_vacuum_insert_threshold = 0, autovacuum_vacuum_threshold = 0);
          UPDATE filled SET id = id + 1`),
      );
      await until('autovacuum works in the clone', () =>
        withClient(server.url, async (client) => {
          const { rows } = await client.query(
            `SELECT 1 FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND datname = $1 AND query LIKE '%filled%'`,
            [database],
          );
          return rows.length > 0;
        }),
      );
    });
    const { rows } = await withClient(server.url, (client) =>
      client.query(`SELECT datname FROM pg_database WHERE datname LIKE '%rehearsal%'`),
    );
    expect(rows).toEqual([]);
  });
});
