import { extract } from '@supabase/pg-delta/extract';
import type { Pool } from 'pg';
import { FIRST_USER_OID } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';

/** All that is imported of pg-delta, whose interface may change while it is an alpha: an upgrade begins and ends here. */
export {
  buildFactBase,
  type Delta,
  diff,
  encodeId,
  type Fact,
  type FactBase,
  type Payload,
  type StableId,
} from '@supabase/pg-delta/core';
export { type Action, type Plan, plan } from '@supabase/pg-delta/plan';

type Extracted = Awaited<ReturnType<typeof extract>>['factBase'];

/** Reads the schema of the session's database, inside the transaction that the session is in. */
export async function extractFacts(session: Session): Promise<Extracted> {
  const query = async (sql: string) => ({
    rows: isTransactionControl(sql) ? [] : await session.query(withoutSystemDependents(sql)),
  });
  const pool = { connect: async () => ({ query, release: () => undefined }) };
  const { factBase } = await extract(pool as unknown as Pool);
  return factBase;
}

/**
 * pg-delta wraps its queries in a transaction. Here there is one already, which belongs to the caller: it reads more at the same
 * moment, or reads under names that must never be committed.
 */
function isTransactionControl(sql: string): boolean {
  return /^(BEGIN|COMMIT|ROLLBACK)\b[^;]*$/.test(sql);
}

/** Where pg-delta's query of dependencies selects them. */
const ALL_DEPENDENTS = "WHERE d.deptype IN ('n', 'a')";

/**
 * pg-delta asks the server for the names of both ends of each dependency. Most are dependencies of initdb's views, which it then leaves out.
 * Without those the slowest of its queries takes a third of the time.
 */
function withoutSystemDependents(sql: string): string {
  return sql.replace(ALL_DEPENDENTS, `${ALL_DEPENDENTS} AND d.objid >= ${FIRST_USER_OID}`);
}
