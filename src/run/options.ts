import { EventEmitter } from 'node:events';
import type { Clone, CloneContext, CloneLimits, CloneWishes, MethodId } from '../clone/method.ts';
import type { Logins, Rewritten } from '../command/rewrite.ts';
import { hasTerminal, type Interrupts, type RunOptions } from '../command/run-command.ts';
import { SafemigrateError } from '../errors.ts';
import type { Emit } from '../events.ts';
import type { PastApply } from '../judge/experience.ts';
import type { Policy } from '../judge/policy.ts';
import type { CommandWatchOptions } from '../observe/command-watch.ts';
import type { Guard, GuardOptions } from '../observe/guard.ts';
import type { Report } from '../report/model.ts';
import type { Stop } from '../stop.ts';
import type { Audit } from '../target/session.ts';
import type { Observe } from '../wire/observed.ts';

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
  readonly allowOutward?: boolean;
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
  /** Leaves literals and values of rows out of the report's statements and errors. Default false. */
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
  readonly pastApplies?: (target: Report['target']) => Promise<readonly PastApply[]>;
  readonly emit?: Emit;
  /** Gets each statement that safemigrate itself sends. */
  readonly audit?: Audit;
  /** Ends the run; what it made is released before rehearse() settles. */
  readonly signal?: AbortSignal;
  /** Signals that a person sent, for the command to get. */
  readonly interrupts?: Interrupts;
}

/** What each part of a run is told of them, with what holds where nothing was said. */
export function limitsOf(options: RehearseOptions): CloneLimits {
  const { disconnect = 'never', waitMs = 10_000, maxStallMs = 5_000 } = options;
  const { cloneTtlMs: ttlMs = 6 * 3_600_000, maxCopyBytes = 10 * 2 ** 30 } = options;
  return { disconnect, waitMs, maxStallMs, ttlMs, maxCopyBytes };
}

export function wishesOf(options: RehearseOptions): CloneWishes {
  const { checkpoint = 'fast', schemaOnly = false, excludeTableData = [], allowOutward = false } = options;
  const { cloneDir: folder, cloneCreate: create, cloneDestroy: destroy, keep = false } = options;
  if ((create === undefined) !== (destroy === undefined)) throw halfOfAPair();
  return {
    checkpoint,
    schemaOnly,
    excludeTableData,
    allowOutward,
    keep,
    ...(folder === undefined ? {} : { folder }),
    ...(create === undefined || destroy === undefined ? {} : { external: { create, destroy } }),
  };
}

function halfOfAPair(): SafemigrateError {
  return new SafemigrateError(
    'CONFIGURATION',
    '--clone-create and --clone-destroy (cloneCreate and cloneDestroy in the configuration) go together.',
    { hint: 'Give both: what is made elsewhere has to be removed there. Nothing was touched.' },
  );
}

export function guardOptions({ target }: CloneContext, clone: Clone, options: RehearseOptions): GuardOptions {
  return {
    names: { target: target.database.name, clone: clone.database },
    isolation: clone.isolation,
    allow: options.allowClusterStatements ?? false,
    marking: clone.marking,
    databases: clone.made,
  };
}

/** What the command does to its clone's server, it does to the target's. */
export function sharesServer({ rehearsal }: CloneContext, { isolation }: Clone): boolean {
  return isolation === 'same-cluster' && !rehearsal;
}

export function contactOptions(context: CloneContext, clone: Clone) {
  // On another server the number means nothing; none is 0.
  return { ...context, cloneOid: sharesServer(context, clone) ? clone.oid : 0 };
}

export function wireOptions(
  context: CloneContext,
  clone: Clone,
  { logins }: Logins,
  guard: Guard,
  options: RehearseOptions,
): CommandWatchOptions {
  const { emit } = context;
  return {
    logins,
    clone: clone.connect,
    sharesRoles: clone.sharesRoles,
    cloneOid: clone.oid,
    guard,
    observe: options.observe ?? 'exact',
    redact: options.redact ?? false,
    ...(options.proxyListen === undefined ? {} : { listen: options.proxyListen }),
    otherDatabase: (name) => name === 'postgres' || clone.made.has(name),
    connect: clone.server.open,
    emit,
  };
}

export function toRun(rewritten: Rewritten, stop: Stop, options: RehearseOptions): RunOptions {
  return {
    argv: rewritten.argv,
    env: rewritten.env,
    folder: options.folder ?? process.cwd(),
    stdout: options.commandStdout ?? 'inherit',
    terminal: hasTerminal(),
    timeoutMs: options.timeoutMs ?? 0,
    interrupts: options.interrupts ?? new EventEmitter(),
    signal: stop.signal,
  };
}

export function ignore(): void {}
