import type { Session } from '../../postgres/connection/session.ts';
import { NEEDED_DATABASES } from './excluded.ts';

/** Facts about the server to copy. */
export interface SourceServer {
  readonly versionNum: number;
  /** null if the role may not read it. */
  readonly dataDirectory: string | null;
  readonly systemIdentifier: string | null;
  /** Seconds since 1970. */
  readonly startedAt: number;
  readonly port: number;
  /** Process id of our own session, a child of the postmaster. */
  readonly backendPid: number;
  readonly inRecovery: boolean;
  /** `minimal` permits no backup. */
  readonly walLevel: string;
  readonly walSegmentBytes: number;
  readonly fsync: boolean;
  /** May call the backup functions in this database; privileges on functions are per database. */
  readonly mayBackUp: boolean;
  /** May create a replication slot. */
  readonly mayReserve: boolean;
  readonly role: string;
  readonly database: string;
  /** Files and folders that settings name; relative ones are relative to the data directory. */
  readonly named: Readonly<Record<'log_directory' | string, string>>;
  /** The databases that its copy needs besides the target: OIDs by name. */
  readonly neededDatabases: Readonly<Record<string, string>>;
  /** Number of databases. */
  readonly databases: number;
  /** Milliseconds over which a spread checkpoint lasts at most. */
  readonly spreadMs: number;
}

/** The copy gets its own files for these settings, and so does not need links to them in the data directory. */
const NAMING_SETTINGS = [
  'config_file',
  'hba_file',
  'ident_file',
  'log_directory',
  'external_pid_file',
  'ssl_cert_file',
  'ssl_key_file',
  'ssl_ca_file',
  'ssl_crl_file',
  'ssl_crl_dir',
  'ssl_dh_params_file',
  'stats_temp_directory',
  'krb_server_keyfile',
];

export const PG_15 = 150000;

/** Signatures of the backup functions. Before version 15 they had other names. */
export function backupFunctions(versionNum: number): { start: string; stop: string } {
  return versionNum >= PG_15
    ? { start: 'pg_backup_start(text, boolean)', stop: 'pg_backup_stop(boolean)' }
    : { start: 'pg_start_backup(text, boolean, boolean)', stop: 'pg_stop_backup(boolean, boolean)' };
}

// Privileges are checked first, since a refused statement would appear in the server's log.
const FACTS = `
SELECT CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE') THEN current_setting('data_directory') END AS "dataDirectory",
       extract(epoch FROM pg_postmaster_start_time())::float8 AS "startedAt",
       current_setting('port')::int AS port, pg_backend_pid() AS "backendPid", pg_is_in_recovery() AS "inRecovery",
       current_setting('wal_level') AS "walLevel", pg_size_bytes(current_setting('wal_segment_size'))::int AS "walSegmentBytes",
       current_setting('fsync')::bool AS fsync,
       has_function_privilege($1, 'EXECUTE') AND has_function_privilege($2, 'EXECUTE') AS "mayBackUp",
       r.rolsuper OR r.rolreplication AS "mayReserve",
       current_user::text AS role, current_database()::text AS database,
       has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') AS "readsControl",
       (SELECT coalesce(json_object_agg(s.name, s.setting), '{}') FROM pg_settings s
         WHERE s.name = ANY ($3::text[]) AND s.setting <> '') AS named,
       (SELECT coalesce(json_object_agg(datname, oid::text), '{}') FROM pg_database
         WHERE datname = ANY ($4::text[])) AS "neededDatabases",
       (SELECT count(*)::int FROM pg_database) AS databases,
       extract(epoch FROM current_setting('checkpoint_timeout')::interval)::float8 * 1000
         * current_setting('checkpoint_completion_target')::float8 AS "spreadMs"
  FROM pg_roles r WHERE r.rolname = current_user`;

const SYSTEM_IDENTIFIER = 'SELECT system_identifier::text AS id FROM pg_control_system()';

/** @param databases names of databases that the copy needs besides the target and those that every server needs. */
export async function readSourceServer(
  session: Session,
  versionNum: number,
  databases: readonly string[],
): Promise<SourceServer> {
  const { start, stop } = backupFunctions(versionNum);
  const [row] = await session.query<
    Omit<SourceServer, 'versionNum' | 'systemIdentifier'> & { readsControl: boolean }
  >(FACTS, [start, stop, NAMING_SETTINGS, [...NEEDED_DATABASES, ...databases]]);
  if (!row) throw new Error('a query that has exactly one row had none');
  const { readsControl, ...facts } = row;
  const [control] = readsControl ? await session.query<{ id: string }>(SYSTEM_IDENTIFIER) : [];
  return { versionNum, systemIdentifier: control?.id ?? null, ...facts };
}

/** @returns what the role lacks for a backup, as an SQL statement. */
export function grantBackup(
  { versionNum, role, database }: SourceServer,
  quote: (name: string) => string,
): string {
  const { start, stop } = backupFunctions(versionNum);
  return `in the database ${database}: GRANT EXECUTE ON FUNCTION pg_catalog.${start}, pg_catalog.${stop} TO ${quote(role)};`;
}
