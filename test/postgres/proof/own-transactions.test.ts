import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { type Author, compareShared, OwnTransactions } from '../../../src/proof/shared-changes.ts';
import { sharedCatalogues } from '../../../src/proof/shared-objects.ts';
import type { Observed } from '../../../src/proxy/observed.ts';
import { withClient } from '../../helpers/client.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { withProxy } from '../../helpers/proxy.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';
import { withDatabase } from '../../helpers/target-state.ts';

describe.each(OLDEST_AND_NEWEST)('of a change to what all databases share, on PostgreSQL %d', (version) => {
  let server: Server;
  let session: Session;

  beforeAll(async () => {
    server = await ownServer(version);
    await withClient(server.url, async (client) => {
      await client.query('CREATE DATABASE shop');
      for (const role of ['clerk', 'boss', 'guest', 'left']) await client.query(`CREATE ROLE ${role}`);
      await client.query('GRANT boss TO guest');
    });
    session = await openSession(parseSettings(server.url, readEnvironment({}, '/')), { purpose: 'watch' });
  });

  afterAll(async () => {
    await session.close();
    await server.stop();
  });

  /** Who made each change, while the command works through the proxy and others beside it. */
  const authorsOf = async (work: (command: Client, others: Client) => Promise<unknown>) => {
    const transactions = new OwnTransactions();
    const before = await sharedCatalogues(session, 0);
    const shop = withDatabase(server.url, 'shop');
    const observer = (event: Observed) => transactions.observe(event);
    await withProxy(shop, { observer }, async ({ url }) => {
      await withClient(server.url, (others) => withClient(url, (command) => work(command, others)));
    });
    const changes = compareShared(before, await sharedCatalogues(session, 0));
    return Object.fromEntries(
      changes.map((change): [string, Author['madeBy']] => [
        change.what,
        transactions.authorOf(change).madeBy,
      ]),
    );
  };

  test.each([
    [`ALTER ROLE clerk CREATEDB`, 'role clerk: rolcreatedb false → true'],
    [`ALTER ROLE clerk PASSWORD 'x'`, 'role clerk: password changed, or set again'],
    [`ALTER ROLE clerk SET work_mem = '5MB'`, 'role clerk: settings none → work_mem=5MB'],
    [`ALTER ROLE clerk RESET work_mem`, 'role clerk: settings work_mem=5MB → none'],
    [`COMMENT ON ROLE clerk IS 'sells'`, 'role clerk: comment none → sells'],
    [`GRANT boss TO clerk`, 'membership of clerk in boss granted by postgres created'],
    [`ALTER DATABASE shop SET work_mem = '7MB'`, 'database shop: settings none → work_mem=7MB'],
    [`DROP ROLE left`, 'role left dropped'],
  ])(
    '%s by others in the middle of the command’s transaction is not put down to the command',
    async (sql, what) => {
      const authors = await authorsOf(async (command, beside) => {
        await command.query('BEGIN');
        await command.query('CREATE TABLE t (id int)');
        await beside.query(sql);
        await command.query('INSERT INTO t VALUES (1)');
        await command.query('DROP TABLE t');
        await command.query('COMMIT');
      });
      expect(authors).toEqual({ [what]: 'unknown' });
    },
  );

  /** What is done, and what takes it back; either is hidden in its turn. */
  const PAIRS: readonly (readonly [string, string])[] = [
    ['ALTER ROLE guest CREATEDB', 'ALTER ROLE guest NOCREATEDB'],
    [`ALTER ROLE guest SET work_mem = '6MB'`, 'ALTER ROLE guest RESET work_mem'],
    [`COMMENT ON ROLE guest IS 'looks around'`, 'COMMENT ON ROLE guest IS NULL'],
    ['GRANT clerk TO guest', 'REVOKE clerk FROM guest'],
    ['GRANT TEMPORARY ON DATABASE shop TO clerk', 'DROP OWNED BY clerk'],
    ['ALTER DATABASE shop OWNER TO guest', 'REASSIGN OWNED BY guest TO postgres'],
    ['GRANT TEMPORARY ON DATABASE shop TO clerk', 'REVOKE TEMPORARY ON DATABASE shop FROM clerk'],
    ['CREATE ROLE fresh', 'DROP ROLE fresh'],
  ];
  /** Ways of sending it, each as one text and more. */
  const WAYS: readonly ((sql: string) => string[])[] = [
    (sql) => [sql],
    (sql) => [`DO $$ BEGIN ${sql}; END $$`],
    (sql) => ['BEGIN', `DO $$ BEGIN ${sql}; END $$`, 'COMMIT'],
    (sql) => ['BEGIN', 'SAVEPOINT s', `DO $$ BEGIN ${sql}; END $$`, 'RELEASE s', 'SELECT 1', 'COMMIT'],
    (sql) => [
      `CREATE OR REPLACE FUNCTION hidden() RETURNS void LANGUAGE plpgsql AS $$ BEGIN ${sql}; END $$`,
      'SELECT hidden()',
    ],
  ];

  test.each(PAIRS)('%s, and back: %s, is known to be the command’s if a row tells', async (...pair) => {
    for (const way of WAYS)
      for (const sql of pair) {
        const authors = await authorsOf(async (command) => {
          for (const statement of way(sql)) await command.query(statement);
        });
        expect(Object.keys(authors).length, way(sql).join('; ')).toBeGreaterThan(0);
        const [told] = new Set(Object.values(authors));
        expect(told, `${way(sql).join('; ')}: ${JSON.stringify(authors)}`).toBe(
          leavesNoRow(sql) ? 'unknown' : 'command',
        );
      }
  });

  test('what it did in a block that catches exceptions has an id of its own, and an unknown author', async () => {
    const authors = await authorsOf((command) =>
      command.query(
        `DO $$ BEGIN ALTER ROLE guest CREATEDB; EXCEPTION WHEN division_by_zero THEN NULL; END $$`,
      ),
    );
    expect(Object.values(authors)).toEqual(['unknown']);
  });
});

/** What changed is that a row is gone, or it is kept in a row that is gone. */
function leavesNoRow(sql: string): boolean {
  return /^DROP ROLE|^REVOKE clerk|RESET|IS NULL$/.test(sql);
}
