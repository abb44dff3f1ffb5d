import { EventEmitter } from 'node:events';
import type { Clone, CloneContext, CloneLimits, CloneWishes } from '../clone/method.ts';
import type { Logins, Rewritten } from '../command/rewrite.ts';
import { hasTerminal, type RunOptions } from '../command/run-command.ts';
import { SafemigrateError } from '../errors.ts';
import type { RehearsalGate, RehearsalGateOptions } from '../observe/clone-boundary/rehearsal-gate.ts';
import type { CommandWatchOptions } from '../observe/command-watch.ts';
import type { WatchOptions } from '../observe/target-state.ts';
import type { Stop } from '../stop.ts';
import { REHEARSAL_DEFAULTS, type RehearseOptions } from './run-options.ts';

export function limitsOf(options: RehearseOptions): CloneLimits {
  const {
    disconnect,
    waitMs,
    maxStallMs,
    cloneTtlMs: ttlMs,
    maxCopyBytes,
  } = { ...REHEARSAL_DEFAULTS, ...options };
  return { disconnect, waitMs, maxStallMs, ttlMs, maxCopyBytes };
}

export function wishesOf(options: RehearseOptions): CloneWishes {
  const { checkpoint, schemaOnly, excludeTableData, allowExternalAccess, keep } = {
    ...REHEARSAL_DEFAULTS,
    ...options,
  };
  const { cloneDir: folder, cloneCreate: create, cloneDestroy: destroy } = options;
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
    allow: options.allowClusterStatements ?? REHEARSAL_DEFAULTS.allowClusterStatements,
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
  options: RehearseOptions,
): CommandWatchOptions {
  const { emit } = context;
  return {
    logins,
    clone: clone.connect,
    sharesRoles: clone.sharesRoles,
    cloneOid: clone.oid,
    guard,
    observe: options.observe ?? REHEARSAL_DEFAULTS.observe,
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
