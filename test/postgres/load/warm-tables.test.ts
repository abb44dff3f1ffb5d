import { expect, test } from 'vitest';
import { warmTables } from '../../../src/load/warm-tables.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';

const SETUP = `
CREATE TABLE "Order lines" (id int PRIMARY KEY, v text);
INSERT INTO "Order lines" SELECT i, repeat('x', 500) FROM generate_series(1, 1000) i;
CREATE TABLE untouched (id int);
INSERT INTO untouched VALUES (1);
CREATE MATERIALIZED VIEW unfilled AS SELECT 1 AS one WITH NO DATA;
CREATE VIEW lines AS SELECT * FROM "Order lines"`;
const READ = `SELECT coalesce(sum(pg_stat_get_tuples_returned(c.oid)), 0)::int AS rows FROM pg_class c WHERE c.oid = to_regclass($1)`;

test('tables are read themselves, not their indexes, and what is no table is passed over', async () => {
  const { url } = await temporaryDatabase(18, { sql: SETUP });
  // Of a table whose pages are all visible, an index would do for counting rows.
  await withClient(url, (client) => client.query('VACUUM ANALYZE "Order lines"'));
  const returned = await rowsRead(url, 'public."Order lines"');
  const session = await openSession(parseSettings(url, readEnvironment({}, '/')), {
    purpose: 'clone',
    readOnly: true,
  });
  // The smallest comes first: what cannot be read is left cold.
  await warmTables(session, ['public.unfilled', 'public."Order lines"', 'public.lines', 'public.gone']);
  await session.query('SELECT pg_stat_force_next_flush()');
  await session.close();
  expect((await rowsRead(url, 'public."Order lines"')) - returned).toBe(1000);
  expect(await rowsRead(url, 'public.untouched')).toBe(0);
});

async function rowsRead(url: string, table: string): Promise<number> {
  const { rows } = await withClient(url, (client) => client.query(READ, [table]));
  return rows[0].rows;
}
