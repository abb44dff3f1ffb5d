import { EventEmitter } from 'node:events';
import type { Clone, CloneContext, CloneLimits, CloneWishes } from '../clone/method.ts';
import type { Logins, Rewritten } from '../command/rewrite.ts';
import { hasTerminal, type RunOptions } from '../command/run-command.ts';
import { SafemigrateError } from '../errors.ts';
import type { RehearsalGate, RehearsalGateOptions } from '../observe/clone-boundary/rehearsal-gate.ts';
import type { CommandWatchOptions } from '../observe/command-watch.ts';
import type { Stop } from '../stop.ts';
import type { RehearseOptions } from './run-options.ts';

/** What each part of a run is told of them, with what holds where nothing was said. */
export function limitsOf(options: RehearseOptions): CloneLimits {
  const { disconnect = 'never', waitMs = 10_000, maxStallMs = 5_000 } = options;
  const { cloneTtlMs: ttlMs = 6 * 3_600_000, maxCopyBytes = 10 * 2 ** 30 } = options;
  return { disconnect, waitMs, maxStallMs, ttlMs, maxCopyBytes };
}

export function wishesOf(options: RehearseOptions): CloneWishes {
  const {
    checkpoint = 'fast',
    schemaOnly = false,
    excludeTableData = [],
    allowExternalAccess = false,
  } = options;
  const { cloneDir: folder, cloneCreate: create, cloneDestroy: destroy, keep = false } = options;
  if ((create === undefined) !== (destroy === undefined)) throw halfOfAPair();
  return {
    checkpoint,
    schemaOnly,
    excludeTableData,
    allowExternalAccess,
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

export function guardOptions(
  { target }: CloneContext,
  clone: Clone,
  options: RehearseOptions,
): RehearsalGateOptions {
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
  guard: RehearsalGate,
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
