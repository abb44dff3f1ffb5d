import { beforeAll, describe, expect, test } from 'vitest';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { reportedStatements } from '../../helpers/reported-statements.ts';
import { OLDEST_AND_NEWEST, useOwnServers } from '../../helpers/servers.ts';

// What is read is the WAL of the whole server, to which other test files write.
beforeAll(() => useOwnServers(...OLDEST_AND_NEWEST));

describe.each(OLDEST_AND_NEWEST)('the WAL of statements on PostgreSQL %d', (version) => {
  test('is that of each one, what came before it left out', async () => {
    const database = await temporaryDatabase(version, { sql: 'create table t (v text)' });
    const { statements } = await reportedStatements(database, (url) =>
      withClient(url, async (client) => {
        await client.query("insert into t select repeat('x', 1000) from generate_series(1, 1000)");
        await withClient(database.url, (beside) =>
          beside.query("insert into t select repeat('y', 1000) from generate_series(1, 4000)"),
        );
        await client.query('select pg_sleep(0.1)');
        await client.query('create table small (id int)');
        await client.query('select 1 from pg_sleep(0)');
      }),
    );
    const [large, , small, none] = statements.map(({ walBytes }) => walBytes ?? -1);
    expect(large).toBeGreaterThan(1_000_000);
    expect(large).toBeLessThan(3_000_000);
    expect(small).toBeGreaterThan(0);
    expect(small).toBeLessThan(1_000_000);
    expect(none).toBeGreaterThanOrEqual(0);
  });

  test('stands at the first of a group, and is null where no locks were read', async () => {
    const database = await temporaryDatabase(version, { sql: 'create table t (v text)' });
    const insert = "insert into t select repeat('x', 1000) from generate_series(1, 100)";
    const { statements } = await reportedStatements(database, (url) =>
      withClient(url, async (client) => {
        await client.query(`${insert}; ${insert}; select 1`);
        await client.query('create index concurrently on t (v)');
      }),
    );
    expect(statements.map(({ exactness, walBytes }) => [exactness, walBytes])).toEqual([
      ['group', expect.any(Number)],
      ['group', null],
      ['exact', expect.any(Number)],
      ['sampled', null],
    ]);
    expect(statements[0]?.walBytes).toBeGreaterThan(200_000);
  });
});
