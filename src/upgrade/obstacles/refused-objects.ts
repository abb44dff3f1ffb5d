import { FIRST_USER_OID, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { ObstacleRule } from './obstacle-rule.ts';

/** Types by OID that pg_upgrade does not carry over; regclass, regtype and regrole keep their OIDs. */
const REG_TYPES = `'regproc','regprocedure','regoper','regoperator','regconfig','regdictionary','regnamespace','regcollation'`;

/** Row types of relations that initdb made. */
const OF_CATALOGUES = `t.typtype = 'c' AND (t.oid < ${FIRST_USER_OID} OR t.typnamespace = 'information_schema'::regnamespace)`;

/** Columns of a type, of arrays, domains and ranges over it, and of rows that have one. */
const columnsOf = (condition: string) => `
WITH RECURSIVE part AS MATERIALIZED (
  SELECT oid AS whole, typelem AS type FROM pg_type WHERE typelem <> 0 AND typcategory = 'A'
  UNION ALL SELECT oid, typbasetype FROM pg_type WHERE typtype = 'd'
  UNION ALL SELECT rngtypid, rngsubtype FROM pg_range
  UNION ALL SELECT c.reltype, a.atttypid FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
   WHERE a.attnum > 0 AND NOT a.attisdropped AND c.reltype <> 0),
unfit AS (
  SELECT t.oid FROM pg_type t WHERE ${condition}
  UNION
  SELECT part.whole FROM unfit JOIN part ON part.type = unfit.oid)
SELECT current_database() || ': ' || format('%I.%I.%I %s', n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod)) AS object,
       CASE WHEN c.relkind IN ('r', 'p') THEN
         format('ALTER TABLE %I.%I ALTER COLUMN %I TYPE text USING %I::text;', n.nspname, c.relname, a.attname, a.attname) END AS sql
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE a.atttypid IN (SELECT oid FROM unfit) AND NOT a.attisdropped AND a.attnum > 0
   AND c.relkind IN ('r', 'p', 'm', 'i') AND ${USER_SCHEMA}
 ORDER BY 1`;

const NOT_NULL_OF_PARENTS = `
SELECT current_database() || ': ' || format('%s.%I', i.inhrelid::regclass, a.attname) AS object,
       format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL;', i.inhrelid::regclass, a.attname) AS sql
  FROM pg_inherits i
  JOIN pg_attribute p ON p.attrelid = i.inhparent AND p.attnum > 0 AND p.attnotnull AND NOT p.attisdropped
  JOIN pg_attribute a ON a.attrelid = i.inhrelid AND a.attname = p.attname AND NOT a.attnotnull
 ORDER BY 1`;

/** The code of what no other rule explains. */
export const REFUSED_OTHERWISE = 'REFUSED_OTHERWISE';

const NAMES_WITH_LINE_BREAKS = `
SELECT format('%s %I', kind, name) AS object, NULL AS sql FROM (
  SELECT 'database' AS kind, datname AS name FROM pg_database UNION ALL SELECT 'role', rolname FROM pg_roles
  UNION ALL SELECT 'tablespace', spcname FROM pg_tablespace
) AS named WHERE name ~ '[\\n\\r]' ORDER BY 1`;

const INDEXES_OF_ADDRESSES = `
SELECT DISTINCT format('%I.%I', n.nspname, c.relname) AS object, format('DROP INDEX %I.%I;', n.nspname, c.relname) AS sql
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_opclass o ON o.oid = ANY (i.indclass) WHERE o.opcname IN ('gist_inet_ops', 'gist_cidr_ops') ORDER BY 1`;

/** Objects that pg_upgrade refuses whatever the new version is. */
export const REFUSED_OBJECTS: readonly ObstacleRule[] = [
  {
    code: 'DATABASE_CLOSED',
    severity: 'error',
    message: 'pg_upgrade refuses databases that accept no connections',
    remedy:
      'open them for the time of the upgrade, or drop them; those that a swap or a rollback has put aside go with `safemigrate clean --originals --rolled-back`',
    query: {
      of: 'cluster',
      sql: `SELECT datname AS object, format('ALTER DATABASE %I ALLOW_CONNECTIONS true;', datname) AS sql
  FROM pg_database WHERE NOT datallowconn AND datname <> 'template0' AND datconnlimit <> -2 ORDER BY 1`,
    },
  },
  {
    code: 'DATABASE_INVALID',
    severity: 'error',
    message: 'a DROP DATABASE was cut off, and pg_upgrade refuses what is left',
    remedy: 'drop the database',
    query: {
      of: 'cluster',
      sql: `SELECT datname AS object, format('DROP DATABASE %I;', datname) AS sql FROM pg_database WHERE datconnlimit = -2 ORDER BY 1`,
    },
  },
  {
    code: 'PREPARED_TRANSACTION',
    severity: 'error',
    message: 'pg_upgrade refuses a cluster with prepared transactions',
    remedy: 'commit them or roll them back, in their database',
    query: {
      of: 'cluster',
      sql: `SELECT format('%s in %s', gid, database) AS object, format('ROLLBACK PREPARED %L;', gid) AS sql FROM pg_prepared_xacts ORDER BY 1`,
    },
  },
  {
    code: 'REG_COLUMN',
    severity: 'error',
    message: 'columns hold OIDs of objects that get other OIDs, and pg_upgrade refuses them',
    remedy: 'store names instead: convert the columns to text',
    query: {
      of: 'each database',
      sql: columnsOf(`t.typnamespace = 'pg_catalog'::regnamespace AND t.typname IN (${REG_TYPES})`),
    },
    file: 'tables_using_reg.txt',
  },
  {
    code: 'ACLITEM_COLUMN',
    severity: 'error',
    message: 'columns of type aclitem have another format from PostgreSQL 16 on, and pg_upgrade refuses them',
    remedy: 'convert the columns to text',
    when: (from, to) => from < 16 && to >= 16,
    query: { of: 'each database', sql: columnsOf(`t.oid = 'aclitem'::regtype`) },
    file: 'tables_using_aclitem.txt',
  },
  {
    code: 'SYSTEM_TYPE_COLUMN',
    severity: 'error',
    message: 'columns have types of system catalogues, which differ between versions',
    remedy: 'drop the columns, or give them another type',
    query: { of: 'each database', sql: columnsOf(OF_CATALOGUES) },
    file: 'tables_using_composite.txt',
  },
  {
    code: 'NOT_NULL_OF_PARENT',
    severity: 'error',
    message:
      'columns may be null although they may not in the table that they inherit from, which PostgreSQL 18 refuses',
    remedy: 'set them NOT NULL',
    when: (_, to) => to >= 18,
    query: { of: 'each database', sql: NOT_NULL_OF_PARENTS },
    file: 'not_null_inconsistent_columns.txt',
  },
  {
    code: 'NAME_WITH_LINE_BREAK',
    severity: 'error',
    message: 'names of databases, roles or tablespaces have a line break, which PostgreSQL 19 refuses',
    remedy: 'rename them',
    when: (_, to) => to >= 19,
    query: { of: 'cluster', sql: NAMES_WITH_LINE_BREAKS },
  },
  {
    code: 'ENCODING_GONE',
    severity: 'error',
    message:
      'databases have the encoding MULE_INTERNAL, which pg_upgrade cannot restore beside UTF8, and which PostgreSQL 19 does not have',
    remedy:
      'dump each in an encoding that has its letters (pg_dump --encoding=EUC_JP), and restore it into a database of UTF8',
    query: {
      of: 'cluster',
      sql: `SELECT datname AS object, NULL AS sql FROM pg_database WHERE pg_encoding_to_char(encoding) = 'MULE_INTERNAL' ORDER BY 1`,
    },
  },
  {
    code: 'GIST_OF_ADDRESSES',
    severity: 'error',
    message:
      'indexes use the operator classes of btree_gist for inet or cidr, whose answers can be wrong, and PostgreSQL 19 refuses them',
    remedy: 'build them with the operator class inet_ops of PostgreSQL itself, and drop these',
    when: (from, to) => from < 19 && to >= 19,
    query: { of: 'each database', sql: INDEXES_OF_ADDRESSES },
  },
  {
    code: 'TEMPLATE0_OPEN',
    severity: 'error',
    message: 'pg_upgrade refuses a template0 that accepts connections',
    remedy: 'close it',
    query: {
      of: 'cluster',
      sql: `SELECT datname AS object, format('ALTER DATABASE %I ALLOW_CONNECTIONS false;', datname) AS sql
  FROM pg_database WHERE datallowconn AND datname = 'template0'`,
    },
  },
  {
    code: 'SUBSCRIPTION_UNREADY',
    severity: 'error',
    message: 'pg_upgrade refuses subscriptions that have no origin, or tables that are still being copied',
    remedy: 'let the subscriptions finish copying, or drop them',
    when: (from) => from >= 17,
    file: 'subs_invalid.txt',
  },
  {
    code: REFUSED_OTHERWISE,
    severity: 'error',
    message: 'pg_upgrade refuses this cluster',
    remedy: "follow pg_upgrade's own message",
    find: ({ refusal }) => refusal.map((object) => ({ object })),
  },
];
