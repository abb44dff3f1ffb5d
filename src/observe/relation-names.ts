import { FIRST_USER_OID, RELATIONS_AND_SCHEMAS } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';

/** Qualified names of relations by their OIDs, quoted where needed. */
export type RelationNames = ReadonlyMap<number, string>;

/** Relations by their OIDs, with what they belong to. */
export type RelationTree = ReadonlyMap<
  number,
  {
    /** Qualified, quoted where needed. */
    readonly name: string;
    /** pg_class.relkind. */
    readonly kind: string;
    /** OID of the table of an index. */
    readonly table: number | null;
    /** OID of the relation that a partition, or an index of one, is a part of. */
    readonly parent: number | null;
  }
>;

const RELATIONS = `SELECT c.oid::pg_catalog.int8, n.nspname AS schema, c.relname AS name, c.relkind AS kind,
    i.indrelid::pg_catalog.int8 AS table, h.inhparent::pg_catalog.int8 AS parent
  FROM ${RELATIONS_AND_SCHEMAS}
  LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
  LEFT JOIN pg_catalog.pg_inherits h ON h.inhrelid = c.oid AND c.relispartition`;

const ALL = `${RELATIONS} WHERE c.oid >= ${FIRST_USER_OID} AND c.relpersistence <> 't'`;
const GIVEN = `${RELATIONS} WHERE c.oid = ANY ($1::pg_catalog.oid[])`;

/** All relations of users: those that a command is about to drop cannot be read afterwards. */
export function allRelations(session: Session): Promise<RelationTree> {
  return readTree(session, ALL);
}

/**
 * The relations with these OIDs in the session's database. What was made and dropped within the run is missing: only its
 * own transaction ever saw it.
 * @throws pg's DatabaseError, SafemigrateError `LOST`.
 */
export function givenRelations(session: Session, oids: Iterable<number>): Promise<RelationTree> {
  return readTree(session, GIVEN, [[...new Set(oids)]]);
}

export function namesOf(tree: RelationTree): RelationNames {
  return new Map([...tree].map(([oid, { name }]) => [oid, name]));
}

async function readTree(session: Session, sql: string, values: unknown[] = []): Promise<RelationTree> {
  const rows = await session.query<{
    oid: string;
    schema: string;
    name: string;
    kind: string;
    table: string | null;
    parent: string | null;
  }>(sql, values);
  const number = (oid: string | null) => (oid === null ? null : Number(oid));
  return new Map(
    rows.map(({ oid, schema, name, kind, table, parent }) => [
      Number(oid),
      { name: displayName(schema, name), kind, table: number(table), parent: number(parent) },
    ]),
  );
}

/** Maps the name of each index to that of its table. */
export function tablesOfIndexes(tree: RelationTree): ReadonlyMap<string, string> {
  return new Map(
    [...tree.values()].flatMap(({ name, table: oid }) => {
      const table = oid === null ? undefined : tree.get(oid)?.name;
      return table === undefined ? [] : [[name, table] as const];
    }),
  );
}

const MADE_BY_COMMANDS: ReadonlySet<string> = new Set(['r', 'p', 'm', 'S', 'v', 'i', 'I']);

/** Finds the relations, the system's own left out, that are new or indexes of a new one. */
export function newAmong(relations: RelationTree, before: RelationTree): ReadonlySet<number> {
  const made = [...relations].filter(
    ([oid, { kind, table }]) =>
      oid >= FIRST_USER_OID && MADE_BY_COMMANDS.has(kind) && !(before.has(oid) && before.has(table ?? oid)),
  );
  return new Set(made.map(([oid]) => oid));
}
