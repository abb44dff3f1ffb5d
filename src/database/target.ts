import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';

/** The database that must not change, as it was found. Never holds an open connection. */
export interface Target {
  /** With exactly one host: the one that answered. */
  readonly settings: ConnectionSettings;
  /** Where the connection came from, in words for the user: `--url`, `DATABASE_URL`, `DATABASE_URL in .env`, `PG* variables`. */
  readonly source: string;
  readonly server: ServerFacts;
  readonly role: RoleFacts;
  readonly database: DatabaseFacts;
}

export interface ServerFacts {
  /** As server_version_num: 180004. */
  readonly versionNum: number;
  /** As server_version without the packager's suffix: `18.4`. */
  readonly version: string;
  /** pg_control_system().system_identifier, where the role may read it. */
  readonly systemIdentifier: string | null;
  /** A standby: only `--source` may be one. */
  readonly inRecovery: boolean;
  readonly maxConnections: number;
  /** Bytes of a page, 8192 nearly everywhere. */
  readonly blockSize: number;
}

export interface RoleFacts {
  readonly name: string;
  readonly superuser: boolean;
  readonly createdb: boolean;
  /** May use CHECKPOINT: superuser or pg_checkpoint (15+). */
  readonly mayCheckpoint: boolean;
  /** May end sessions of other ordinary roles: superuser or pg_signal_backend. */
  readonly maySignal: boolean;
  /** Sees others' queries and addresses in pg_stat_activity: superuser or pg_read_all_stats. */
  readonly seesActivity: boolean;
}

export interface DatabaseFacts {
  readonly oid: number;
  readonly name: string;
  readonly owner: string;
  /** The role is a member of the owner, or a superuser. */
  readonly owned: boolean;
  readonly isTemplate: boolean;
  /** pg_database_size, in bytes. */
  readonly sizeBytes: number;
  /** Estimated number of files, from the catalogue: main forks, free space and visibility maps, indexes. */
  readonly files: number;
  readonly relations: number;
  readonly tablespace: string;
}
