import type { Clone } from '../clone/method.ts';
import { inClone, openInClone } from '../clone/own-sessions.ts';
import { NO_LIMIT_MS } from '../clone/template/assess-template.ts';
import { preparedTransactions } from '../database/activity.ts';
import { messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import { inPhase } from '../events.ts';
import { plural } from '../format.ts';
import { watchCommand } from '../observe/command-watch.ts';
import { dropOwnedDatabase } from '../ownership/drop.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { formatUrl } from '../postgres/connection/connection-url.ts';
import type { Session } from '../postgres/connection/session.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { runWatched } from '../proof/contact.ts';
import { openGate } from '../rehearsal/open-gate.ts';
import type { CommandPlan } from '../rehearsal/plan.ts';
import type { RehearsalContext } from '../rehearsal/prepare.ts';
import { commandFor, inSandbox, openSandboxFor, toRun, wireOptions } from '../rehearsal/run-on-clone.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import {
  type ClusterProperties,
  differingProperties,
  readClusterProperties,
  rowsOfAnalyze,
  rowsWritten,
  waitForCounters,
} from './database-state.ts';
import { closeDatabase } from './fence.ts';
import type { Successor } from './maintenance-window.ts';

import type { SwapPlan } from './swap-plan.ts';
import { swapFailure } from './swap-section.ts';

/**
 * How the successor is cloned: from the target itself, wherever the rehearsal took place. The closed target has no sessions to
 * wait for, and --limit closed limits the whole window.
 */
export const FOR_SUCCESSOR = {
  method: 'template',
  rehearsalUrl: null,
  disconnect: 'never',
  waitMs: 1_000,
  maxStallMs: NO_LIMIT_MS,
} as const;

/** Clones the closed target. */
export function cloneTarget({ context, choice }: RehearsalContext, scope: Scope): Promise<Clone> {
  return inPhase(context.emit, 'clone', () => choice.method.create(context, choice.assessment, scope));
}

/** @throws SafemigrateError `REFUSED` if the clone lacks a property that the cluster's catalogs hold of the target. */
export function requireSame(
  target: ClusterProperties,
  clone: ClusterProperties,
  { notCarried }: Clone,
): void {
  const differing = differingProperties(target, clone);
  if (differing.length === 0) return;
  const why = notCarried.map(({ property, reason }) => `${property}: ${reason}`).join('; ');
  throw swapFailure(
    `the clone differs from the target in ${differing.join(', ')} (pg_database)${why && `: ${why}`}`,
  );
}

/** Runs the command on the clone. @throws SafemigrateError `REFUSED` if it fails or bypasses the clone; `INTERRUPTED`. */
export async function migrateClone(
  { context, sandbox, command: { logins, input } }: RehearsalContext,
  clone: Clone,
  { scope, stop }: { readonly scope: Scope; readonly stop: Stop },
  plan: SwapPlan,
): Promise<void> {
  const gate = await openGate(context, clone, plan.proxy);
  const opened = await openSandboxFor(scope, sandbox, plan.command);
  const proxy = await watchCommand(
    scope,
    wireOptions(context, clone, logins, gate, { ...plan.proxy, observe: 'off' }, opened),
  );
  const rewritten = await commandFor(scope, { input, logins }, proxy.routes, opened);
  const run = inSandbox(toRun(rewritten, stop, plan.command, proxy.routes), sandbox, opened, proxy.routes);
  const { result, targetConnections } = await inPhase(context.emit, 'command', () =>
    stop.pausedDuring(() => runWatched(run, context.control, context.target)),
  );
  await proxy.end();
  // The run may have ended while the command was running: by --limit closed, a lost connection, or Ctrl-C, which the command may
  // have ignored.
  stop.signal.throwIfAborted();
  if (plan.signal.aborted) throw new SafemigrateError('INTERRUPTED', 'Interrupted.');
  if (targetConnections.length > 0) throw swapFailure('the command connected to the target itself');
  if (result.exitCode === 0 && !proxy.reached())
    throw swapFailure('the command never connected to the clone');
  if (result.exitCode !== 0)
    throw swapFailure(
      `the command ended with ${result.signal ?? `exit code ${result.exitCode}`}, although it passed in the rehearsal`,
    );
}

// The query resolves names and has time as in the user's own sessions.
const OWN_SETTINGS = 'RESET search_path';

/**
 * Verifies the migrated clone by the user's --verify: SQL, which must return rows, each with a first value that is neither null
 * nor false, or a shell command, which gets the clone as DATABASE_URL and must exit with 0.
 * @throws SafemigrateError `REFUSED` if the verification fails.
 */
export async function verifyClone(
  { context }: RehearsalContext,
  clone: Clone,
  verify: string,
  command: CommandPlan,
): Promise<void> {
  if ((await parseText(Buffer.from(verify))) === null)
    return verifyByCommand(verify, clone, command, context.signal);
  const session = await openInClone({ clone, context }, { purpose: 'verify', statementTimeoutMs: 0 });
  try {
    await session.query(OWN_SETTINGS);
    const rows = await session.query(verify);
    const wrong = rows.filter((row) => [null, false, undefined].includes(Object.values(row)[0] as null));
    if (rows.length === 0 || wrong.length > 0)
      throw rejected(rows.length === 0 ? 'it returned no row' : 'it returned false or null');
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    throw sqlstate === undefined ? error : rejected(`${messageOf(error)} (SQLSTATE ${sqlstate})`);
  } finally {
    await session.close();
  }
}

async function verifyByCommand(
  verify: string,
  { connect }: Clone,
  { env, folder }: CommandPlan,
  signal: AbortSignal,
): Promise<void> {
  const { execa } = await import('execa');
  const result = await execa('sh', ['-c', verify], {
    cwd: folder,
    env: { ...env, DATABASE_URL: formatUrl(connect) },
    extendEnv: false,
    stdin: 'ignore',
    stdout: 2,
    stderr: 'inherit',
    reject: false,
    cancelSignal: signal,
  });
  signal.throwIfAborted();
  if (result.exitCode !== 0)
    throw rejected(`it ended with ${result.signal ?? `exit code ${result.exitCode}`}`);
}

function rejected(why: string): SafemigrateError {
  return new SafemigrateError('REFUSED', `--verify rejected the migrated clone: ${why}.`, {
    hint: 'Everything was undone: the target is open and unchanged.',
  });
}

/**
 * Checks that the migrated clone can be closed, and drops the databases that the command created beside it.
 * @throws SafemigrateError `REFUSED` if the command left prepared transactions.
 */
export async function requireSealable({ context }: RehearsalContext, clone: Clone): Promise<void> {
  const { control, target, run, audit } = context;
  const prepared = await preparedTransactions(control, clone.database);
  if (prepared.length > 0)
    throw swapFailure(
      `the command leaves ${plural(prepared.length, 'prepared transaction')} (${prepared.map(({ gid }) => gid).join(', ')}), whose locks and rows would have no owner; let it COMMIT PREPARED or ROLLBACK PREPARED`,
    );
  const enter = (name: string) =>
    openSession(target.settings, { database: name, run, audit, purpose: 'cleanup' });
  for (const name of clone.made.names)
    await dropOwnedDatabase(control, { name, run, oid: undefined, role: 'made', ownRun: true, enter });
}

/**
 * Makes the migrated clone ready for the target's name: closes it, and checks that the target's own properties were not changed in
 * the meantime.
 */
export async function sealClone(
  prepared: RehearsalContext,
  clone: Clone,
  targetBefore: ClusterProperties,
): Promise<Pick<Successor, 'fence' | 'written'>> {
  const { context } = prepared;
  const { control, target, signal } = context;
  const { database, oid } = clone;
  await requireSealable(prepared, clone);
  const ofAnalyze = await inClone({ clone, context }, rowsOfAnalyze, { purpose: 'counters' });
  const fence = await closeDatabase(control, { database, oid }, null, signal);
  await requireSameTarget(control, target.database.oid, targetBefore);
  await waitForCounters(target.server.versionNum);
  return { fence, written: await rowsWritten(control, oid, ofAnalyze) };
}

/** @throws SafemigrateError `REFUSED` if the target's own properties were changed. */
export async function requireSameTarget(
  control: Session,
  oid: number,
  before: ClusterProperties,
): Promise<void> {
  const changed = differingProperties(before, await readClusterProperties(control, oid));
  if (changed.length > 0) throw swapFailure(`the target was changed in the meantime: ${changed.join(', ')}`);
}
