import { EventEmitter } from 'node:events';
import type { CloneOptions } from '../clone/method.ts';
import type { MethodId } from '../clone/method-id.ts';
import type { Interrupts } from '../command/run-command.ts';
import { parseAllowedPlaces } from '../command/sandbox/allowed-places.ts';
import type { SandboxPlan } from '../command/sandbox/command-sandbox.ts';
import { refuseOutsideRunners } from '../command/sandbox/refuse-outside-runners.ts';
import { SafemigrateError } from '../errors.ts';
import type { Emit } from '../events.ts';
import { DEFAULT_POLICY, type Policy } from '../hazards/policy.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { ProposalFormat } from '../propose/formats/proposal-format.ts';
import type { Observe } from '../proxy/observed.ts';
import { REHEARSAL_DEFAULTS, type RehearsalSettings, type RehearseOptions } from './run-options.ts';

/** How a run talks to whoever started it. */
export interface RunPlan {
  readonly emit: Emit;
  /** Gets each statement that safemigrate itself sends. */
  readonly audit: Audit;
  /** Ends the run. */
  readonly signal: AbortSignal;
}

/** Everything that a rehearsal goes by, with every default filled in. Each step gets the part that it needs. */
export interface RehearsalPlan extends RunPlan {
  readonly target: TargetPlan;
  readonly command: CommandPlan;
  readonly clone: ClonePlan;
  readonly proxy: ProxyPlan;
  readonly checks: ChecksPlan;
  readonly profile: ProfilePlan;
  /** null: no run under load. */
  readonly load: LoadPlan | null;
  readonly policy: Policy;
  readonly receipt: ReceiptPlan;
  /** Leaves literals, values of rows and the name of the host out of the report. */
  readonly redact: boolean;
  /** The file for a safer form; null: none is asked for. */
  readonly propose: string | null;
  readonly proposeFormat: ProposalFormat;
  /** Changes of type, too. */
  readonly proposeAll: boolean;
  /** The file for what the command sent; null: it is not asked for. */
  readonly script: string | null;
}

export interface TargetPlan {
  /** null: the variable, the PG* variables, or `./.env`. */
  readonly url: string | null;
  readonly urlEnv: string;
  /** A dump that takes the target's place. */
  readonly from: string | null;
}

export interface CommandPlan {
  /** Program first. */
  readonly argv: readonly string[];
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: 'inherit' | 'stderr';
  /** 0: no limit. */
  readonly timeoutMs: number;
  readonly interrupts: Interrupts;
  /** For its runs on a clone. */
  readonly sandbox: SandboxPlan;
}

export interface ClonePlan extends CloneOptions {
  readonly method: 'auto' | MethodId;
  /** Another server for the clone. */
  readonly rehearsalUrl: string | null;
  /** A standby to copy the cluster from. */
  readonly source: string | null;
  /** SQL, or names of files that hold some. */
  readonly afterClone: readonly string[];
}

export interface ProxyPlan {
  readonly observe: Observe;
  readonly listen: string;
  readonly allowClusterStatements: boolean;
}

export interface ChecksPlan {
  readonly queries: string;
  readonly check: readonly string[];
  readonly checkEmpty: readonly string[];
  readonly rerun: boolean;
  readonly rerunIgnore: readonly string[];
  /** How many times the command is started together; 0: not at all. */
  readonly atOnce: number;
  /** Shell command of the down migration. */
  readonly down: string | null;
}

export interface ProfilePlan {
  /** null: what is found is judged by the sizes of the target. */
  readonly file: string | null;
  readonly maxAgeMs: number;
}

export interface LoadPlan {
  /** Files with scripts for pgbench, `FILE.sql[@weight]`; none: the target's own transactions are played. */
  readonly scripts: readonly string[];
  /** A shell command that makes the load instead. */
  readonly command: string | null;
  /** null: as the target's, or as fast as scripts can. */
  readonly rate: number | null;
  readonly clients: number | null;
  readonly windowMs: number;
  readonly warmupMs: number;
  /** Also in the target's own server. */
  readonly here: boolean;
}

export interface ReceiptPlan {
  readonly file: string | null;
  readonly key: string | null;
}

/** Settings of which every one is there: null where there is neither a value nor a default. */
export type Filled<Settings, Defaults> = {
  readonly [K in keyof Settings & keyof Defaults]-?:
    | NonNullable<Settings[K]>
    | (null extends Defaults[K] ? null : never);
};

/** Fills in the defaults; a setting that is undefined counts as not given. */
export function fillDefaults<Settings extends object, Defaults extends object>(
  defaults: Defaults,
  settings: Settings,
): Filled<Settings, Defaults> {
  const given = new Map(Object.entries(settings));
  const filled = Object.entries(defaults).map(([key, value]) => [key, given.get(key) ?? value]);
  return Object.fromEntries(filled) as Filled<Settings, Defaults>;
}

/** @throws SafemigrateError `CONFIGURATION` for options that do not fit together. */
export function makeRehearsalPlan(options: RehearseOptions): RehearsalPlan {
  const settings = fillDefaults<RehearsalSettings, typeof REHEARSAL_DEFAULTS>(REHEARSAL_DEFAULTS, options);
  const { url, urlEnv, from, observe, proxyListen: listen, allowClusterStatements } = settings;
  const {
    queries,
    check,
    checkEmpty,
    rerun,
    rerunIgnore,
    atOnce,
    down,
    receipt: file,
    receiptKey: key,
    redact,
    propose,
    proposeFormat,
    proposeAll,
    script,
  } = settings;
  if ((proposeFormat !== 'plain' || proposeAll) && propose === null)
    throw new SafemigrateError('CONFIGURATION', '--propose-format and --propose-all need --propose.', {
      hint: 'Name what is to be written with --propose. Nothing was touched.',
    });
  const folder = options.folder ?? process.cwd();
  return {
    ...makeRunPlan(options),
    target: { url, urlEnv, from },
    command: {
      argv: options.command,
      folder,
      env: options.env ?? process.env,
      stdout: options.commandStdout ?? 'inherit',
      timeoutMs: settings.timeoutMs,
      interrupts: options.interrupts ?? new EventEmitter(),
      sandbox: makeSandboxPlan(settings, { argv: options.command, folder }),
    },
    clone: makeClonePlan(settings, options),
    proxy: { observe, listen, allowClusterStatements },
    checks: { queries, check, checkEmpty, rerun, rerunIgnore, atOnce, down },
    profile: { file: settings.profile, maxAgeMs: settings.profileMaxAgeMs },
    load: makeLoadPlan(settings),
    policy: makePolicy(options.policy),
    receipt: { file, key },
    redact,
    propose,
    proposeFormat,
    proposeAll,
    script,
  };
}

function makeLoadPlan({
  load,
  loadCommand: command,
  loadRate: rate,
  loadClients: clients,
  loadWindowMs: windowMs,
  loadWarmupMs: warmupMs,
  loadHere: here,
}: Filled<RehearsalSettings, typeof REHEARSAL_DEFAULTS>): LoadPlan | null {
  if (load.length === 0 && command === null) return null;
  const scripts = load.filter((what) => what !== 'shapes');
  const isMixed = scripts.length > 0 && scripts.length < load.length;
  if (!isMixed && (load.length === 0 || command === null))
    return { scripts, command, rate, clients, windowMs, warmupMs, here };
  throw new SafemigrateError(
    'CONFIGURATION',
    '--load shapes, --load FILE.sql and --load-command do not go together.',
    {
      hint: 'Play what the target does, or scripts, or a command of your own. Nothing was touched.',
    },
  );
}

const ELSEWHERE = '--proxy-listen is for a command in a container, which has a network of its own';

function makeSandboxPlan(
  { sandbox: mode, sandboxAllow, proxyListen }: Filled<RehearsalSettings, typeof REHEARSAL_DEFAULTS>,
  command: Pick<CommandPlan, 'argv' | 'folder'>,
): SandboxPlan {
  const allow = parseAllowedPlaces(sandboxAllow);
  const isElsewhere = proxyListen !== REHEARSAL_DEFAULTS.proxyListen;
  if (mode === 'required' && isElsewhere)
    throw new SafemigrateError(
      'CONFIGURATION',
      '--sandbox required and --proxy-listen do not go together: a sandboxed command reaches no other address.',
      { hint: 'A command in a container has a network of its own: isolate it there. Nothing was touched.' },
    );
  if (mode !== 'off' && !isElsewhere) refuseOutsideRunners(command, allow);
  return { mode, allow, onlyWatched: isElsewhere ? ELSEWHERE : null };
}

export function makeRunPlan({ emit, audit, signal }: Partial<RunPlan>): RunPlan {
  return { emit: emit ?? ignore, audit: audit ?? ignore, signal: signal ?? new AbortController().signal };
}

function makePolicy(given: Partial<Policy> = {}): Policy {
  const defined = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...DEFAULT_POLICY, ...Object.fromEntries(defined) };
}

function makeClonePlan(
  settings: Filled<RehearsalSettings, typeof REHEARSAL_DEFAULTS>,
  given: RehearsalSettings,
): ClonePlan {
  const { cloneCreate: create, cloneDestroy: destroy, cloneDir: folder, cloneTtlMs: ttlMs } = settings;
  if ((create === null) !== (destroy === null)) throw halfOfAPair();
  const { disconnect, waitMs, maxStallMs, maxCopyBytes, checkpoint, schemaOnly, excludeTableData } = settings;
  const { databases, allowExternalAccess, keep, rehearsalUrl, source, afterClone } = settings;
  return {
    // No session is at work on a server that was made for this run.
    method: given.clone ?? (settings.from === null ? settings.clone : 'template'),
    disconnect,
    waitMs,
    maxStallMs,
    maxCopyBytes,
    ttlMs,
    checkpoint,
    folder,
    schemaOnly,
    excludeTableData,
    databases,
    allowExternalAccess,
    keep,
    rehearsalUrl,
    source,
    afterClone,
    at: makePointInTime(settings),
    external: create === null || destroy === null ? null : { create, destroy },
  };
}

function makePointInTime({
  cloneAt: time,
  baseBackup,
  restoreCommand,
  clone,
  from,
  receipt,
}: Filled<RehearsalSettings, typeof REHEARSAL_DEFAULTS>): ClonePlan['at'] {
  if (time === null && baseBackup === null && restoreCommand === null) return null;
  // What holds for other data must not permit an apply.
  if (time !== null && baseBackup !== null && clone === 'auto' && from === null && receipt === null)
    return { time, baseBackup, restoreCommand };
  throw new SafemigrateError(
    'CONFIGURATION',
    '--clone-at needs --base-backup, and goes with none of --clone, --from and --receipt.',
    {
      hint: 'safemigrate --clone-at latest --base-backup DIR [--restore-command COMMAND] -- <command>. Nothing was touched.',
    },
  );
}

/** For plans of what changes the target. @throws SafemigrateError `CONFIGURATION` for a rehearsal as of another time */
export function asOfNow(plan: RehearsalPlan): RehearsalPlan {
  if (plan.clone.at === null) return plan;
  throw new SafemigrateError(
    'CONFIGURATION',
    'An apply or a swap needs a rehearsal on the target as it is now, and --clone-at names another time.',
    { hint: 'Leave --clone-at (SAFEMIGRATE_CLONE_AT, cloneAt) out. Nothing was touched.' },
  );
}

function halfOfAPair(): SafemigrateError {
  return new SafemigrateError(
    'CONFIGURATION',
    '--clone-create and --clone-destroy (cloneCreate and cloneDestroy in a program) go together.',
    { hint: 'Give both: what is made elsewhere has to be removed there. Nothing was touched.' },
  );
}

export function ignore(): void {}
