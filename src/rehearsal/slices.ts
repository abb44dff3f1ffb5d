import { writingFunction } from '../boundary/read-server-calls.ts';
import type { RehearsalGateOptions } from '../boundary/rehearsal-gate.ts';
import type { Clone, CloneContext } from '../clone/method.ts';
import type { Logins, Rewritten } from '../command/rewrite.ts';
import type { Route } from '../command/route.ts';
import { hasTerminal, type RunOptions } from '../command/run-command.ts';
import type { CommandSandbox } from '../command/sandbox/command-sandbox.ts';
import { keptEnvironment } from '../command/sandbox/restricted-words.ts';
import { coverWords, restoringWords } from '../command/sandbox/sandbox-words.ts';
import { type OpenSandbox, openSandbox } from '../command/sandbox/sandboxed-command.ts';
import { restrictedWords } from '../command/sandbox/try-sandbox.ts';
import type { CommandWatchOptions } from '../observe/command-watch.ts';
import type { WatchOptions } from '../proof/target-state.ts';
import type { Gate } from '../proxy/observed.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import type { CommandPlan, ProxyPlan } from './plan.ts';

export function guardOptions(
  { target, control }: CloneContext,
  clone: Clone,
  { allowClusterStatements }: ProxyPlan,
): RehearsalGateOptions {
  return {
    names: { target: target.database.name, clone: clone.database },
    isolation: clone.isolation,
    sandboxed: clone.containment === 'sandbox',
    allow: allowClusterStatements,
    marking: clone.marking,
    writingFunction: (names) => writingFunction(control, names),
    databases: clone.made,
    ...(clone.leftOut ? { leftOut: clone.leftOut } : {}),
  };
}

/** Whether the clone is in the target's server, so that what the command does to the one it does to the other. */
export function sharesServer({ rehearsal }: CloneContext, { isolation }: Clone): boolean {
  return isolation === 'same-cluster' && !rehearsal;
}

/** Reads the target without the signal that ends the run: the command may have done harm, whatever happened since. */
export function uninterrupted({ target, control, run, audit }: CloneContext): WatchOptions {
  return { target, control, run, audit };
}

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
    otherDatabase: (name) => name === 'postgres' || clone.made.has(name) || options.databases.includes(name),
    connect: clone.server.open,
    emit,
  };
}

export function toRun(
  { argv, env }: Rewritten,
  { signal }: Stop,
  { folder, stdout, timeoutMs, interrupts }: CommandPlan,
  routes: readonly Route[],
): RunOptions {
  const marker = routes[0]?.entry.password;
  return { argv, env, folder, stdout, terminal: hasTerminal(), timeoutMs, interrupts, signal, marker };
}

/** The run in the sandbox that was opened for it, or restricted and with the sockets covered. */
export function inSandbox(
  run: RunOptions,
  sandbox: CommandSandbox,
  opened: OpenSandbox | null,
  routes: readonly Route[],
): RunOptions {
  if (opened || sandbox.kind === 'sandboxed') return { ...run, start: opened?.start };
  const restricted = sandbox.kind === 'restricted' ? restrict(run, sandbox, routes) : run;
  const covering = sandbox.covered.length === 0 ? undefined : coverWords(sandbox.covered);
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
