/**
 * Judgements of functions by their effect outside of their session's database. Harmless is one that only computes, reads, or writes within
 * the database, and runs no text and no code that it finds by a name or an OID in its arguments. All others are not known.
 */

/** Families of built-in functions that are not immutable, and harmless. */
const FAMILIES = [
  ...['RI_FKey_\\w+', 'has_\\w+_privilege', 'to_reg\\w+', 'pg_stat_get_\\w+', 'pg_ls_\\w+', 'pg_show_\\w+'],
  ...[
    'pg_get_\\w+',
    'pg_\\w+_is_visible',
    'pg_(?:try_)?advisory_\\w+',
    'pg_event_trigger_\\w+',
    'pg_control_\\w+',
  ],
  ...[
    'pg_\\w+_size',
    'pg_current_\\w+',
    'pg_last_\\w+',
    'txid_\\w+',
    'inet_(?:client|server)_\\w+',
    'uuidv\\d',
  ],
  ...['lo_(?!import$|export$)\\w+', '(?:date|timestamp|timestamptz)_(?:cmp|eq|ge|gt|le|lt|ne|mi|pl)_\\w+'],
  ...['jsonb?_(?:agg|object_agg|build|to_record|populate)\\w*', 'jsonb?_to_tsvector', 'jsonb_path_\\w+_tz'],
  // Their types and relations are judged by themselves.
  ...[
    '(?!array_|domain_|record_|range_|multirange_|any)\\w+(?:_out|_in|_send|_recv)',
    '(?:reg|acl)\\w+(?:in|out)',
  ],
  ...[
    '(?:array|record|range|multirange|any\\w+|domain)_(?:out|send)',
    '(?:bpchar|text|varchar|name)(?:recv|send)',
  ],
];

const NAMES = [
  'aclexplode age anytextcat array_sample array_shuffle array_to_json array_to_string col_description concat concat_ws convert',
  'convert_from convert_to current_database current_query current_schema current_schemas current_setting current_user currval date',
  'date_add date_part date_subtract date_trunc clock_timestamp enum_first enum_last enum_range extract format format_type',
  'gen_random_uuid generate_series get_current_ts_config getdatabaseencoding getpgusername gin_clean_pending_list',
  'brin_desummarize_range in_range interval_pl_timestamptz lastval length loread lowrite make_timestamptz money mxid_age nextval now',
  'numeric obj_description oidvectortypes overlaps _pg_index_position phraseto_tsquery plainto_tsquery quote_literal quote_nullable',
  'random random_normal regclass row_security_active row_to_json session_user set_config setseed setval shobj_description',
  'statement_timestamp system_user textanycat time timeofday timestamp timestamptz timetz timezone to_char to_date to_json to_jsonb',
  'to_number to_timestamp to_tsquery to_tsvector transaction_timestamp ts_debug ts_headline ts_match_tq ts_match_tt ts_parse',
  'ts_token_type tsvector_update_trigger tsvector_update_trigger_column suppress_redundant_updates_trigger unique_key_recheck',
  'version websearch_to_tsquery xml xml_is_well_formed timestamptz_mi_interval timestamptz_pl_interval',
  'pg_available_extension_versions pg_available_extensions pg_available_wal_summaries pg_backend_pid pg_backup_start_time',
  'pg_basetype pg_blocking_pids pg_char_to_encoding pg_clear_attribute_stats pg_clear_extended_stats pg_clear_relation_stats pg_client_encoding',
  'pg_collation_actual_version pg_collation_for pg_column_compression pg_column_is_updatable pg_column_toast_chunk_id',
  'pg_conf_load_time pg_config pg_cursor pg_database_collation_actual_version pg_describe_object pg_encoding_to_char',
  'pg_export_snapshot pg_extension_config_dump pg_extension_update_paths pg_filenode_relation pg_has_role pg_hba_file_rules',
  'pg_ident_file_mappings pg_identify_object pg_identify_object_as_address pg_index_column_has_property pg_index_has_property',
  'pg_indexam_has_property pg_is_in_backup pg_is_in_recovery pg_is_other_temp_schema pg_is_wal_replay_paused',
  'pg_isolation_test_session_is_blocked pg_jit_available pg_listening_channels pg_lock_status pg_logical_emit_message',
  'pg_mcv_list_items pg_my_temp_schema pg_notification_queue_usage pg_notify pg_numa_available pg_options_to_table',
  'pg_partition_ancestors pg_partition_tree pg_postmaster_start_time pg_prepared_statement pg_prepared_xact',
  'pg_relation_filenode pg_relation_filepath pg_relation_is_publishable pg_relation_is_updatable pg_replication_origin_oid',
  'pg_replication_origin_progress pg_replication_origin_session_is_setup pg_replication_origin_session_progress',
  'pg_safe_snapshot_blocking_pids pg_sequence_last_value pg_sequence_parameters pg_settings_get_flags pg_sleep pg_sleep_for',
  'pg_sleep_until pg_split_walfile_name pg_stat_clear_snapshot pg_stat_file pg_stat_force_next_flush pg_stat_have_stats',
  'pg_stat_reset pg_stat_reset_single_function_counters pg_tablespace_databases pg_tablespace_location pg_timezone_abbrevs',
  'pg_timezone_abbrevs_abbrevs pg_timezone_abbrevs_zone pg_timezone_names pg_trigger_depth pg_typeof pg_wal_summary_contents',
  'pg_xact_commit_timestamp pg_xact_commit_timestamp_origin pg_xact_status plpgsql_validator',
].join(' ');

const HARMLESS: ReadonlySet<string> = new Set(NAMES.split(' '));
const FAMILY = new RegExp(`^(?:${FAMILIES.join('|')})$`);

/** Tells if a built-in function that is not immutable is harmless. */
export function isHarmlessFunction(name: string): boolean {
  return HARMLESS.has(name) || FAMILY.test(name);
}

const ALL_HARMLESS = [
  'address_standardizer address_standardizer_data_us autoinc bloom btree_gin btree_gist citext cube dict_int dict_xsyn earthdistance',
  'fuzzystrmatch hstore insert_username intagg intarray ip4r isn lo ltree moddatetime pageinspect pg_freespacemap pg_hashids pg_trgm',
  'pg_uuidv7 pg_visibility pgcrypto pgrowlocks pgstattuple plpgsql prefix seg semver sslinfo tcn tsm_system_rows tsm_system_time',
  'unaccent uuid-ossp vector',
].join(' ');

/** Functions of other extensions that are not harmless: they execute a text, or find a relation by a name in one, or act on the server. */
const EXCEPT: Readonly<Record<string, string>> = {
  pg_buffercache: 'pg_buffercache_evict pg_buffercache_evict_relation pg_buffercache_evict_all',
  pg_stat_statements: 'pg_stat_statements_reset',
  postgis:
    'addgeometrycolumn dropgeometrycolumn dropgeometrytable find_srid populate_geometry_columns postgis_extensions_upgrade ' +
    'st_estimatedextent st_findextent st_fromflatgeobuf st_fromflatgeobuftotable updategeometrysrid',
  refint: 'check_foreign_key check_primary_key',
  tablefunc: 'connectby crosstab crosstab2 crosstab3 crosstab4 crosstabn',
  xml2: 'xpath_table',
};

/** Extensions whose functions, types, operators and scripts are harmless, but for those functions. */
export const HARMLESS_EXTENSIONS: ReadonlySet<string> = new Set([
  ...ALL_HARMLESS.split(' '),
  ...Object.keys(EXCEPT),
]);
export const NOT_HARMLESS_IN_THEM: readonly string[] = Object.values(EXCEPT).flatMap((names) =>
  names.split(' '),
);
