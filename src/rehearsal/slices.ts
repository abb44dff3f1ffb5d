import type { Clone, CloneContext } from '../clone/method.ts';
import type { Logins, Rewritten } from '../command/rewrite.ts';
import { hasTerminal, type RunOptions } from '../command/run-command.ts';
import type { RehearsalGate, RehearsalGateOptions } from '../observe/clone-boundary/rehearsal-gate.ts';
import type { CommandWatchOptions } from '../observe/command-watch.ts';
import type { WatchOptions } from '../observe/target-state.ts';
import type { Stop } from '../stop.ts';
import type { CommandPlan, ProxyPlan } from './plan.ts';

export function guardOptions(
  { target }: CloneContext,
  clone: Clone,
  { allowClusterStatements }: ProxyPlan,
): RehearsalGateOptions {
  return {
    names: { target: target.database.name, clone: clone.database },
    isolation: clone.isolation,
    allow: allowClusterStatements,
    marking: clone.marking,
    databases: clone.made,
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
  guard: RehearsalGate,
  { observe, listen }: Pick<ProxyPlan, 'observe' | 'listen'>,
): CommandWatchOptions {
  const { emit } = context;
  return {
    logins,
    clone: clone.connect,
    sharesRoles: clone.sharesRoles,
    cloneOid: clone.oid,
    guard,
    observe,
    listen,
    otherDatabase: (name) => name === 'postgres' || clone.made.has(name),
    connect: clone.server.open,
    emit,
  };
}

export function toRun(
  { argv, env }: Rewritten,
  { signal }: Stop,
  { folder, stdout, timeoutMs, interrupts }: CommandPlan,
): RunOptions {
  return { argv, env, folder, stdout, terminal: hasTerminal(), timeoutMs, interrupts, signal };
}
