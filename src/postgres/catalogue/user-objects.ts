/**
 * Fragments of SQL for queries over the catalogues, so that "an object of the user's" means the same everywhere. By convention `c` is
 * a row of pg_class and `n` its schema in pg_namespace.
 *
 * Deliberately without these fragments are:
 * - the catalogue digest (`proof/catalogue-digest.ts`), which covers all schemas but the temporary ones: a change of `pg_catalog` is a change
 *   of the target as well;
 * - `load/record-shapes.ts`, `observe/relation-names.ts` and the reading of functions that act on the server, which go by
 *   `FIRST_USER_OID`: a join with pg_namespace costs too much there, or there is no relation to go by;
 * - queries for relations or columns that the caller names, where only the name decides.
 */

/** OID of the first object that is not made by initdb. */
export const FIRST_USER_OID = 16_384;

/**
 * Condition that a schema is a user's: neither the server's own nor a temporary one. PostgreSQL reserves names that begin with `pg_`
 * for pg_catalog, pg_toast, pg_temp_1, …, and pg_dump leaves out the same schemas. Temporary relations live in temporary schemas only.
 */
export function userSchema(name: string): string {
  return `${name} <> 'information_schema' and ${name} !~ '^pg_'`;
}

/** Condition that the schema `n` is a user's. */
export const USER_SCHEMA = userSchema('n.nspname');

/** Relations with the schemas that they are in, for FROM. */
export const RELATIONS_AND_SCHEMAS =
  'pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace';

/** The partitioned table `pc` of a partition `c` and its schema `pn`, null for other relations; follows the relations in FROM. */
export const PARTITIONED_TABLE = `
  left join pg_catalog.pg_inherits h on h.inhrelid = c.oid and c.relispartition
  left join pg_catalog.pg_class pc on pc.oid = h.inhparent
  left join pg_catalog.pg_namespace pn on pn.oid = pc.relnamespace`;

/** Condition that a relation has files with rows: a table or a materialized view. Partitioned tables have none themselves. */
export const HAS_FILES = "c.relkind in ('r', 'm')";

/** Condition that a relation has rows: in its own files, or in those of its partitions. */
export const HAS_ROWS = "c.relkind in ('r', 'm', 'p')";

/** Condition that a relation is a table, partitioned or not. */
export const IS_TABLE = "c.relkind in ('r', 'p')";

/** Condition that a relation can be named in FROM of a query, and granted on as a table. */
export const IS_QUERIED = "c.relkind in ('r', 'p', 'v', 'm', 'f')";

/** Qualified name of a relation, quoted if necessary. */
export const QUALIFIED_NAME = "pg_catalog.format('%I.%I', n.nspname, c.relname)";

/** Condition that an extension owns an object, so that it comes and goes with CREATE and DROP EXTENSION. */
export function ofExtension(catalogue: string, oid: string): string {
  return `exists (select from pg_catalog.pg_depend d
    where d.classid = 'pg_catalog.${catalogue}'::pg_catalog.regclass and d.objid = ${oid} and d.deptype = 'e')`;
}
