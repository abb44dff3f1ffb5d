import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../../helpers/database.ts';
import { withProxy } from '../../helpers/proxy.ts';

let database: TemporaryDatabase;

beforeAll(async () => {
  database = await temporaryDatabase(18, {
    sql: `create table t (id int);
          create schema apart; create table apart.t (id int)`,
  });
});

afterAll(() => database.drop());

/** How the locks of each INSERT are known, and on which relation. */
async function insertsAround(
  between: string,
): Promise<[exactness: string | undefined, relation: number | undefined][]> {
  return await withProxy(database.url, {}, async ({ url, statements }) => {
    await withClient(url, async (client) => {
      await client.query('insert into t values (1)');
      await client.query(between);
      await client.query('insert into t values (2)');
    });
    return statements()
      .filter(({ statement }) => statement.sql.startsWith('insert'))
      .map(({ locks }) => [locks?.exactness, locks?.locks?.[0]?.relation]);
  });
}

test.each(["set lock_timeout = '5s'", 'select 1', 'listen news'])(
  'is not observed again after %s',
  async (sql) => {
    const [first, second] = await insertsAround(sql);
    expect([first?.[0], second?.[0]]).toEqual(['exact', 'group']);
  },
);

test.each(['set search_path to apart', "select set_config('search_path', 'apart', false)"])(
  'is observed again after %s, since the name is another relation',
  async (sql) => {
    const [first, second] = await insertsAround(sql);
    expect([first?.[0], second?.[0]]).toEqual(['exact', 'exact']);
    expect(second?.[1]).not.toBe(first?.[1]);
  },
);
