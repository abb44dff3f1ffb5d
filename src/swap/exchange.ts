import type { Clone } from '../clone/method.ts';
import { NO_LIMIT_MS } from '../clone/template/stall.ts';
import { rewriteCommand } from '../command/rewrite.ts';
import { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import type { SwapSection } from '../model/report.ts';
import { RehearsalGate } from '../observe/clone-boundary/rehearsal-gate.ts';
import { watchCommand } from '../observe/command-watch.ts';
import { runWatched } from '../observe/contact.ts';
import { type TargetState, targetChangesBetween } from '../observe/target-state.ts';
import { dropOwnedDatabase } from '../ownership/drop.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { parseSettings } from '../postgres/connection/connection-url.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import type { RehearsalContext } from '../rehearsal/prepare.ts';
import { guardOptions, toRun, wireOptions } from '../rehearsal/slices.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import { type ClusterProperties, differingProperties, readClusterProperties } from './equal.ts';
import { closeDatabase } from './fence.ts';
import { type Successor, undone, whileClosed } from './maintenance-window.ts';
import { LOCK_MS } from './open-again.ts';
import { swapObstacles } from './preflight.ts';
import type { SwapOptions } from './swap-options.ts';
import { verifyClone } from './verify.ts';
import { countersArrive, rowsOfAnalyze, rowsWritten } from './writes.ts';

/** The closed target has no sessions to wait for, and nobody else waits longer for the clone than for the whole. */
export const FOR_EXCHANGE = {
  clone: 'template',
  disconnect: 'never',
  waitMs: 1_000,
  maxStallMs: NO_LIMIT_MS,
} as const;

/** Everything that stands against it before the target is closed. */
export async function swapObjections(
  { context, stateBefore }: RehearsalContext,
  rehearsed: TargetState,
  { allowStandbys = false }: SwapOptions,
): Promise<string[]> {
  const found = await swapObstacles(context.control, context.target, {
    standbysAreTakenCareOf: allowStandbys,
  });
  const changed = targetChangesBetween(rehearsed, stateBefore);
  return [
    ...found.map(({ reason, wayOut }) => `${reason}: ${wayOut}`),
    ...changed.map((what) => `the target changed since it was rehearsed on: ${what}; run it again`),
  ];
}

export function refusedSwap(reasons: string[]): SwapSection {
  return {
    outcome: 'refused',
    reasons,
    original: null,
    keepUntil: null,
    stallMs: null,
    sessionsEnded: 0,
    steps: [],
  };
}

interface Life {
  readonly scope: Scope;
  readonly stop: Stop;
}

/** The swap itself: a clone of the closed target, migrated, takes its place. */
export async function exchangeTarget(
  prepared: RehearsalContext,
  life: Life,
  options: SwapOptions,
): Promise<SwapSection> {
  const { context, choice, settings } = prepared;
  const { maxClosedMs = Number.POSITIVE_INFINITY, pgbouncer = [], keepOriginalMs } = options;
  const around = readEnvironment(options.env ?? process.env, options.folder ?? process.cwd());
  const consoles = pgbouncer.map((url) => parseSettings(url, around));
  const closing = {
    maxClosedMs,
    pgbouncer: consoles,
    ...(keepOriginalMs === undefined ? {} : { keepOriginalMs }),
  };
  return whileClosed({ ...context, settings }, life.scope, closing, async (_, comment, timed) => {
    const { control, target } = context;
    const before = await readClusterProperties(control, target.database.oid);
    const clone = await timed('clone', () =>
      inPhase(context.emit, 'clone', () => choice.method.create(context, choice.assessment, life.scope)),
    );
    const lacking = differingProperties(before, await readClusterProperties(control, clone.oid));
    if (lacking.length > 0) throw undone(lacksThese(lacking, clone));
    await timed('migrate', () => migrate(prepared, clone, life, options));
    const { verify } = options;
    if (verify !== undefined) await timed('verify', () => agree(verify, prepared, clone, options));
    return { ...(await ready(prepared, clone, before)), comment };
  });
}

async function migrate(
  { context, command: { logins, input } }: RehearsalContext,
  clone: Clone,
  { scope, stop }: Life,
  options: SwapOptions,
): Promise<void> {
  const guard = new RehearsalGate(guardOptions(context, clone, options));
  const wired = wireOptions(context, clone, logins, guard, { ...options, observe: 'off' });
  const wire = await watchCommand(scope, wired);
  const rewritten = rewriteCommand(input, logins, wire.routes);
  const { result, targetConnections } = await inPhase(context.emit, 'command', () =>
    stop.pausedDuring(() => runWatched(toRun(rewritten, stop, options), context)),
  );
  await wire.end();
  // What ended the run while the command was at work: its time, a loss, or a person, whom the command may not have minded.
  stop.signal.throwIfAborted();
  if (options.signal?.aborted)
    throw new SafemigrateError('INTERRUPTED', 'Interrupted. The target is open, and as it was.');
  if (targetConnections.length > 0) throw undone('the command connected to the target itself');
  if (result.exitCode === 0 && !wire.reached()) throw undone('the command never connected to the clone');
  if (result.exitCode !== 0)
    throw undone(
      `the command ended with ${result.signal ?? `exit code ${result.exitCode}`}, although it passed before`,
    );
}

async function agree(
  verify: string,
  { context: { run, audit, signal } }: RehearsalContext,
  clone: Clone,
  options: SwapOptions,
): Promise<void> {
  const place = {
    settings: clone.connect,
    open: () => openSession(clone.connect, { run, audit, signal, purpose: 'verify', readOnly: true }),
  };
  const { env = process.env, folder = process.cwd() } = options;
  await verifyClone(verify, place, { env, folder, signal });
}

function lacksThese(properties: readonly string[], { notCarried }: Clone): string {
  const why = notCarried.map(({ property, reason }) => `${property}: ${reason}`).join('; ');
  return `the clone differs from the target in ${properties.join(', ')} (pg_database)${why && `: ${why}`}`;
}

/** Removes what the command made beside the clone, empties the clone, and sees that the target is what it was. */
async function ready(
  { context }: RehearsalContext,
  clone: Clone,
  before: ClusterProperties,
): Promise<Pick<Successor, 'fence' | 'written'>> {
  const { control, target, signal, run, audit } = context;
  const { database, oid } = clone;
  const inside = await openSession(clone.connect, {
    run,
    audit,
    signal,
    purpose: 'counters',
    readOnly: true,
  });
  const ofAnalyze = await rowsOfAnalyze(inside).finally(() => inside.close());
  const enter = (name: string) =>
    openSession(target.settings, { database: name, run, audit, purpose: 'cleanup' });
  for (const name of clone.made.names)
    await dropOwnedDatabase(control, { name, run, oid: undefined, role: 'made', ownRun: true, enter });
  const fence = await closeDatabase(control, { database, oid, timeoutMs: LOCK_MS, signal });
  const changed = differingProperties(before, await readClusterProperties(control, target.database.oid));
  if (changed.length > 0) throw undone(`somebody changed the target meanwhile: ${changed.join(', ')}`);
  await countersArrive(target.server.versionNum);
  return { fence, written: await rowsWritten(control, oid, ofAnalyze) };
}
