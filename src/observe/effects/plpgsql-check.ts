import type { Session } from '../../postgres/connection/session.ts';
import { identifier } from '../../postgres/sql/quote.ts';

/** One error of a function's body. */
export interface BodyError {
  readonly sqlstate: string;
  readonly message: string;
  /** The query of the body, and where in it the error is: characters from 1; 0 if the server does not say. */
  readonly query: string;
  readonly position: number;
}

/** Returns the errors of one function in PL/pgSQL, given its OID and the table of a trigger that runs it. Runs nothing of it. */
export type CheckBody = (oid: number, table: string | undefined) => Promise<BodyError[]>;

const INSTALLED = `
select n.nspname as schema from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace
where e.extname = 'plpgsql_check'`;

/** The extension plpgsql_check, which also knows the fields of records; null if the database does not have it. */
export async function findPlpgsqlCheck(session: Session): Promise<CheckBody | null> {
  const [row] = await session.query<{ schema: string }>(INSTALLED);
  if (!row) return null;
  const sql = `SELECT sqlstate, message, coalesce(query, '') AS query, coalesce("position", 0) AS position
    FROM ${identifier(row.schema)}.plpgsql_check_function_tb(
      funcoid => $1::pg_catalog.oid::pg_catalog.regprocedure, relid => coalesce($2::pg_catalog.text::pg_catalog.regclass, 0::pg_catalog.oid::pg_catalog.regclass), fatal_errors => false)
    WHERE level = 'error'`;
  return (oid, table) => session.query<BodyError & object>(sql, [oid, table ?? null]);
}
