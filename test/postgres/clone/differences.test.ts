import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Difference, readDifferences } from '../../../src/clone/differences.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl } from '../../helpers/cloning.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

describe.each(OLDEST_AND_NEWEST)(
  'what a clone does not have as the target has it, on PostgreSQL %d',
  (version) => {
    let server: Server;
    beforeAll(async () => {
      server = await ownServer(version, {
        settings: { wal_level: 'logical', max_prepared_transactions: '2' },
      });
      await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
      await withClient(server.url, (client) => client.query('CREATE DATABASE plain'));
      await withClient(server.url, (client) =>
        client.query('CREATE ROLE reader LOGIN PASSWORD $$of-a-reader$$'),
      );
      await shop(`CREATE UNLOGGED TABLE cache (id int); CREATE TABLE items (id int);
      CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w;
      CREATE PUBLICATION p FOR TABLE items`);
      await shop("SELECT pg_create_logical_replication_slot('slot', 'pgoutput')");
      await shop(
        "CREATE SUBSCRIPTION sub CONNECTION 'host=nowhere.invalid' PUBLICATION p WITH (connect = false)",
      );
      await shop("BEGIN; INSERT INTO items VALUES (1); PREPARE TRANSACTION 'held'");
    });
    afterAll(async () => {
      await shop("ROLLBACK PREPARED 'held'");
      await shop("SELECT pg_drop_replication_slot('slot')");
      await server.stop();
    });

    const shop = (sql: string) =>
      withClient(changedUrl(server.url, { database: 'shop' }), (client) => client.query(sql));

    async function read(url: string): Promise<Difference[]> {
      const session = await openSession(parseSettings(url, readEnvironment({}, '/')), {
        purpose: 'test',
        readOnly: true,
      });
      try {
        return await readDifferences(session, version * 10_000);
      } finally {
        await session.close();
      }
    }

    const EVERYTHING = [
      ['unlogged relation', 'cluster'],
      ['prepared transaction', 'template'],
      ['prepared transaction', 'cluster'],
      ['foreign server', 'every clone'],
      ['logical replication slot', 'every clone'],
      ['publication', 'every clone'],
      ['subscription', 'every clone'],
    ];

    test.each([
      ['a superuser', {}],
      ['a role without rights', { user: 'reader', password: 'of-a-reader' }],
    ])('is all told to %s', async (_, login) => {
      const found = await read(changedUrl(server.url, { database: 'shop', ...login }));
      expect(found.map(({ what, where }) => [/^1 ([^:]*):/.exec(what)?.[1], where])).toEqual(EVERYTHING);
    });

    test('is nothing of what other databases have', async () => {
      expect(await read(changedUrl(server.url, { database: 'plain' }))).toEqual([]);
    });

    if (version >= 15)
      test('are the rules by which text was sorted when it was made', async () => {
        await withClient(server.url, async (client) => {
          await client.query("UPDATE pg_database SET datcollversion = '1.0' WHERE datname = 'plain'");
        });
        expect(await read(changedUrl(server.url, { database: 'plain' }))).toEqual([
          { what: expect.stringContaining('the collation was 1.0 when'), where: 'every clone' },
        ]);
      });
  },
);
