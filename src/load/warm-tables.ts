import type { Session } from '../postgres/connection/session.ts';
import { ifAnswered } from '../postgres/session-helpers.ts';

/** Limit for all tables together: production would not have more in memory as a whole, and reading it takes longer than it helps. */
const WARM_BYTES = 1024 ** 3;

const SIZES = `
SELECT c.oid::pg_catalog.regclass::pg_catalog.text AS name, pg_catalog.pg_relation_size(c.oid)::float8 AS bytes
  FROM pg_catalog.unnest($1::text[]) given JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(given)
 WHERE c.relkind IN ('r', 'm') ORDER BY bytes`;

/**
 * Reads tables of a clone, the smallest first, up to 1 GiB in all: production has those in memory that are in use, while a clone has
 * none, and a migration that waits for the disk would keep sessions waiting for several times as long.
 * @param names qualified, quoted where needed; those that do not exist are passed over.
 */
export async function warmTables(session: Session, names: readonly string[]): Promise<void> {
  const tables = await session.query<{ name: string; bytes: number }>(SIZES, [names]);
  let bytes = 0;
  for (const table of tables) {
    bytes += table.bytes;
    if (bytes > WARM_BYTES) return;
    // No index knows the places of rows, so that this reads the table itself.
    // A table that the server does not read in time stays cold: the run under load is useful all the same.
    await ifAnswered(() => session.query(`SELECT pg_catalog.max(ctid) FROM ONLY ${table.name}`));
  }
}
