import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withClient } from '../../helpers/client.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../../helpers/database.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

/** What hazards are told of, because PostgreSQL reads the whole table for it, and what not: by its own statistics. */
describe.each(OLDEST_AND_NEWEST)('on PostgreSQL %i', (version) => {
  const ROWS = 500;
  let database: TemporaryDatabase;

  beforeAll(async () => {
    database = await temporaryDatabase(version, {
      sql: `CREATE TABLE customers (id bigint PRIMARY KEY);
        CREATE TABLE orders (id bigint); INSERT INTO orders SELECT generate_series(1, ${ROWS})`,
    });
  });
  afterAll(() => database.drop());

  test.each([
    [
      'SET NOT NULL on a column that is new and filled',
      'ALTER number SET NOT NULL',
      'ADD number bigint DEFAULT 1',
      true,
    ],
    [
      'the same in the statement that adds it',
      'ADD number bigint DEFAULT 1, ALTER number SET NOT NULL',
      '',
      true,
    ],
    [
      'SET NOT NULL on a column that is NOT NULL',
      'ALTER number SET NOT NULL',
      'ADD number bigint NOT NULL DEFAULT 1',
      false,
    ],
    ['a new column that is NOT NULL', 'ADD number bigint NOT NULL DEFAULT 1', '', false],
    ['a new column that is UNIQUE', 'ADD number bigint UNIQUE', '', true],
    ['a new column with a CHECK', 'ADD number bigint CHECK (number > 0)', '', true],
    ['a new column with a FOREIGN KEY', 'ADD number bigint REFERENCES customers', '', false],
  ])('%s', async (_, change, earlier, reads) => {
    await withClient(database.url, async (client) => {
      const read = async () => {
        const { rows } = await client.query<{ read: string }>(
          "SELECT seq_tup_read AS read FROM pg_stat_xact_user_tables WHERE relname = 'orders'",
        );
        return Number(rows[0]?.read);
      };
      await client.query('BEGIN');
      if (earlier !== '') await client.query(`ALTER TABLE orders ${earlier}`);
      const before = await read();
      await client.query(`ALTER TABLE orders ${change}`);
      expect((await read()) - before).toBe(reads ? ROWS : 0);
      await client.query('ROLLBACK');
    });
  });
});
