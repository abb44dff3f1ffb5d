import type { MethodId } from '../clone/method-id.ts';
import type { Interrupts } from '../command/run-command.ts';
import type { Emit } from '../events.ts';
import type { EarlierApply } from '../hazards/apply-history.ts';
import type { Policy } from '../hazards/policy.ts';
import type { Report } from '../model/report.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { Observe } from '../proxy/observed.ts';

// What a program may ask for. The types of the package follow from this file: it names nothing that a user does not get.

export interface RehearseOptions {
  /** The migration command, program first. */
  readonly command: readonly string[];
  /** Where the target is; default: the variable, the PG* variables, `./.env`, in this order. */
  readonly url?: string;
  /** A dump to restore on a server of its own, which is the target then; instead of `url`. */
  readonly from?: string;
  /** Default `DATABASE_URL`. */
  readonly urlEnv?: string;
  readonly clone?: 'auto' | MethodId;
  /** Another server: to make the clone on by `dump`, or that has a copy of the target to be cloned by `template`. */
  readonly rehearsalUrl?: string;
  /** A standby of the target to copy the cluster from. */
  readonly source?: string;
  /** Of the checkpoint before a copy of the cluster. Default `fast`. */
  readonly checkpoint?: 'fast' | 'spread';
  /** Where a copy of the cluster is put. Default: on the data directory's own file system. */
  readonly cloneDir?: string;
  /** After which a clone that is a server of its own ends by itself. Default 6 h. */
  readonly cloneTtlMs?: number;
  /** Above which nothing is copied in full unless `clone` names the method. Default 10 GB. */
  readonly maxCopyBytes?: number;
  readonly schemaOnly?: boolean;
  readonly excludeTableData?: readonly string[];
  readonly allowExternalAccess?: boolean;
  /** Shell commands for `clone: 'external'`. */
  readonly cloneCreate?: string;
  readonly cloneDestroy?: string;
  /** SQL, or names of files that hold some, to run on the clone before anything is measured. */
  readonly afterClone?: readonly string[];
  /** Sessions on the target that may be ended for the clone. Default `never`. */
  readonly disconnect?: 'never' | 'idle' | 'all';
  /** For sessions on the target to go. Default 10 s. */
  readonly waitMs?: number;
  /** For which connections to a target in use may wait. Default 5 s. */
  readonly maxStallMs?: number;
  /** For the command. Default: none. */
  readonly timeoutMs?: number;
  readonly keep?: boolean;
  /**
   * Queries of the running application that must work after the command: `pg_stat_statements`, `off`, or the name of a
   * file. Default: `pg_stat_statements` where the target has it and the role may read it.
   */
  readonly queries?: string;
  /** Queries, or names of files that hold one, that must return the same rows before and after. */
  readonly check?: readonly string[];
  /** The same that must return no row after. */
  readonly checkEmpty?: readonly string[];
  /** Runs the command once more, which must change nothing. Default false. */
  readonly rerun?: boolean;
  /** A shell command that leads back to the state before; run on the clone at the end. */
  readonly down?: string;
  /**
   * How the command's statements are looked at: `exact` holds each one's end back until its locks are read, `sampled`
   * lets everything pass as it comes, `off` does not look. Default `exact`.
   */
  readonly observe?: Observe;
  /** Lets statements through whose effect reaches beyond the clone (roles, the server). Default false. */
  readonly allowClusterStatements?: boolean;
  /** What the command has to keep to. Default: hazards of severity `error` fail. */
  readonly policy?: Partial<Policy>;
  /** Leaves literals, values of rows and the name of the host out of the report. Default false. */
  readonly redact?: boolean;
  /** A file: a rehearsal writes there what it proved, and an apply reads it in the place of a rehearsal. */
  readonly receipt?: string;
  /** Signs receipts, and proves who signed them. */
  readonly receiptKey?: string;
  /** The address that the command connects to, for one that runs in a container. Default 127.0.0.1. */
  readonly proxyListen?: string;
  /** Where the command runs and where `./.env` is looked for. Default: the current folder. */
  readonly folder?: string;
  /** Default: this process's. */
  readonly env?: NodeJS.ProcessEnv;
  /** Where the command's standard output goes. Default `inherit`. */
  readonly commandStdout?: 'inherit' | 'stderr';
  /** What earlier runs that applied to this target took, for the forecast. Default: nothing is known. */
  readonly pastApplies?: (target: Report['target']) => Promise<readonly EarlierApply[]>;
  readonly emit?: Emit;
  /** Gets each statement that safemigrate itself sends. */
  readonly audit?: Audit;
  /** Ends the run; what it made is released before rehearse() settles. */
  readonly signal?: AbortSignal;
  /** Signals that a person sent, for the command to get. */
  readonly interrupts?: Interrupts;
}
