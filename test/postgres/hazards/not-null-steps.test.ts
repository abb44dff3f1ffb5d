import { beforeAll, describe, expect, test } from 'vitest';
import { notNullSteps } from '../../../src/postgres/sql/safer-constraints.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { OLDEST_AND_NEWEST, useOwnServers } from '../../helpers/servers.ts';

describe.each(OLDEST_AND_NEWEST)('on PostgreSQL %i', (version) => {
  beforeAll(() => useOwnServers(version));

  test.each([
    ['customers', 'name', 'customers_name_not_null'],
    ['public."Lines"', '"Item No"', 'Lines_Item No_not_null'],
  ])('the recommended steps for %s leave what SET NOT NULL leaves', async (table, column, name) => {
    const { url } = await temporaryDatabase(version, { sql: `CREATE TABLE ${table} (${column} text)` });
    await withClient(url, async (client) => {
      for (const sql of notNullSteps(table, column)) await client.query(sql);
      const { rows } = await client.query<{ conname: string }>(
        "SELECT conname FROM pg_constraint WHERE connamespace = 'public'::regnamespace",
      );
      expect(rows.map(({ conname }) => conname)).toEqual(version >= 18 ? [name] : []);
      await expect(client.query(`INSERT INTO ${table} VALUES (NULL)`)).rejects.toMatchObject({
        code: '23502',
      });
    });
  });
});
