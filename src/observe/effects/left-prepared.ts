import { preparedTransactions } from '../../database/activity.ts';
import { plural } from '../../format.ts';
import type { LeftPrepared } from '../../model/hazard-facts.ts';
import type { Caveat } from '../../model/report.ts';
import { QUALIFIED_NAME, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { lockModeOf } from '../../postgres/lock-modes.ts';
import { literal } from '../../postgres/sql/quote.ts';

// A prepared transaction has no process. Its locks bear the virtual number that its own lock on its id has.
const WITH_LOCKS = `
SELECT x.gid, extract(epoch FROM clock_timestamp() - x.prepared)::float8 * 1000 AS "ageMs",
       (SELECT coalesce(json_agg(json_build_object('relation', ${QUALIFIED_NAME}, 'mode', l.mode)), '[]')
          FROM pg_locks t
          JOIN pg_locks l ON l.virtualtransaction = t.virtualtransaction AND l.pid IS NULL AND l.locktype = 'relation'
          JOIN pg_database d ON d.oid = l.database AND d.datname = x.database
          JOIN pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'p', 'm', 'f')
          JOIN pg_namespace n ON n.oid = c.relnamespace AND ${USER_SCHEMA}
         WHERE t.locktype = 'transactionid' AND t.transactionid = x.transaction AND t.pid IS NULL) AS locks
  FROM pg_prepared_xacts x WHERE x.database = current_database() ORDER BY x.prepared`;

/**
 * Finds the transactions that the command left prepared in a clone, and rolls them back there: with their locks in the way its tables
 * could not be read. A clone begins without any.
 * @param control a session on the clone's server. @param open opens one in the clone, if it is needed.
 */
export async function endPrepared(
  control: Session,
  database: string,
  open: <T>(use: (session: Session) => Promise<T>) => Promise<T>,
): Promise<LeftPrepared[]> {
  if ((await preparedTransactions(control, database)).length === 0) return [];
  return open(async (session) => {
    const found = await session.query<LeftPrepared>(WITH_LOCKS);
    for (const { gid } of found) await session.query(`ROLLBACK PREPARED ${literal(gid)}`);
    return found.map(({ gid, ageMs, locks }) => ({
      gid,
      ageMs,
      locks: locks.map(({ relation, mode }) => ({ relation, mode: lockModeOf(mode) ?? mode })),
    }));
  });
}

export function rolledBackCaveats(left: readonly LeftPrepared[]): Caveat[] {
  if (left.length === 0) return [];
  const reason = `${plural(left.length, 'transaction')} that the command left prepared ${left.length === 1 ? 'was' : 'were'} rolled back on the clone after it, to read the tables: what they changed is in no comparison`;
  return ['schema', 'data'].map((path) => ({ path, kind: 'unmeasured', reason }));
}
