import type { TargetSection } from '../model/report.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';

/** Facts about the target. It has no open connection. */
export interface Target {
  /** Settings with exactly one host: the one that answered. */
  readonly settings: ConnectionSettings;
  /** The source of the connection, for display: `--url`, `DATABASE_URL`, `DATABASE_URL in .env`, `PG* variables`. */
  readonly source: string;
  readonly server: ServerFacts;
  readonly role: RoleFacts;
  readonly database: DatabaseFacts;
}

export interface ServerFacts {
  /** server_version_num: 180004. */
  readonly versionNum: number;
  /** server_version without the packager's suffix: `18.4`. */
  readonly version: string;
  /** pg_control_system().system_identifier, null if the role may not read it. */
  readonly systemIdentifier: string | null;
  /** The server is a standby, which is permitted only for the source of a clone. */
  readonly inRecovery: boolean;
  readonly maxConnections: number;
  /** Size of a page in bytes, usually 8192. */
  readonly blockSize: number;
}

export interface RoleFacts {
  readonly name: string;
  readonly superuser: boolean;
  readonly createdb: boolean;
  /** May use CHECKPOINT: superuser or pg_checkpoint (15+). */
  readonly mayCheckpoint: boolean;
  /** May terminate sessions of other ordinary roles: superuser or pg_signal_backend. */
  readonly maySignal: boolean;
  /** Sees others' queries and addresses in pg_stat_activity: superuser or pg_read_all_stats. */
  readonly seesActivity: boolean;
  /** May run programs on the server: superuser or pg_execute_server_program. */
  readonly runsPrograms: boolean;
  /** May read the server's files: superuser or pg_read_server_files. */
  readonly readsFiles: boolean;
  /** May write the server's files: superuser or pg_write_server_files. */
  readonly writesFiles: boolean;
  /** May log in for replication: superuser or the attribute REPLICATION. */
  readonly mayReplicate: boolean;
}

export interface DatabaseFacts {
  readonly oid: number;
  readonly name: string;
  readonly owner: string;
  /** The role is a member of the owner, or a superuser. */
  readonly owned: boolean;
  /** By SET ROLE the owner may do more on the server than own things: its members would, too. */
  readonly ownerHasPowers: boolean;
  readonly isTemplate: boolean;
  /** pg_database_size, in bytes. */
  readonly sizeBytes: number;
  /** Estimated number of files, from the catalog: main forks, free space and visibility maps, indexes. */
  readonly files: number;
  readonly relations: number;
  /** Among them unlogged tables and materialized views. */
  readonly unloggedTables: number;
  readonly tablespace: string;
  /** Objects through which its statements can reach other systems: `extension dblink`, … */
  readonly externalAccess: readonly string[];
  /** Hashes of the initial settings that may give statements another meaning: `search_path of the database`, … */
  readonly sessionSettings: Readonly<Record<string, string>>;
}

/** The environment variable that names the target if no other one is given. */
export const DEFAULT_URL_VARIABLE = 'DATABASE_URL';

/** Builds the report's target section, which has no password. */
export function describeTarget(
  { settings, source, server, database }: Target,
  found: Pick<TargetSection, 'changes' | 'unchanged' | 'sessions'>,
  { touched, origin }: Pick<TargetSection, 'touched' | 'origin'>,
): TargetSection {
  const [address] = settings.hosts;
  return {
    host: address?.host ?? '',
    port: address?.port ?? 0,
    database: database.name,
    serverVersion: server.version,
    sizeBytes: database.sizeBytes,
    source,
    origin,
    changes: found.changes,
    unchanged: found.unchanged,
    sessions: found.sessions,
    touched,
    sessionSettings: database.sessionSettings,
  };
}
