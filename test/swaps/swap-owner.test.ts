import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Server } from '../../src/local-server/embedded.ts';
import { identifier } from '../../src/postgres/sql/quote.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { ownServer } from '../helpers/own-server.ts';
import { OLDEST_AND_NEWEST } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';
import {
  clusterProperties,
  databasesBeside,
  inDatabase,
  ODD_GRANTER,
  ODD_OWNER,
  oddTarget,
} from '../helpers/swapping.ts';

const NAME = `odd "db" it's ü`;

/** A superuser swaps such a target in swap.test.ts. */
describe.each(inThisShare(OLDEST_AND_NEWEST))(
  'PostgreSQL %d, a target with odd names and grants of others',
  (version: ServerVersion) => {
    let server: Server;
    let url: string;
    let before: unknown;

    beforeAll(async () => {
      server = await ownServer(version, { settings: { autovacuum: 'off' } });
      url = inDatabase(server.url, NAME);
      await withClient(server.url, async (client) => {
        for (const statement of oddTarget(NAME)) await client.query(statement);
      });
      before = await clusterProperties(server.url, NAME);
    });
    afterAll(() => server.stop());

    async function swapAndBack(as: string): Promise<void> {
      const words = ['--url', as, '--disconnect', 'idle', 'swap', '--yes', '--', ...sqlCommand('SELECT 1')];
      const swapped = await safemigrate(words);
      expect(swapped.exitCode, swapped.stderr).toBe(0);
      expect(await clusterProperties(server.url, NAME)).toEqual(before);
      const back = await safemigrate(['rollback', '--yes', '--url', as]);
      expect(back).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('is the original again') });
      expect(await clusterProperties(server.url, NAME)).toEqual(before);
      expect(
        await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', as]),
      ).toMatchObject({
        exitCode: 0,
        stderr: '',
      });
      expect(await databasesBeside(server.url)).toEqual([NAME]);
    }

    test('is swapped and taken back by its owner, who is none, and ends sessions of the same role', {
      timeout: 60_000,
    }, async () => {
      await withClient(server.url, async (client) => {
        const [database, owner, granter] = [NAME, ODD_OWNER, ODD_GRANTER].map(identifier);
        await client.query(`GRANT ${granter} TO ${owner}`);
        // Settings of other roles are not its own to make, nor are, from PostgreSQL 15 on, those that no extension declares.
        await client.query(`ALTER DATABASE ${database} RESET app.motto`);
        await client.query(`ALTER ROLE ${granter} IN DATABASE ${database} RESET ALL`);
        await client.query(`ALTER ROLE ${owner} IN DATABASE ${database} SET work_mem TO '9MB'`);
      });
      before = await clusterProperties(server.url, NAME);
      const own = changedUrl(url, { user: ODD_OWNER, password: 'ownerpass' });
      const idle = new Client({ connectionString: own });
      idle.on('error', () => {});
      await idle.connect();
      await swapAndBack(own);
      await expect(idle.query('SELECT 1')).rejects.toThrow();
    });
  },
);
