import type { Session } from '../postgres/connection/session.ts';

/** A catalogue of one database that holds a part of its schema. */
export interface Catalogue {
  readonly name: string;
  /** The columns that identify a row. */
  readonly row: string;
  /** Leaves temporary objects out; refers to TEMPORARY_OBJECTS. */
  readonly where?: string;
}

/**
 * A WITH item for queries over the catalogues: the OIDs of temporary objects, which other sessions create and drop all the time,
 * and whose parts refer to them by OID.
 */
export const TEMPORARY_OBJECTS = `temporary as materialized (
    select oid from pg_catalog.pg_class where relpersistence = 't'
    union all select t.oid from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
      where n.nspname like 'pg\\_temp\\_%' or n.nspname like 'pg\\_toast\\_temp\\_%'
    union all select p.oid from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
      where n.nspname like 'pg\\_temp\\_%'
    union all select oid from pg_catalog.pg_namespace where nspname like 'pg\\_temp\\_%' or nspname like 'pg\\_toast\\_temp\\_%')`;

const lasting = (oid: string) => `${oid} not in (select oid from temporary)`;

const CATALOGUES: readonly Catalogue[] = [
  { name: 'pg_class', row: 'oid', where: lasting('oid') },
  // Every table has six system columns, whose rows only a grant on one of them writes.
  {
    name: 'pg_attribute',
    row: 'attrelid, attnum',
    where: `(attnum > 0 or attacl is not null) and ${lasting('attrelid')}`,
  },
  { name: 'pg_attrdef', row: 'oid', where: lasting('adrelid') },
  { name: 'pg_constraint', row: 'oid', where: `${lasting('conrelid')} and ${lasting('contypid')}` },
  { name: 'pg_index', row: 'indexrelid', where: lasting('indexrelid') },
  { name: 'pg_inherits', row: 'inhrelid, inhseqno', where: lasting('inhrelid') },
  { name: 'pg_partitioned_table', row: 'partrelid', where: lasting('partrelid') },
  { name: 'pg_sequence', row: 'seqrelid', where: lasting('seqrelid') },
  { name: 'pg_trigger', row: 'oid', where: lasting('tgrelid') },
  { name: 'pg_rewrite', row: 'oid', where: lasting('ev_class') },
  { name: 'pg_policy', row: 'oid', where: lasting('polrelid') },
  { name: 'pg_type', row: 'oid', where: lasting('oid') },
  { name: 'pg_range', row: 'rngtypid', where: lasting('rngtypid') },
  { name: 'pg_enum', row: 'oid', where: lasting('enumtypid') },
  { name: 'pg_proc', row: 'oid', where: lasting('oid') },
  { name: 'pg_aggregate', row: 'aggfnoid::pg_catalog.oid', where: lasting('aggfnoid::pg_catalog.oid') },
  { name: 'pg_namespace', row: 'oid', where: lasting('oid') },
  { name: 'pg_statistic_ext', row: 'oid', where: lasting('stxrelid') },
  { name: 'pg_description', row: 'objoid, classoid, objsubid', where: lasting('objoid') },
  { name: 'pg_seclabel', row: 'objoid, classoid, objsubid', where: lasting('objoid') },
  { name: 'pg_init_privs', row: 'objoid, classoid, objsubid', where: lasting('objoid') },
  { name: 'pg_default_acl', row: 'oid' },
  { name: 'pg_extension', row: 'oid' },
  { name: 'pg_event_trigger', row: 'oid' },
  { name: 'pg_collation', row: 'oid' },
  { name: 'pg_conversion', row: 'oid' },
  { name: 'pg_cast', row: 'oid' },
  { name: 'pg_operator', row: 'oid' },
  { name: 'pg_opclass', row: 'oid' },
  { name: 'pg_opfamily', row: 'oid' },
  { name: 'pg_amop', row: 'oid' },
  { name: 'pg_amproc', row: 'oid' },
  { name: 'pg_am', row: 'oid' },
  { name: 'pg_language', row: 'oid' },
  { name: 'pg_transform', row: 'oid' },
  { name: 'pg_ts_config', row: 'oid' },
  { name: 'pg_ts_config_map', row: 'mapcfg, maptokentype, mapseqno' },
  { name: 'pg_ts_dict', row: 'oid' },
  { name: 'pg_ts_parser', row: 'oid' },
  { name: 'pg_ts_template', row: 'oid' },
  { name: 'pg_foreign_data_wrapper', row: 'oid' },
  { name: 'pg_foreign_server', row: 'oid' },
  { name: 'pg_foreign_table', row: 'ftrelid' },
  { name: 'pg_publication', row: 'oid' },
  { name: 'pg_publication_rel', row: 'oid' },
];

const SINCE_15: Catalogue = { name: 'pg_publication_namespace', row: 'oid' };

/** The catalogues that any role may read. @param version as `server_version_num` */
export function cataloguesOf(version: number): readonly Catalogue[] {
  return version >= 150_000 ? [...CATALOGUES, SINCE_15] : CATALOGUES;
}

/**
 * Shows exactly, and within milliseconds, whether any row of the catalogues that hold a schema was written. It folds every
 * object's OID with the transaction that wrote its row, whatever the order of the rows. It compares one database with
 * itself only: OIDs and transaction ids mean nothing elsewhere.
 *
 * VACUUM and ANALYZE overwrite their figures in place and leave xmin alone, so they do not change the digest. Every statement that
 * gives a relation a new file (TRUNCATE, REINDEX, CLUSTER, VACUUM FULL) changes it, as DDL does.
 */
export interface CatalogueDigest {
  readonly catalogues: Readonly<Record<string, { rows: number; sum: string }>>;
  /** Catalogues that the role cannot read completely, each with the consequence. */
  readonly unread: readonly string[];
}

/** pg_user_mapping holds passwords and is for superusers; its view shows the options to their owner only. */
const MAPPINGS = { name: 'pg_user_mapping', row: 'oid' };
const MAPPINGS_SHOWN = `select 'pg_user_mappings', pg_catalog.count(*),
  pg_catalog.sum(pg_catalog.hash_record_extended(row(umid, srvid, umuser, umoptions), 0)) from pg_catalog.pg_user_mappings`;

const fold = ({ name, row, where }: { name: string; row: string; where?: string }) =>
  `select '${name}', pg_catalog.count(*), pg_catalog.sum(pg_catalog.hash_record_extended(row(${row}, xmin), 0))
   from pg_catalog.${name}${where === undefined ? '' : ` where ${where}`}`;

/** Checked first, because a refused statement is written to the server's log. */
const SERVER = `select pg_catalog.current_setting('server_version_num')::int as version,
  pg_catalog.has_table_privilege('pg_catalog.pg_user_mapping', 'SELECT') as "readsMappings",
  exists (select from pg_catalog.pg_user_mappings) as "hasMappings"`;

/** Folds the catalogues of the session's database, reading each catalogue once. */
export async function catalogueDigest(session: Session): Promise<CatalogueDigest> {
  const { sql, unread } = await digestQuery(session);
  return digestOf(await session.query<FoldedRow>(sql), unread);
}

const PREPARED = 'safemigrate_digest';

/**
 * Prepares the digest, once in a session: to plan it takes as long as to read it.
 * @returns a function that reads it as catalogueDigest() does.
 */
export async function prepareDigest(session: Session): Promise<() => Promise<CatalogueDigest>> {
  const { sql, unread } = await digestQuery(session);
  await session.query(`PREPARE ${PREPARED} AS ${sql}`);
  return async () => digestOf(await session.query<FoldedRow>(`EXECUTE ${PREPARED}`), unread);
}

interface FoldedRow {
  readonly name: string;
  readonly rows: string;
  readonly sum: string | null;
}

async function digestQuery(session: Session): Promise<{ sql: string; unread: CatalogueDigest['unread'] }> {
  const [server] = await session.query<{ version: number; readsMappings: boolean; hasMappings: boolean }>(
    SERVER,
  );
  const { version = 0, readsMappings = false, hasMappings = false } = server ?? {};
  const mappings = readsMappings ? fold(MAPPINGS) : MAPPINGS_SHOWN;
  const sql = `with ${TEMPORARY_OBJECTS} ${cataloguesOf(version).map(fold).join('\nunion all\n')} union all ${mappings}`;
  return {
    sql: `select digest.* from (${sql}) digest(name, rows, sum)`,
    unread: readsMappings || !hasMappings ? [] : ['options of other roles’ user mappings may change unseen'],
  };
}

function digestOf(found: readonly FoldedRow[], unread: CatalogueDigest['unread']): CatalogueDigest {
  const catalogues = found.map(({ name, rows, sum }) => [name, { rows: Number(rows), sum: sum ?? '0' }]);
  return { catalogues: Object.fromEntries(catalogues), unread };
}

/** The catalogues in which the two differ, sorted; none when nothing was written. */
export function compareDigests(a: CatalogueDigest, b: CatalogueDigest): string[] {
  const names = new Set([...Object.keys(a.catalogues), ...Object.keys(b.catalogues)]);
  return [...names]
    .filter((name) => {
      const [one, other] = [a.catalogues[name], b.catalogues[name]];
      return one?.rows !== other?.rows || one?.sum !== other?.sum;
    })
    .sort();
}
