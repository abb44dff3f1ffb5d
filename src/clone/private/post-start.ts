import { plural } from '../../format.ts';
import type { Caveat } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { literal } from '../../postgres/sql/quote.ts';

const PREPARED = 'SELECT gid, database FROM pg_prepared_xacts ORDER BY database, prepared';

const UNLOGGED = `
SELECT count(*)::int AS count FROM pg_class WHERE relpersistence = 'u' AND relkind IN ('r', 'm')`;

// Databases that the command makes later are open, which a line in pg_hba.conf could not say.
const CLOSE_OTHERS = `
UPDATE pg_database SET datallowconn = false
 WHERE datallowconn AND datname <> ALL (ARRAY[$1, 'postgres', 'template1'])`;

/**
 * Does to a cluster that has just recovered what makes it a clone of one database.
 * @param enter opens a superuser's session in one of its databases.
 */
export async function prepareStartedServer(
  control: Session,
  database: string,
  enter: (database: string) => Promise<Session>,
): Promise<Caveat[]> {
  const caveats: Caveat[] = [];
  const prepared = await control.query<{ gid: string; database: string }>(PREPARED);
  for (const place of new Set(prepared.map((transaction) => transaction.database))) {
    const here = prepared.filter((transaction) => transaction.database === place);
    await within(enter, place, async (session) => {
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
  await within(enter, database, async (session) => {
    const [row] = await session.query<{ count: number }>(UNLOGGED);
    if (row && row.count > 0)
      caveats.push({
        path: 'clone',
        kind: 'estimate',
        reason: `${plural(row.count, 'unlogged table')} of the target's are empty in the clone, as after a crash`,
      });
  });
  await control.query(CLOSE_OTHERS, [database]);
  return caveats;
}

async function within(
  enter: (database: string) => Promise<Session>,
  database: string,
  use: (session: Session) => Promise<void>,
): Promise<void> {
  const session = await enter(database);
  try {
    await use(session);
  } finally {
    await session.close();
  }
}
