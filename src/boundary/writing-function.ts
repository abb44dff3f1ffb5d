import type { Session } from '../postgres/connection/session.ts';

/** Built-in functions that PostgreSQL marks as volatile, and that change nothing for others. */
const HARMLESS = [
  ...[
    'clock_timestamp',
    'gen_random_uuid',
    'random',
    'set_config',
    'timeofday',
    'pg_sleep',
    'pg_is_in_recovery',
  ],
  ...[
    'pg_database_size',
    'pg_tablespace_size',
    'pg_relation_size',
    'pg_total_relation_size',
    'pg_table_size',
  ],
  ...[
    'pg_indexes_size',
    'pg_current_wal_lsn',
    'pg_last_wal_replay_lsn',
    'pg_blocking_pids',
    'pg_stat_clear_snapshot',
  ],
];

const MAY_WRITE = `
SELECT called.name
  FROM pg_catalog.unnest($1::text[]) called(name)
 WHERE called.name <> ALL ($2::text[])
   AND coalesce((SELECT pg_catalog.bool_or(p.provolatile = 'v') FROM pg_catalog.pg_proc p
                  WHERE p.proname = called.name AND p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace), true)
 LIMIT 1`;

/**
 * Returns the first of these functions that may write: it is volatile, or not PostgreSQL's own.
 * @param names without schemas. @param session in any database of the server.
 */
export async function writingFunction(
  session: Session,
  names: readonly string[],
): Promise<string | undefined> {
  if (names.length === 0) return undefined;
  const [found] = await session.query<{ name: string }>(MAY_WRITE, [names, HARMLESS]);
  return found?.name;
}
