import { expect, test } from 'vitest';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { compareShared } from '../../../src/proof/shared-changes.ts';
import { sharedCatalogues } from '../../../src/proof/shared-objects.ts';
import { withClient } from '../../helpers/database.ts';
import { ownServer } from '../../helpers/own-server.ts';

test.each([14, 18] as const)(
  'what PostgreSQL %i keeps in files is compared, and no value is shown',
  async (version) => {
    const server = await ownServer(version);
    const session = await openSession(parseSettings(server.url, readEnvironment({}, '/')), {
      purpose: 'watch',
    });
    try {
      const steps: [string, string[]][] = [
        [
          `ALTER SYSTEM SET primary_conninfo = 'password=secret'`,
          ['setting primary_conninfo in postgresql.auto.conf created'],
        ],
        [
          `ALTER SYSTEM SET primary_conninfo = 'password=other'`,
          [expect.stringMatching(/^setting primary_conninfo in postgresql.auto.conf: value ….{8} → ….{8}$/)],
        ],
        [`SELECT pg_create_physical_replication_slot('standby')`, ['replication slot standby created']],
        ['ALTER SYSTEM RESET ALL', ['setting primary_conninfo in postgresql.auto.conf dropped']],
        [`SELECT pg_drop_replication_slot('standby')`, ['replication slot standby dropped']],
      ];
      for (const [sql, expected] of steps) {
        const before = await sharedCatalogues(session, 0);
        await withClient(server.url, (client) => client.query(sql));
        const changes = compareShared(before, await sharedCatalogues(session, 0));
        expect(
          changes.map(({ what }) => what),
          sql,
        ).toEqual(expected);
        expect(changes.map(({ xmin }) => xmin)).toEqual([null]);
      }
      const role = parseSettings(server.url, readEnvironment({}, '/'));
      await withClient(server.url, (client) => client.query("CREATE ROLE plain LOGIN PASSWORD 'plain'"));
      const plain = await openSession({ ...role, user: 'plain', password: 'plain' }, { purpose: 'watch' });
      const { objects } = await sharedCatalogues(plain, 0);
      expect([...objects.keys()].filter((object) => object.startsWith('setting '))).toEqual([]);
      await plain.close();
    } finally {
      await session.close();
      await server.stop();
    }
  },
);
