import type { MethodId } from '../clone/method-id.ts';
import type { Interrupts } from '../command/run-command.ts';
import type { SandboxMode } from '../command/sandbox/sandbox-mode.ts';
import { DEFAULT_URL_VARIABLE } from '../database/url-variable.ts';
import type { Emit } from '../events.ts';
import type { Policy } from '../hazards/policy.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { ProposalFormat } from '../propose/formats/proposal-format.ts';
import type { Observe } from '../proxy/observed.ts';

// The types of the package follow from this file: it names nothing that a user does not get.

/** What a user can set, by a flag, a variable or a config file as well as in a program. */
export interface RehearsalSettings {
  /** URL of the target; without it: the variable, the PG* variables, `./.env`, in this order. */
  readonly url?: string;
  /** The variable that holds the URL. */
  readonly urlEnv?: string;
  /** A dump to restore on a private server, which then is the target; instead of `url`. */
  readonly from?: string;
  readonly clone?: 'auto' | MethodId;
  /** Another server: `dump` makes the clone on it, or `template` clones its copy of the target. */
  readonly rehearsalUrl?: string;
  /** A standby of the target to copy the cluster from. */
  readonly source?: string;
  /** The checkpoint before the cluster is copied. */
  readonly checkpoint?: 'fast' | 'spread';
  /** The folder for a copy of the cluster; without it: one on the data directory's own file system. */
  readonly cloneDir?: string;
  /** Lifetime of a clone that runs as its own server. */
  readonly cloneTtlMs?: number;
  /** Nothing larger is copied in full unless `clone` names the method. */
  readonly maxCopyBytes?: number;
  /** Clones the tables without their rows. */
  readonly schemaOnly?: boolean;
  /** Patterns, as pg_dump takes them, of tables that are cloned without their rows. */
  readonly excludeTableData?: readonly string[];
  /** Other databases of the target's server that the command uses: a copy of the cluster has them, too. */
  readonly databases?: readonly string[];
  /** Lets a clone run even if foreign servers or untrusted languages in it could reach other systems. */
  readonly allowExternalAccess?: boolean;
  /** Rehearses on the target as of this time (`2026-11-22 10:00+00`), or `latest`: as far as the archive goes. */
  readonly cloneAt?: string;
  /** The folder of a base backup to begin with, or a data directory in a snapshot. */
  readonly baseBackup?: string;
  /** Shell command that fetches a WAL file (`%f`) from the archive to `%p`; without it: the target's own. */
  readonly restoreCommand?: string;
  /** Shell command that makes a clone elsewhere and prints its URL, for `clone: 'external'`. */
  readonly cloneCreate?: string;
  /** Shell command that removes that clone. */
  readonly cloneDestroy?: string;
  /** SQL, or names of files that hold some, to run on the clone before anything is measured. */
  readonly afterClone?: readonly string[];
  /** Sessions on the target that may be terminated to make the clone. */
  readonly disconnect?: 'never' | 'idle' | 'all';
  /** How long to wait for sessions to leave the target. */
  readonly waitMs?: number;
  /** How long new connections to a target in use may have to wait. */
  readonly maxStallMs?: number;
  /** The clone stays after the run. */
  readonly keep?: boolean;
  /** A profile of production (`safemigrate profile`): what is found is judged by its sizes and rates. */
  readonly profile?: string;
  /** The oldest profile that is accepted. */
  readonly profileMaxAgeMs?: number;
  /** After this time the command is ended; 0: never. */
  readonly timeoutMs?: number;
  /**
   * How statements are observed: `exact` holds the end of each back until its locks are read, `sampled` delays none,
   * `off` observes none.
   */
  readonly observe?: Observe;
  /** Lets statements pass whose effect reaches beyond the clone (roles, the server). */
  readonly allowClusterStatements?: boolean;
  /** The address that the command connects to, for one that runs in a container. */
  readonly proxyListen?: string;
  /** Whether the command runs in a sandbox, with no network but the proxy: `required`, `off`, or by the strictest way that works. */
  readonly sandbox?: SandboxMode;
  /** What a sandboxed command may reach all the same: `host:port`, or the path of a Unix socket. */
  readonly sandboxAllow?: readonly string[];
  /**
   * Queries of the running application that must work after the command: `pg_stat_statements`, the name of a file, `off`, or
   * `auto`, which is `pg_stat_statements` if the target has it and the role may read it.
   */
  readonly queries?: string;
  /** Queries, or names of files that hold one, that must return the same rows before and after. */
  readonly check?: readonly string[];
  /** The same for queries that must return no row afterwards. */
  readonly checkEmpty?: readonly string[];
  /** Runs the command a second time, which must change nothing. */
  readonly rerun?: boolean;
  /** Tables whose rows the second run may change: audit rows, counters of runs. */
  readonly rerunIgnore?: readonly string[];
  /** Down migration (shell command), run on the clone last. */
  readonly down?: string;
  /** Starts the command so many times together on a second clone; 0: not at all. */
  readonly atOnce?: number;
  /** A file that gets a safer form of what the command did, as SQL, if one is proved on a second clone. */
  readonly propose?: string;
  /** How it is written: SQL for psql, or a folder with a migration of this tool. */
  readonly proposeFormat?: ProposalFormat;
  /** Changes of type as well, of which the column is the last one of its table then. */
  readonly proposeAll?: boolean;
  /** A file that gets what the command sent, as one script for psql. */
  readonly script?: string;
  /** Runs the command once more under load, on a second clone: `shapes`, or files with scripts for pgbench, `FILE.sql[@weight]`. */
  readonly load?: readonly string[];
  /** A shell command that makes the load instead. */
  readonly loadCommand?: string;
  /** Times of the target's transactions a second; for scripts, transactions a second. */
  readonly loadRate?: number;
  /** Sessions of the load. */
  readonly loadClients?: number;
  /** How long the target's transactions are watched. */
  readonly loadWindowMs?: number;
  /** How long the load runs before the command. */
  readonly loadWarmupMs?: number;
  /** Permits load on a clone in the target's own server. */
  readonly loadHere?: boolean;
  /** Leaves literals, values of rows and the name of the host out of the report. */
  readonly redact?: boolean;
  /** A file: a rehearsal writes to it what it proved, an apply reads it instead of rehearsing. */
  readonly receipt?: string;
  /** Signs receipts, and verifies their signatures. */
  readonly receiptKey?: string;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const GB = 2 ** 30;

/** The one place of these defaults; null: nothing is set. */
export const REHEARSAL_DEFAULTS = {
  url: null,
  urlEnv: DEFAULT_URL_VARIABLE,
  from: null,
  clone: 'auto',
  rehearsalUrl: null,
  source: null,
  checkpoint: 'fast',
  cloneDir: null,
  cloneTtlMs: 6 * HOUR_MS,
  maxCopyBytes: 10 * GB,
  schemaOnly: false,
  excludeTableData: [],
  databases: [],
  allowExternalAccess: false,
  cloneAt: null,
  baseBackup: null,
  restoreCommand: null,
  cloneCreate: null,
  cloneDestroy: null,
  afterClone: [],
  disconnect: 'never',
  waitMs: 10_000,
  maxStallMs: 5_000,
  keep: false,
  profile: null,
  profileMaxAgeMs: 30 * DAY_MS,
  timeoutMs: 0,
  observe: 'exact',
  allowClusterStatements: false,
  proxyListen: '127.0.0.1',
  sandbox: 'auto',
  sandboxAllow: [],
  queries: 'auto',
  check: [],
  checkEmpty: [],
  rerun: false,
  rerunIgnore: [],
  down: null,
  atOnce: 0,
  propose: null,
  proposeFormat: 'plain',
  proposeAll: false,
  script: null,
  load: [],
  loadCommand: null,
  loadRate: null,
  loadClients: null,
  loadWindowMs: 10_000,
  loadWarmupMs: 3000,
  loadHere: false,
  redact: false,
  receipt: null,
  receiptKey: null,
} as const satisfies { readonly [K in keyof RehearsalSettings]-?: RehearsalSettings[K] | null };

export interface RehearseOptions extends RehearsalSettings {
  /** The migration command, program first. */
  readonly command: readonly string[];
  /** What the command has to keep to. Default: hazards of severity `error` fail. */
  readonly policy?: Partial<Policy>;
  /** Where the command runs and where `./.env` is looked for. Default: the current folder. */
  readonly folder?: string;
  /** Default: this process's. */
  readonly env?: NodeJS.ProcessEnv;
  /** Where the command's standard output goes. Default `inherit`. */
  readonly commandStdout?: 'inherit' | 'stderr';
  readonly emit?: Emit;
  /** Gets each statement that safemigrate itself sends. */
  readonly audit?: Audit;
  /** Ends the run; what it made is released before rehearse() settles. */
  readonly signal?: AbortSignal;
  /** Signals that a person sent, for the command to get. */
  readonly interrupts?: Interrupts;
}
