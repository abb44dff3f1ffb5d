import { FIRST_USER_OID, RELATIONS_AND_SCHEMAS } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';

/** Qualified names of relations by their OIDs, quoted where needed. */
export type RelationNames = ReadonlyMap<number, string>;

/** Relations by their OIDs, with what they belong to. */
export type RelationTree = ReadonlyMap<number, RelationNode>;

interface RelationNode {
  /** Qualified, quoted where needed. */
  readonly name: string;
  /** As in pg_class.relkind. */
  readonly kind: string;
  /** Of an index: OID of its table. */
  readonly table: number | null;
  /** Of a partition, or of an index of one: OID of what it is a part of. */
  readonly parent: number | null;
}

interface Row {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  readonly kind: string;
  readonly table: string | null;
  readonly parent: string | null;
}

const RELATIONS = `SELECT c.oid::pg_catalog.int8, n.nspname AS schema, c.relname AS name, c.relkind AS kind,
    i.indrelid::pg_catalog.int8 AS table, h.inhparent::pg_catalog.int8 AS parent
  FROM ${RELATIONS_AND_SCHEMAS}
  LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
  LEFT JOIN pg_catalog.pg_inherits h ON h.inhrelid = c.oid AND c.relispartition`;

const ALL = `${RELATIONS} WHERE c.oid >= ${FIRST_USER_OID} AND c.relpersistence <> 't'`;
const GIVEN = `${RELATIONS} WHERE c.oid = ANY ($1::pg_catalog.oid[])`;

/** All relations of users: those that a command is about to drop cannot be read afterwards. */
export async function allRelations(session: Session): Promise<RelationTree> {
  return treeOf(await session.query<Row>(ALL));
}

/**
 * The relations with these OIDs in the session's database. What was made and dropped within the run is missing: only its
 * own transaction ever saw it.
 * @throws pg's DatabaseError, SafemigrateError `LOST`.
 */
export async function givenRelations(session: Session, oids: Iterable<number>): Promise<RelationTree> {
  return treeOf(await session.query<Row>(GIVEN, [[...new Set(oids)]]));
}

export function namesOf(tree: RelationTree): RelationNames {
  return new Map([...tree].map(([oid, { name }]) => [oid, name]));
}

function treeOf(rows: readonly Row[]): RelationTree {
  const number = (oid: string | null) => (oid === null ? null : Number(oid));
  return new Map(
    rows.map(({ oid, schema, name, kind, table, parent }) => [
      Number(oid),
      { name: displayName(schema, name), kind, table: number(table), parent: number(parent) },
    ]),
  );
}

const TABLES = `SELECT c.oid::pg_catalog.int8, coalesce(i.indrelid, c.oid)::pg_catalog.int8 AS table
  FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
 WHERE c.oid = ANY ($1::pg_catalog.oid[]) AND c.oid >= ${FIRST_USER_OID} AND c.relkind IN ('r', 'p', 'm', 'S', 'v', 'i', 'I')`;

/** Maps the name of each index to that of its table. */
export function tablesOfIndexes(tree: RelationTree): ReadonlyMap<string, string> {
  const tableOf = ({ table }: RelationNode) => (table === null ? undefined : tree.get(table)?.name);
  return new Map(
    [...tree.values()].flatMap((node) => {
      const table = tableOf(node);
      return table === undefined ? [] : [[node.name, table] as const];
    }),
  );
}

/** Those of the relations, the system's own left out, that are new, or indexes of a new one. */
export async function newAmong(
  session: Session,
  oids: Iterable<number>,
  isKnown: (relation: number) => boolean,
): Promise<ReadonlySet<number>> {
  const rows = await session.query<{ oid: string; table: string }>(TABLES, [[...new Set(oids)]]);
  const isNew = ({ oid, table }: { oid: string; table: string }) =>
    !isKnown(Number(table)) || !isKnown(Number(oid));
  return new Set(rows.filter(isNew).map(({ oid }) => Number(oid)));
}
