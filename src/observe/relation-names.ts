import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';

/** Qualified names of relations by their OIDs, quoted where needed. */
export type RelationNames = ReadonlyMap<number, string>;

const NAMES = `SELECT c.oid::pg_catalog.int8, n.nspname AS schema, c.relname AS name
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = ANY ($1::pg_catalog.oid[])`;

const ALL = `SELECT c.oid::pg_catalog.int8, n.nspname AS schema, c.relname AS name
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid >= 16384 AND c.relkind <> 'c' AND c.relpersistence <> 't'`;

/** The names of all relations of users: of those that a command is about to drop, nobody can ask afterwards. */
export async function allRelationNames(session: Session): Promise<RelationNames> {
  const rows = await session.query<{ oid: string; schema: string; name: string }>(ALL);
  return new Map(rows.map(({ oid, schema, name }) => [Number(oid), displayName(schema, name)]));
}

/**
 * The names of relations in the session's database. What was made and dropped within the run has none: nobody but
 * its own transaction ever saw it.
 * @throws pg's DatabaseError, SafemigrateError `LOST`.
 */
export async function relationNames(session: Session, oids: Iterable<number>): Promise<RelationNames> {
  const rows = await session.query<{ oid: string; schema: string; name: string }>(NAMES, [
    [...new Set(oids)],
  ]);
  return new Map(rows.map(({ oid, schema, name }) => [Number(oid), displayName(schema, name)]));
}

const TABLES = `SELECT c.oid::pg_catalog.int8, coalesce(i.indrelid, c.oid)::pg_catalog.int8 AS table
  FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
 WHERE c.oid = ANY ($1::pg_catalog.oid[]) AND c.oid >= 16384 AND c.relkind IN ('r', 'p', 'm', 'i', 'I')`;

/** Those of the relations, the system's own left out, that are new tables or materialized views, or indexes of one. */
export async function newAmong(
  session: Session,
  oids: Iterable<number>,
  isKnown: (table: number) => boolean,
): Promise<ReadonlySet<number>> {
  const rows = await session.query<{ oid: string; table: string }>(TABLES, [[...new Set(oids)]]);
  return new Set(rows.filter(({ table }) => !isKnown(Number(table))).map(({ oid }) => Number(oid)));
}
