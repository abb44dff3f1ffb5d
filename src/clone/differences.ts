import { plural } from '../format.ts';
import type { Session } from '../postgres/connection/session.ts';

/** A difference between the target and a clone that makes a rehearsal less realistic. */
export interface Difference {
  readonly what: string;
  /** The clone methods for which it holds. */
  readonly where: 'template' | 'cluster' | 'every clone';
}

const COLLATION = `
SELECT d.datcollversion AS recorded, pg_database_collation_actual_version(d.oid) AS actual
  FROM pg_database d WHERE d.datname = current_database()`;
const COLLATION_VERSIONS_SINCE = 150000;

const COUNTS = `
SELECT (SELECT count(*) FROM pg_class WHERE relpersistence = 'u' AND relkind IN ('r', 'S')) AS unlogged,
       (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()) AS prepared,
       (SELECT count(*) FROM pg_foreign_server) AS servers,
       (SELECT count(*) FROM pg_replication_slots WHERE database = current_database()) AS slots,
       (SELECT count(*) FROM pg_publication) AS publications,
       (SELECT count(*) FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid
         WHERE d.datname = current_database()) AS subscriptions`;

/** Finds the differences that clones will have. @param session in the target. */
export async function readDifferences(session: Session, versionNum: number): Promise<Difference[]> {
  const [row] =
    await session.query<
      Record<'unlogged' | 'prepared' | 'servers' | 'slots' | 'publications' | 'subscriptions', string>
    >(COUNTS);
  const found: Difference[] = [];
  const say = (count: string | undefined, one: string, what: string, where: Difference['where']) => {
    if (Number(count) > 0) found.push({ what: `${plural(Number(count), one)}: ${what}`, where });
  };
  if (versionNum >= COLLATION_VERSIONS_SINCE) {
    const [collation] = await session.query<{ recorded: string | null; actual: string | null }>(COLLATION);
    if (collation && collation.recorded !== collation.actual)
      found.push({
        what:
          `the collation was ${collation.recorded ?? 'of unknown version'} when the database was created and is ` +
          `${collation.actual ?? 'of unknown version'} now: indexes on text may be wrong, here and in every clone`,
        where: 'every clone',
      });
  }
  say(
    row?.unlogged,
    'unlogged relation',
    'empty in the clone, so that statements on them have no rows to process',
    'cluster',
  );
  say(row?.prepared, 'prepared transaction', 'prevents a clone', 'template');
  say(row?.prepared, 'prepared transaction', 'rolled back in the clone', 'cluster');
  say(row?.servers, 'foreign server', 'a migration that uses it connects to the real one', 'every clone');
  say(row?.slots, 'logical replication slot', 'not in the clone, so WAL is not kept for it', 'every clone');
  say(row?.publications, 'publication', 'the clone has no subscribers', 'every clone');
  say(row?.subscriptions, 'subscription', 'the clone receives nothing', 'every clone');
  return found;
}
