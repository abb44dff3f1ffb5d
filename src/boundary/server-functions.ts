import { ACTS_ON_SERVER, TOUCHES_FILES } from '../postgres/sql/kinds/cluster-objects.ts';

/** A function that acts beyond the database of its session. */
export interface ServerFunction {
  readonly why: string;
  /** How far it goes: the target's server, or files, programs and other servers. */
  readonly leaves: 'database' | 'server';
  /** The extension that it belongs to; null: it is built in, in pg_catalog. */
  readonly extension: string | null;
}

const CONNECTS = 'it opens a connection of its own, to any server';

const BUILT_IN: Readonly<Record<string, readonly string[]>> = {
  [ACTS_ON_SERVER]: [
    ...['pg_reload_conf', 'pg_rotate_logfile', 'pg_rotate_logfile_old', 'pg_promote', 'pg_switch_wal'],
    ...['pg_create_restore_point', 'pg_log_standby_snapshot', 'pg_wal_replay_pause', 'pg_wal_replay_resume'],
    ...['pg_backup_start', 'pg_backup_stop', 'pg_start_backup', 'pg_stop_backup'],
    ...['pg_create_physical_replication_slot', 'pg_create_logical_replication_slot'],
    ...['pg_copy_physical_replication_slot', 'pg_copy_logical_replication_slot'],
    ...['pg_drop_replication_slot', 'pg_replication_slot_advance', 'pg_sync_replication_slots'],
    ...['pg_logical_slot_get_changes', 'pg_logical_slot_get_binary_changes'],
    ...['pg_replication_origin_create', 'pg_replication_origin_drop', 'pg_replication_origin_advance'],
    ...['pg_replication_origin_session_setup', 'binary_upgrade_replorigin_advance'],
    'pg_stop_making_pinned_objects',
  ],
  'it resets statistics of the whole server': [
    ...['pg_stat_reset_shared', 'pg_stat_reset_slru', 'pg_stat_reset_replication_slot'],
    ...['pg_stat_reset_subscription_stats', 'pg_stat_reset_backend_stats'],
  ],
  "it may end the target's sessions": ['pg_terminate_backend'],
  "it may cancel statements of the target's sessions": ['pg_cancel_backend'],
  "it interrupts other sessions, among them the target's": ['pg_log_backend_memory_contexts'],
  [TOUCHES_FILES]: ['lo_import', 'lo_export', 'pg_read_file', 'pg_read_file_old', 'pg_read_binary_file'],
};

const OF_EXTENSIONS: Readonly<Record<string, readonly [why: string, names: readonly string[]]>> = {
  adminpack: [TOUCHES_FILES, ['pg_file_write', 'pg_file_sync', 'pg_file_rename', 'pg_file_unlink']],
  dblink: [
    CONNECTS,
    ['dblink', 'dblink_connect', 'dblink_connect_u', 'dblink_exec', 'dblink_open', 'dblink_send_query'],
  ],
  http: [CONNECTS, ['http', 'http_get', 'http_post', 'http_put', 'http_patch', 'http_delete', 'http_head']],
  pg_stat_statements: ['it resets the statistics of every database', ['pg_stat_statements_reset']],
  pg_buffercache: [
    ACTS_ON_SERVER,
    ['pg_buffercache_evict', 'pg_buffercache_evict_relation', 'pg_buffercache_evict_all'],
  ],
};

/**
 * Functions that act beyond the database of their session, by name. pg_logical_emit_message() is not one: only slots of the
 * session's own database decode what it writes.
 */
export const SERVER_FUNCTIONS: ReadonlyMap<string, ServerFunction> = new Map([
  ...Object.entries(BUILT_IN).flatMap(([why, names]) => describe(why, names, null)),
  ...Object.entries(OF_EXTENSIONS).flatMap(([extension, [why, names]]) => describe(why, names, extension)),
]);

function describe(
  why: string,
  names: readonly string[],
  extension: string | null,
): [string, ServerFunction][] {
  const leaves = why === TOUCHES_FILES || why === CONNECTS ? 'server' : 'database';
  return names.map((name) => [name, { why, leaves, extension }]);
}
