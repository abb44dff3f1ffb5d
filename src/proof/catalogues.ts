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
