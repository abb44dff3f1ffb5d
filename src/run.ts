import { EventEmitter } from 'node:events';
import { type Choice, chooseMethod } from './clone/choose.ts';
import type { Clone, CloneContext, CloneLimits, CloneMethod } from './clone/method.ts';
import { cloneSection } from './clone/section.ts';
import { resolveCommand } from './command/resolve.ts';
import {
  type CommandInput,
  findLogins,
  type Logins,
  type Rewritten,
  rewriteCommand,
} from './command/rewrite.ts';
import { hasTerminal, type Interrupts, type RunOptions } from './command/run-command.ts';
import { comparer } from './command/same-target.ts';
import { withoutSecrets } from './command/secrets.ts';
import { commandSection } from './command/section.ts';
import { type Emit, inPhase } from './events.ts';
import { judge } from './judge/verdict.ts';
import { watchClone } from './observe/clone-watch.ts';
import { type CommandWatchOptions, watchCommand } from './observe/command-watch.ts';
import { runWatched } from './observe/contact.ts';
import { Guard, type GuardOptions } from './observe/guard.ts';
import { explainLoss } from './observe/loss.ts';
import { compareTarget, readTargetState, type TargetState } from './observe/target-watch.ts';
import type { Report } from './report/model.ts';
import { openSchemaWatch, type SchemaWatch } from './schema/watch.ts';
import { type Cleanup, Scope } from './scope.ts';
import { Stop } from './stop.ts';
import { inspectTarget } from './target/inspect.ts';
import { DEFAULT_URL_VARIABLE, locateTarget } from './target/locate.ts';
import { targetSection } from './target/section.ts';
import type { Audit, AuditEntry } from './target/session.ts';
import { surroundings } from './target/surroundings.ts';
import { claimRun, lostControl, openMaintenanceSession } from './upkeep/claim.ts';
import type { RunId } from './upkeep/run-id.ts';
import { toolVersion } from './version.ts';
import type { Observe } from './wire/observed.ts';

export interface RehearseOptions {
  /** The migration command, program first. */
  readonly command: readonly string[];
  /** Where the target is; default: the variable, the PG* variables, `./.env`, in this order. */
  readonly url?: string;
  /** Default `DATABASE_URL`. */
  readonly urlEnv?: string;
  readonly clone?: 'auto' | CloneMethod['id'];
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
   * How the command's statements are looked at: `exact` holds each one's end back until its locks are read, `sampled`
   * lets everything pass as it comes, `off` does not look. Default `exact`.
   */
  readonly observe?: Observe;
  /** Lets statements through whose effect reaches beyond the clone (roles, the server). Default false. */
  readonly allowClusterStatements?: boolean;
  /** Leaves literals and values of rows out of the report's statements and errors. Default false. */
  readonly redact?: boolean;
  /** The address that the command connects to, for one that runs in a container. Default 127.0.0.1. */
  readonly proxyListen?: string;
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

/**
 * Rehearses a migration command on a clone of its target, and cleans up in every ending.
 * @throws SafemigrateError when there is nothing to report on: the command was never started, or the server was lost.
 */
export async function rehearse(options: RehearseOptions): Promise<Report> {
  const startedAt = new Date();
  const { result, cleanup } = await withScope(options, (scope, stop) => rehearseWithin(scope, stop, options));
  const { run, ...sections } = result;
  return {
    version: 1,
    run: {
      id: run,
      startedAt: startedAt.toISOString(),
      finishedAt: new Date().toISOString(),
      mode: 'rehearse',
      tool: { name: 'safemigrate', version: toolVersion() },
    },
    ...sections,
    cleanup,
  };
}

type Sections = Omit<Report, 'version' | 'run' | 'cleanup'> & { readonly run: RunId };

async function rehearseWithin(scope: Scope, stop: Stop, options: RehearseOptions): Promise<Sections> {
  const { emit = ignore, keep = false } = options;
  const schema = await startSchemaReader(scope, options);
  const { context, choice, stateBefore, logins, input } = await prepare(scope, stop, options);
  const { signal: _, ...ending } = context;
  const clone = await inPhase(emit, 'clone', () => choice.method.create(context, choice.assessment, scope));
  const watch = watchClone(clone, { ...context, schema });
  await inPhase(emit, 'before', () => watch.before());

  const guard = new Guard(guardOptions(context, clone, options));
  const wire = await watchCommand(scope, wireOptions(context, clone, logins, guard, options));
  const rewritten = rewriteCommand(input, logins, wire.routes);
  const { result, contact, limits } = await inPhase(emit, 'command', () =>
    stop.pausedDuring(() => runWatched(toRun(rewritten, stop, options), context)),
  );

  await wire.end();
  // The command may have done harm: whatever happens from here on, the target is looked at.
  if (stop.lost) throw await explainLoss(stop.lost, { ...ending, before: stateBefore });
  const observed = await inPhase(emit, 'after', () => watch.after(wire.lockedRelations(), options.signal));
  const seen = await wire.statements(observed.names, observed.data);
  const compared = await compareTarget(ending, {
    before: stateBefore,
    reachedClone: wire.reached(),
    madeDatabases: seen.statements.some(({ tag }) => tag === 'CREATE DATABASE' || tag === 'DROP DATABASE'),
    ownDatabases: clone.made.names,
    contact,
    cloneChanges: observed.schema?.changes ?? [],
    describeTarget: () => schema.describe(context.target.settings),
  });
  if (keep) await clone.keep();

  const command = commandSection(
    withoutSecrets(options.command, logins.logins),
    rewritten,
    result,
    {
      reachedClone: wire.reached(),
      refused: guard.refused,
      allowed: guard.allowed,
      redirected: guard.redirected,
    },
    seen.statements,
  );
  const target = targetSection(context.target, compared.changes, clone.touched);
  const made = cloneSection(clone, observed.sizeBytes, keep);
  const interrupted = options.signal?.aborted ?? false;
  return {
    ...NOT_YET,
    run: context.run,
    target,
    clone: made.clone,
    command,
    statements: seen.statements,
    transactions: seen.transactions,
    schema: observed.schema,
    data: observed.data,
    contact,
    limits: [...made.limits, ...seen.limits, ...observed.limits, ...limits, ...compared.limits],
    verdict: judge({ command, target, contact, schema: observed.schema, interrupted }),
  };
}

/** First of all: it loads while the server is looked at. */
function startSchemaReader(scope: Scope, { audit }: RehearseOptions): Promise<SchemaWatch> {
  return scope.own(
    'schema reader',
    () => openSchemaWatch(audit),
    async (schema) => schema?.close(),
  );
}

/** Sections that later parts of the tool fill. */
const NOT_YET = {
  hazards: [],
  forecast: null,
  checks: [],
  apply: null,
  swap: null,
} satisfies Partial<Report>;

interface Prepared {
  readonly input: CommandInput;
  readonly logins: Logins;
  readonly stateBefore: TargetState;
  readonly context: CloneContext;
  readonly choice: Choice;
}

/** Everything that comes before the first statement that changes anything on the server. */
async function prepare(scope: Scope, stop: Stop, options: RehearseOptions): Promise<Prepared> {
  const { emit = ignore, audit = ignore } = options;
  const { signal } = stop;
  const around = surroundings(options.env ?? process.env, options.folder ?? process.cwd());
  const located = locateTarget(options, around);
  resolveCommand(options.command, { path: around.env.PATH ?? '', folder: around.folder });
  const target = await inPhase(emit, 'connect', () =>
    inspectTarget(located.settings, located.source, { audit, signal }),
  );
  return inPhase(emit, 'inspect', async () => {
    const urlVariable = options.urlEnv ?? DEFAULT_URL_VARIABLE;
    const input = { argv: options.command, around, target: target.settings, urlVariable };
    const claim = await claimRun(target, scope, { audit, signal });
    claim.control.onLost((reason) => stop.now(lostControl(reason)));
    const context = { target, ...claim, limits: limitsOf(options), emit, signal, audit };
    const logins = await findLogins(input, comparer(target.settings, signal));
    const stateBefore = await readTargetState(context);
    const choice = await chooseMethod(context, options.clone ?? 'auto');
    return { input, logins, stateBefore, context, choice };
  });
}

function limitsOf(options: RehearseOptions): CloneLimits {
  const { disconnect = 'never', waitMs = 10_000, maxStallMs = 5_000 } = options;
  return { disconnect, waitMs, maxStallMs };
}

function guardOptions({ target }: CloneContext, clone: Clone, options: RehearseOptions): GuardOptions {
  return {
    names: { target: target.database.name, clone: clone.database },
    allow: options.allowClusterStatements ?? false,
    marking: clone.marking,
    databases: clone.made,
  };
}

function wireOptions(
  context: CloneContext,
  clone: Clone,
  { logins }: Logins,
  guard: Guard,
  options: RehearseOptions,
): CommandWatchOptions {
  const { target, run, audit, emit } = context;
  return {
    logins,
    clone: clone.connect,
    cloneOid: clone.oid,
    guard,
    observe: options.observe ?? 'exact',
    redact: options.redact ?? false,
    ...(options.proxyListen === undefined ? {} : { listen: options.proxyListen }),
    otherDatabase: (name) => name === 'postgres' || clone.made.has(name),
    connect: (purpose) => openMaintenanceSession(target, { run, audit, purpose }),
    emit,
  };
}

function toRun(rewritten: Rewritten, stop: Stop, options: RehearseOptions): RunOptions {
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

/** Runs with a scope that is released in every ending; what could not be released is said, also when the work fails. */
async function withScope<T>(
  { signal, emit = ignore }: RehearseOptions,
  work: (scope: Scope, stop: Stop) => Promise<T>,
): Promise<{ result: T; cleanup: Cleanup }> {
  const scope = new Scope();
  const stop = new Stop(signal);
  const release = async () => {
    stop.end();
    const cleanup = await inPhase(emit, 'clean', () => scope.release());
    for (const { name, reason } of cleanup.failed) {
      emit({
        type: 'notice',
        message: `${name} could not be released: ${reason}; run \`safemigrate clean\``,
      });
    }
    return cleanup;
  };
  let result: T;
  try {
    result = await work(scope, stop);
  } catch (error) {
    await release();
    throw error;
  }
  return { result, cleanup: await release() };
}

export interface PlannedStatements {
  /** What was sent to find out the rest: it only reads. */
  readonly sent: readonly AuditEntry[];
  /** What a run would send after that, to the target's server. */
  readonly next: readonly string[];
}

/** What a rehearsal would do to the target's server. Nothing is changed: what is sent only reads. */
export async function planRehearsal(options: RehearseOptions): Promise<PlannedStatements> {
  const sent: AuditEntry[] = [];
  const audit: Audit = (entry) => {
    sent.push(entry);
    options.audit?.(entry);
  };
  const { result } = await withScope(options, async (scope, stop) => {
    const { context, choice } = await prepare(scope, stop, { ...options, audit });
    return choice.method.describe(context, choice.assessment);
  });
  return { sent, next: result };
}

function ignore(): void {}
