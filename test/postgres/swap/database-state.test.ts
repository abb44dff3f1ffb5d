import { describe, expect, test } from 'vitest';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { rowsWritten } from '../../../src/swap/database-state.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { OLDEST_AND_NEWEST, serverUrl } from '../../helpers/servers.ts';

const TEN_ROWS = 'CREATE TABLE t (n int); INSERT INTO t SELECT generate_series(1, 10)';

describe.each(OLDEST_AND_NEWEST)('rows written in a database on PostgreSQL %d', (version) => {
  test.each([
    ['inserted', 'INSERT INTO t SELECT generate_series(11, 17)'],
    ['updated', 'UPDATE t SET n = -n WHERE n <= 7'],
    ['deleted', 'DELETE FROM t WHERE n <= 7'],
  ])('count those that were %s', async (_kind, sql) => {
    const database = await temporaryDatabase(version, { sql: TEN_ROWS });
    const session = await openSession(parseSettings(serverUrl(version), readEnvironment({}, '/')), {
      purpose: 'test',
    });
    try {
      const [row] = await session.query<{ oid: string }>(
        'SELECT oid::int8 AS oid FROM pg_database WHERE datname = $1',
        [database.name],
      );
      const count = async () => (await rowsWritten(session, Number(row?.oid), 0n)).rows;
      // Sessions that have ended are counted a moment later.
      await expect.poll(count).toBeGreaterThanOrEqual(10n);
      const before = await count();
      await withClient(database.url, (client) => client.query(sql));
      await expect.poll(count).toBe(before + 7n);
    } finally {
      await session.close();
    }
  });
});
