import type { DatabaseFacts } from '../../database/target.ts';
import { plural } from '../../format.ts';
import type { Caveat } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import { literal } from '../../postgres/sql/quote.ts';

const PREPARED = `
SELECT p.gid, p.database, d.oid::text
  FROM pg_prepared_xacts p JOIN pg_database d ON d.datname = p.database
 ORDER BY p.database, p.prepared`;

// The copy of a closed database: one that a swap of another run closed, for example.
const OPEN = 'UPDATE pg_database SET datallowconn = true WHERE datname = $1 AND NOT datallowconn';

// Not by pg_hba.conf, since databases that the command creates later must be open.
const CLOSE_OTHERS = `
UPDATE pg_database SET datallowconn = false
 WHERE datallowconn AND datname <> ALL ($1::text[])`;

/**
 * Turns a cluster that has just recovered into a clone of one database.
 * @param copied OIDs of the databases whose files the clone has; null for all.
 * @param others names of other databases that the command uses; the rest is closed.
 * @param enter opens a superuser's session in one of its databases.
 */
export async function prepareStartedServer(
  control: Session,
  { name, unloggedTables }: Pick<DatabaseFacts, 'name' | 'unloggedTables'>,
  copied: ReadonlySet<string> | null,
  others: readonly string[],
  enter: (database: string) => Promise<Session>,
): Promise<Caveat[]> {
  const caveats: Caveat[] = [];
  const found = await control.query<{ gid: string; database: string; oid: string }>(PREPARED);
  // Prepared transactions of databases that were left out hold no lock on anything here.
  const prepared = found.filter(({ oid }) => copied?.has(oid) ?? true);
  for (const place of new Set(prepared.map((transaction) => transaction.database))) {
    const here = prepared.filter((transaction) => transaction.database === place);
    await control.query(OPEN, [place]);
    await withSession(enter(place), async (session) => {
      for (const { gid } of here) await session.query(`ROLLBACK PREPARED ${literal(gid)}`);
    });
  }
  if (prepared.length > 0)
    caveats.push({
      path: 'clone',
      kind: 'estimate',
      reason:
        `${plural(prepared.length, 'prepared transaction')} of the target's were rolled back in the clone: ` +
        'on the target their locks would be in the way',
    });
  if (unloggedTables > 0)
    caveats.push({
      path: 'clone',
      kind: 'estimate',
      reason: `${plural(unloggedTables, 'unlogged table')} of the target's are empty in the clone, as after a crash`,
    });
  await control.query(CLOSE_OTHERS, [[name, 'postgres', 'template1', ...others]]);
  return caveats;
}
