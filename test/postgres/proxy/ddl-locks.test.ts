import type { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { type ObservedStatement, withProxy } from '../../helpers/proxy.ts';
import { OLDEST_AND_NEWEST, shareOf } from '../../helpers/servers.ts';
import { DDL, DDL_SETUP } from './ddl-corpus.ts';

/** Relations that others cannot see yet have no name; how many locks of which mode they get is compared instead. */
const HELD = `
select l.database = 0 as shared, l.relation::int8 as relation, l.mode
  from pg_locks l
 where l.pid = $1 and l.granted and l.locktype = 'relation'`;

const NAMES = `select oid::int8, oid::regclass::text as name from pg_class`;

interface Lock {
  relation: string;
  mode: string;
}

async function namesOf(client: Client): Promise<Map<string, string>> {
  const { rows } = await client.query<{ oid: string; name: string }>(NAMES);
  return new Map(rows.map(({ oid, name }) => [oid, name]));
}

function named(
  locks: readonly { relation: string | number; mode: string }[],
  names: Map<string, string>,
): string[] {
  return locks
    .map(({ relation, mode }) => `${names.get(String(relation)) ?? 'a new relation'} ${mode}`)
    .sort();
}

/** The locks of the statement in an explicit transaction, as another session sees them; null where it fails. */
async function expectedLocks(
  direct: Client,
  watcher: Client,
  pid: number,
  sql: string,
): Promise<Lock[] | null> {
  await direct.query('begin');
  try {
    await direct.query(sql);
    return (await watcher.query<Lock>(HELD, [pid])).rows;
  } catch {
    return null;
  } finally {
    await direct.query('rollback');
  }
}

describe.each(OLDEST_AND_NEWEST)('on PostgreSQL %s', (version) => {
  test('the locks reported for DDL in autocommit are those of an explicit transaction', async () => {
    const first = await temporaryDatabase(version, { sql: DDL_SETUP });
    const different: unknown[] = [];
    let compared = 0;
    const wanted = new Map<string, string[] | null>();
    await withClient(first.url, async (direct) => {
      const { rows } = await direct.query<{ pid: number }>('select pg_backend_pid() as pid');
      await withClient(first.url, async (watcher) => {
        const names = await namesOf(watcher);
        for (const sql of shareOf(version, DDL)) {
          const locks = await expectedLocks(direct, watcher, rows[0]?.pid ?? 0, sql);
          wanted.set(sql, locks && named(locks, names));
        }
      });
    });
    // Rolled back, so that the state is that of the start; through the proxy each statement commits, in a copy.
    for (const [sql, locks] of wanted) {
      if (locks === null) continue;
      const copy = await temporaryDatabase(version, { template: first.name });
      await withProxy(copy.url, {}, async ({ url, statements }) => {
        const names = await withClient(copy.url, namesOf);
        await withClient(url, (client) => client.query(sql));
        const [seen]: ObservedStatement[] = statements();
        const got = seen?.locks?.locks ? named(seen.locks.locks, names) : null;
        compared++;
        if (seen?.locks?.exactness !== 'exact' || JSON.stringify(got) !== JSON.stringify(locks))
          different.push({ sql, exactness: seen?.locks?.exactness, got, expected: locks });
      });
      await copy.drop();
    }
    expect(different).toEqual([]);
    expect(compared).toBeGreaterThanOrEqual(0.8 * shareOf(version, DDL).length);
  }, 300_000);
});
