import type { ExternalAccessGate } from '../boundary/external-access-gate.ts';
import type { RehearsalGate } from '../boundary/rehearsal-gate.ts';
import type { Clone, CloneContext } from '../clone/method.ts';
import { placeConfigCopies } from '../command/config-files.ts';
import {
  type CommandInput,
  commandByAddress,
  type Logins,
  type Rewritten,
  type Route,
  rewriteCommand,
} from '../command/rewrite.ts';
import { type CommandResult, hasTerminal, type RunOptions } from '../command/run-command.ts';
import type { CommandSandbox } from '../command/sandbox/command-sandbox.ts';
import { coverWords, keptEnvironment, restoringWords } from '../command/sandbox/sandbox-words.ts';
import { type OpenSandbox, openSandbox } from '../command/sandbox/sandboxed-command.ts';
import { restrictedWords } from '../command/sandbox/try-sandbox.ts';
import { inPhase } from '../events.ts';
import type { DuringSection, StatementSection } from '../model/report.ts';
import { type CommandWatch, type CommandWatchOptions, watchCommand } from '../observe/command-watch.ts';
import { runWatched } from '../proof/contact.ts';
import type { Contacts } from '../proof/new-sessions.ts';
import type { Gate, Observer } from '../proxy/observed.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import { openAccessGate, openGate } from './open-gate.ts';
import type { CommandPlan, ProxyPlan, RehearsalPlan } from './plan.ts';
import type { Lifetime } from './with-scope.ts';

/** A command, and where it knows the target from. */
export interface LocatedCommand {
  readonly input: CommandInput;
  readonly logins: Logins;
}

/** A clone, and what it takes to run commands on it and to read it. */
export interface CloneSetup {
  readonly life: Lifetime;
  readonly plan: RehearsalPlan;
  readonly context: CloneContext;
  readonly clone: Clone;
  readonly schema: SchemaWatch;
  readonly sandbox: CommandSandbox;
}

/** The open way from a command to the clone. */
export interface OpenWire {
  readonly gate: RehearsalGate;
  /** Keeps the clone from access to other systems; null if its sandbox does, or if that is allowed. */
  readonly accessGate: ExternalAccessGate | null;
  readonly wire: CommandWatch;
  /** null if the command runs outside of one. */
  readonly sandbox: OpenSandbox | null;
  readonly settings: CommandPlan;
}

/** One run of a command on the clone. */
export interface CloneRun extends OpenWire, Contacts {
  readonly rewritten: Rewritten;
  readonly result: CommandResult;
}

/**
 * Opens the way to a clone of a command that is guarded as an apply is. `statements`, those of the run without load, are the ones
 * that it may send. `happened` returns the actions of the guardrails, all of them when the command has ended.
 */
export type OpenGuarded = (
  setup: CloneSetup,
  command: LocatedCommand,
  run: { readonly statements: readonly StatementSection[]; readonly observer: Observer },
) => Promise<OpenWire & { happened(): DuringSection | null }>;

interface WireOptions {
  readonly gate?: RehearsalGate;
  readonly inside?: OpenSandbox | null;
  /** Default: the plan's, but that standard output is that of the first run alone. */
  readonly settings?: Partial<
    Pick<CommandPlan, 'folder' | 'stdout' | 'timeoutMs' | 'interrupts' | 'interrupted'>
  >;
}

/**
 * Starts a proxy for one run of a command.
 * @param more.observer gets all that the proxy sees.
 * @param more.gate default: a new one.
 * @param more.inside the command's sandbox, if it was opened before.
 */
export async function openWire(
  setup: CloneSetup,
  { logins }: LocatedCommand,
  { observer, ...opened }: { readonly observer?: Observer } & WireOptions = {},
): Promise<OpenWire> {
  const { way, options } = await openWay(setup, logins, opened);
  const wire = await watchCommand(setup.life.scope, observer ? { ...options, observer } : options);
  return { ...way, wire };
}

/** Opens all of a command's way to the clone but the proxy, and returns what that needs. */
export async function openWay(
  { life: { scope }, plan: { proxy, command }, context, clone, sandbox }: CloneSetup,
  logins: Logins,
  opened: WireOptions = {},
): Promise<{ way: Omit<OpenWire, 'wire'>; options: CommandWatchOptions }> {
  const gate = opened.gate ?? (await openGate(context, clone, proxy));
  const accessGate = await openAccessGate(scope, context, clone, gate);
  const settings: CommandPlan = { ...command, stdout: 'stderr', ...opened.settings };
  const inside = opened.inside === undefined ? await openSandboxFor(scope, sandbox, settings) : opened.inside;
  const options = wireOptions(context, clone, logins, accessGate ?? gate, proxy, inside);
  return { way: { gate, accessGate, sandbox: inside, settings }, options };
}

/** Runs the migration command, in the phase of that name. */
export function runMigration(setup: CloneSetup, command: LocatedCommand, open: OpenWire): Promise<CloneRun> {
  return inPhase(setup.context.emit, 'command', () => runThroughWire(setup, command, open));
}

/** Runs a command through the proxy, which it closes, and watches the target's sessions while it runs. */
export async function runThroughWire(
  { life: { scope, stop }, context, sandbox }: CloneSetup,
  { input, logins }: LocatedCommand,
  open: OpenWire,
): Promise<CloneRun> {
  const { accessGate, wire, sandbox: opened, settings } = open;
  const rewritten = await commandFor(scope, { input, logins }, wire.routes, opened);
  const run = inSandbox(toRun(rewritten, stop, settings, wire.routes), sandbox, opened, wire.routes);
  const ran = await stop.pausedDuring(() => runWatched(run, context.control, context.target));
  await wire.end();
  await accessGate?.finish();
  return { ...open, rewritten, ...ran };
}

/** Prepares a command for its way to the clone: by the target's own address, or by rewritten words. */
export async function commandFor(
  scope: Scope,
  { input, logins }: LocatedCommand,
  routes: readonly Route[],
  sandbox: OpenSandbox | null,
): Promise<Rewritten> {
  if (sandbox?.standIn) return commandByAddress(input, logins, routes);
  return placeConfigCopies(scope, rewriteCommand(input, logins, routes));
}

/** The options of the proxy between one run of a command and the clone. */
export function wireOptions(
  context: CloneContext,
  clone: Clone,
  { logins }: Logins,
  guard: Gate,
  { observe, listen }: Pick<ProxyPlan, 'observe' | 'listen'>,
  sandbox: OpenSandbox | null,
): CommandWatchOptions {
  const { emit, options } = context;
  return {
    logins,
    clone: clone.connect,
    sharesRoles: clone.sharesRoles,
    cloneOid: clone.oid,
    serverVersionNum: context.target.server.versionNum,
    guard,
    observe,
    listen,
    listener: sandbox?.listener,
    standIn: sandbox?.standIn ?? null,
    otherDatabase: (name) => name === 'postgres' || clone.made.has(name) || options.databases.includes(name),
    connect: clone.server.open,
    emit,
  };
}

/** The options of one run of a command, whose words lead to the proxy. */
export function toRun(
  { argv, env, byAddress }: Rewritten,
  { signal }: Stop,
  { folder, stdout, timeoutMs, interrupts, interrupted }: CommandPlan,
  routes: readonly Route[],
): RunOptions {
  // By address the command may have the target's own password, which other processes have too. It ends with its sandbox anyway.
  const marker = byAddress ? undefined : routes[0]?.entry.password;
  const how = { terminal: hasTerminal(), timeoutMs, interrupts, interrupted, signal, marker };
  return { argv, env, folder, stdout, ...how };
}

/** Adds the sandbox that was opened for the run, or restricts the run and covers the sockets. */
export function inSandbox(
  run: RunOptions,
  sandbox: CommandSandbox,
  opened: OpenSandbox | null,
  routes: readonly Route[],
): RunOptions {
  if (opened || sandbox.kind === 'sandboxed') return { ...run, start: opened?.start };
  const restricted = sandbox.kind === 'restricted' ? restrict(run, sandbox, routes) : run;
  const { covered, readOnly } = sandbox;
  const covering = covered.length + readOnly.length === 0 ? undefined : coverWords(sandbox);
  if (!covering) return restricted;
  return { ...restricted, argv: [...covering, ...restoringWords(run.env), ...restricted.argv] };
}

function restrict(
  run: RunOptions,
  { by, allow }: Extract<CommandSandbox, { kind: 'restricted' }>,
  routes: readonly Route[],
): RunOptions {
  const proxy = routes.flatMap(({ entry }) => entry.hosts).map(({ port }) => port);
  const words = restrictedWords(by, [...new Set(proxy), ...allow.relays.map(({ port }) => port)]);
  const env = by === 'landlock' ? keptEnvironment(run.env) : run.env;
  return { ...run, argv: [...words, ...run.argv], env };
}

/** Opens the sandbox of one run, if the command gets one. */
export async function openSandboxFor(
  scope: Scope,
  sandbox: CommandSandbox,
  { stdout }: CommandPlan,
): Promise<OpenSandbox | null> {
  if (sandbox.kind !== 'sandboxed') return null;
  return openSandbox(scope, sandbox, { stdout, terminal: hasTerminal() });
}
