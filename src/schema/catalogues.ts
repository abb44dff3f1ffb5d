/** A catalogue of one database that holds a part of its schema. */
export interface Catalogue {
  readonly name: string;
  /** The columns that identify a row. */
  readonly row: string;
  /** Without the objects that leavingOut() names. */
  readonly where?: string;
  /** SQL for the OID of the relation that a row is a part of; or 0: relations may refer to it; or null: none does. */
  readonly relation: string | null;
  /** No relation refers to a new row that is not new itself. */
  readonly mayGrow?: true;
}

/**
 * A WITH item for queries over the catalogues: temporary objects of other sessions come and go, and what hangs on one is told
 * by its OID.
 * @param relations which relations are left out, in terms of pg_class.
 */
export function leavingOut(relations: string): string {
  return `left_out as materialized (
    select oid from pg_catalog.pg_class where ${relations}
    union all select t.oid from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
      where n.nspname like 'pg\\_temp\\_%' or n.nspname like 'pg\\_toast\\_temp\\_%'
    union all select p.oid from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
      where n.nspname like 'pg\\_temp\\_%'
    union all select oid from pg_catalog.pg_namespace where nspname like 'pg\\_temp\\_%' or nspname like 'pg\\_toast\\_temp\\_%')`;
}

const lasting = (oid: string) => `${oid} not in (select oid from left_out)`;

const ofPart = (catalogue: string, relation: string) =>
  `when 'pg_catalog.${catalogue}'::pg_catalog.regclass then (select x.${relation} from pg_catalog.${catalogue} x where x.oid = objoid)`;
const BY_ADDRESS = `case classoid when 'pg_catalog.pg_class'::pg_catalog.regclass then objoid
  ${ofPart('pg_constraint', 'conrelid')} ${ofPart('pg_trigger', 'tgrelid')} ${ofPart('pg_policy', 'polrelid')}
  ${ofPart('pg_rewrite', 'ev_class')} end`;
const ANY = '0';
const NONE = null;

const CATALOGUES: readonly Catalogue[] = [
  { name: 'pg_class', row: 'oid', where: lasting('oid'), relation: 'oid' },
  // Every table has six system columns, whose rows only a grant on one of them writes.
  {
    name: 'pg_attribute',
    row: 'attrelid, attnum',
    where: `(attnum > 0 or attacl is not null) and ${lasting('attrelid')}`,
    relation: 'attrelid',
  },
  { name: 'pg_attrdef', row: 'oid', where: lasting('adrelid'), relation: 'adrelid' },
  {
    name: 'pg_constraint',
    row: 'oid',
    where: `${lasting('conrelid')} and ${lasting('contypid')}`,
    relation: 'conrelid',
  },
  { name: 'pg_index', row: 'indexrelid', where: lasting('indexrelid'), relation: 'indrelid' },
  { name: 'pg_inherits', row: 'inhrelid, inhseqno', where: lasting('inhrelid'), relation: 'inhrelid' },
  { name: 'pg_partitioned_table', row: 'partrelid', where: lasting('partrelid'), relation: 'partrelid' },
  { name: 'pg_sequence', row: 'seqrelid', where: lasting('seqrelid'), relation: 'seqrelid' },
  { name: 'pg_trigger', row: 'oid', where: lasting('tgrelid'), relation: 'tgrelid' },
  { name: 'pg_rewrite', row: 'oid', where: lasting('ev_class'), relation: 'ev_class' },
  { name: 'pg_policy', row: 'oid', where: lasting('polrelid'), relation: 'polrelid' },
  { name: 'pg_type', row: 'oid', where: lasting('oid'), relation: 'typrelid', mayGrow: true },
  { name: 'pg_range', row: 'rngtypid', where: lasting('rngtypid'), relation: NONE },
  { name: 'pg_enum', row: 'oid', where: lasting('enumtypid'), mayGrow: true, relation: ANY },
  { name: 'pg_proc', row: 'oid', where: lasting('oid'), mayGrow: true, relation: ANY },
  {
    name: 'pg_aggregate',
    row: 'aggfnoid::pg_catalog.oid',
    where: lasting('aggfnoid::pg_catalog.oid'),
    relation: NONE,
  },
  { name: 'pg_namespace', row: 'oid', where: lasting('oid'), mayGrow: true, relation: ANY },
  { name: 'pg_statistic_ext', row: 'oid', where: lasting('stxrelid'), relation: 'stxrelid' },
  {
    name: 'pg_description',
    row: 'objoid, classoid, objsubid',
    where: lasting('objoid'),
    relation: BY_ADDRESS,
  },
  { name: 'pg_seclabel', row: 'objoid, classoid, objsubid', where: lasting('objoid'), relation: BY_ADDRESS },
  {
    name: 'pg_init_privs',
    row: 'objoid, classoid, objsubid',
    where: lasting('objoid'),
    relation: BY_ADDRESS,
  },
  { name: 'pg_default_acl', row: 'oid', relation: NONE },
  { name: 'pg_extension', row: 'oid', relation: ANY },
  { name: 'pg_event_trigger', row: 'oid', relation: NONE },
  { name: 'pg_collation', row: 'oid', relation: ANY },
  { name: 'pg_conversion', row: 'oid', relation: NONE },
  { name: 'pg_cast', row: 'oid', relation: ANY },
  { name: 'pg_operator', row: 'oid', relation: ANY },
  { name: 'pg_opclass', row: 'oid', relation: ANY },
  { name: 'pg_opfamily', row: 'oid', relation: ANY },
  { name: 'pg_amop', row: 'oid', relation: ANY },
  { name: 'pg_amproc', row: 'oid', relation: ANY },
  { name: 'pg_am', row: 'oid', relation: ANY },
  { name: 'pg_language', row: 'oid', relation: ANY },
  { name: 'pg_transform', row: 'oid', relation: NONE },
  { name: 'pg_ts_config', row: 'oid', relation: ANY },
  { name: 'pg_ts_config_map', row: 'mapcfg, maptokentype, mapseqno', relation: ANY },
  { name: 'pg_ts_dict', row: 'oid', relation: ANY },
  { name: 'pg_ts_parser', row: 'oid', relation: ANY },
  { name: 'pg_ts_template', row: 'oid', relation: ANY },
  { name: 'pg_foreign_data_wrapper', row: 'oid', relation: NONE },
  { name: 'pg_foreign_server', row: 'oid', relation: NONE },
  { name: 'pg_foreign_table', row: 'ftrelid', relation: 'ftrelid' },
  { name: 'pg_publication', row: 'oid', relation: NONE },
  { name: 'pg_publication_rel', row: 'oid', relation: NONE },
];

const SINCE_15: Catalogue = { name: 'pg_publication_namespace', row: 'oid', relation: NONE };

/** Those that any role may read. @param version as `server_version_num` */
export function cataloguesOf(version: number): readonly Catalogue[] {
  return version >= 150_000 ? [...CATALOGUES, SINCE_15] : CATALOGUES;
}
