import { locateTarget } from '../database/locate.ts';
import { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import { plural } from '../format.ts';
import type { SwapSection } from '../model/report.ts';
import { type ChangeLock, withChangeLock } from '../ownership/change-lock.ts';
import { claimRun, lostControl } from '../ownership/control-session.ts';
import { type OwnedDatabase, ownedDatabases } from '../ownership/owned.ts';
import { visitOrReopen } from '../ownership/reopen.ts';
import { endWayBack, findWayBacks, type WayBack } from '../ownership/way-back.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { type Lifetime, withScope } from '../rehearsal/with-scope.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import {
  type DatabaseWrites,
  propertyDigests,
  readClusterProperties,
  rowsOfAnalyze,
  rowsWritten,
  waitForCounters,
} from './database-state.ts';
import { closeDatabase } from './fence.ts';
import type { Successor } from './maintenance-window.ts';
import { brokenWords, enter, returnWithWrites } from './online/perform-return.ts';
import { openWindow } from './open-window.ts';
import { obstacleReasons } from './preflight.ts';
import type { SwapSubject } from './rename.ts';
import type { RollbackPlan } from './swap-plan.ts';
import { refusedSwap, swapFailure } from './swap-section.ts';

/**
 * Swaps the kept original back. The newer database is kept beside it, under a name of its own.
 *
 * | step | what it leaves if the process dies right after it, and who repairs that |
 * |---|---|
 * | connect, find the original, check, confirm | nothing: the server ends our sessions |
 * | open the window, close the target | open-window.ts says it |
 * | count the writes since the swap, close the original | the target closed, as before; the original was closed already |
 * | rename | the original as the target, open; the newer database under its new name, closed and marked |
 *
 * With a way back: perform-return.ts.
 *
 * @throws SafemigrateError `REFUSED` if there is no original; `TARGET_CHANGED` if the target could not be reopened.
 */
export async function performRollback(
  plan: RollbackPlan,
): Promise<SwapSection & { readonly target: string }> {
  const { settings } = locateTarget(plan.target, readEnvironment(plan.env, plan.folder));
  const { audit, signal } = plan;
  return withChangeLock(settings, { purpose: 'rollback', audit, signal }, async (lock) => {
    const { result } = await withScope(plan, (scope, stop) => exchangeBack({ scope, stop }, plan, lock));
    return result;
  });
}

async function exchangeBack(
  { scope, stop }: Lifetime,
  plan: RollbackPlan,
  lock: ChangeLock,
): Promise<SwapSection & { readonly target: string }> {
  const subject = await connectForRollback(scope, stop, plan);
  const { target, control } = subject;
  const { name } = target.database;
  const original = await findOriginal(control, target.database, plan.run);
  const wayBack = (await findWayBacks(control)).find((each) => each.original.oid === original.oid);
  const reasons = await obstacleReasons(control, target, plan, wayBack !== undefined);
  if (reasons.length > 0) return { ...refusedSwap(reasons), target: name };
  lock.requireHeld();
  const exchange = { subject, scope };
  const returned = wayBack && (await returnIfFollowing(exchange, plan, wayBack));
  if (returned && !('stopped' in returned)) return { ...returned, target: name };
  if (returned && !plan.discardWrites)
    return { ...refusedSwap([`${returned.stopped}; ${WITHOUT_WRITES}`]), target: name };
  if (!(await plan.confirm(name, original.name)))
    return { ...refusedSwap(['it was not confirmed']), target: name };
  if (wayBack) await endWayBack(control, wayBack, (database) => enter(subject, database));
  return { ...(await returnWithoutWrites(exchange, plan, original, lock)), target: name };
}

const WITHOUT_WRITES =
  'with --discard-writes the original comes back with all rows that it has so far, and the rest is only in the newer database, which is kept';

async function returnIfFollowing(
  exchange: { readonly subject: SwapSubject; readonly scope: Scope },
  plan: RollbackPlan,
  wayBack: WayBack,
): ReturnType<typeof returnWithWrites> {
  const { control, target } = exchange.subject;
  const { original, content } = wayBack;
  const stopped = (why: string) => ({ stopped: `the original does not follow any more: ${why}` });
  if (wayBack.broken?.kind === 'lost') return stopped(brokenWords(wayBack));
  const judge = async (comment: string | null) => {
    const now = propertyDigests(await readClusterProperties(control, target.database.oid), comment);
    const kept = await readClusterProperties(control, original.oid);
    const then = { ...kept, datconnlimit: content.connectionLimit };
    const changed = changedSince(original, now, propertyDigests(then, original.mark.comment ?? null));
    return { comment: judgeProperties(original, changed, comment, plan) };
  };
  const confirm = () => plan.confirm(target.database.name, original.name, true);
  const result = await returnWithWrites(exchange, plan, wayBack, {
    givesUp: plan.discardWrites,
    confirm,
    judge,
  });
  return 'stopped' in result ? stopped(result.stopped) : result;
}

async function returnWithoutWrites(
  { subject, scope }: { readonly subject: SwapSubject; readonly scope: Scope },
  plan: RollbackPlan,
  original: OwnedDatabase,
  lock: ChangeLock,
): Promise<SwapSection> {
  const { target, control, run, audit, signal } = subject;
  const { oid } = target.database;
  const counters = { run, audit, signal, purpose: 'counters', readOnly: true };
  const ofAnalyze = await withSession(openSession(target.settings, counters), (inside) => {
    lock.requireHeld();
    return rowsOfAnalyze(inside);
  });
  const window = await openWindow(subject, scope, plan.window, readEnvironment(plan.env, plan.folder));
  try {
    const newer = await window.close();
    await waitForCounters(target.server.versionNum);
    const written = await rowsWritten(control, oid, ofAnalyze);
    if (!plan.discardWrites) refuseLoss(original, written);
    const now = propertyDigests(await readClusterProperties(control, oid), window.comment);
    const then = await readClusterProperties(control, original.oid);
    const changed = changedSince(original, now, propertyDigests(then, original.mark?.comment ?? null));
    const comment = judgeProperties(original, changed, window.comment, plan);
    const successor = await sealOriginal(subject, original);
    return await window.rename(newer, { ...successor, comment });
  } catch (error) {
    return window.undo(error);
  }
}

/**
 * Chooses the comment of the database, which is set together with the name and so can be kept.
 * @throws SafemigrateError `REFUSED` if other properties of the newer database would be taken back.
 */
function judgeProperties(
  original: OwnedDatabase,
  changed: readonly string[],
  ofNewer: string | null,
  { discardWrites }: Pick<RollbackPlan, 'discardWrites'>,
): string | null {
  if (!discardWrites) refuseTakingBack(original, changed);
  return changed.includes('comment') && !discardWrites ? ofNewer : (original.mark?.comment ?? null);
}

/** Connects to the target, which a killed run may have left closed, and takes the lock of a run. */
async function connectForRollback(scope: Scope, stop: Stop, plan: RollbackPlan): Promise<SwapSubject> {
  const { emit, audit } = plan;
  const { signal } = stop;
  const located = locateTarget(plan.target, readEnvironment(plan.env, plan.folder));
  const onReopened = (message: string) => emit({ type: 'notice', message });
  const { target, session } = await inPhase(emit, 'connect', () =>
    visitOrReopen(located.settings, located.source, { audit, signal }, onReopened),
  );
  await session.close();
  const claim = await claimRun(target, scope, { audit, signal });
  claim.control.onLost((reason) => stop.now(lostControl(reason)));
  const fail = (reason: SafemigrateError) => stop.now(reason);
  return { target, ...claim, settings: located.settings, emit, audit, signal, fail };
}

/** Closes the original, so that renameInto() can check it like any successor: closed since the swap, it was not written to. */
async function sealOriginal(
  { control, signal }: SwapSubject,
  { name: database, oid }: OwnedDatabase,
): Promise<Omit<Successor, 'comment'>> {
  const fence = await closeDatabase(control, { database, oid }, null, signal);
  return { fence, written: await rowsWritten(control, oid, 0n) };
}

async function findOriginal(
  control: Session,
  target: { readonly oid: number; readonly name: string },
  run: string | null,
): Promise<OwnedDatabase> {
  const originals = (await ownedDatabases(control, { sizes: false })).filter(
    ({ role, ownershipStatus, mark }) =>
      role === 'original' && ownershipStatus === 'marked' && mark?.state === 'renamed',
  );
  const ofTarget = originals.filter(({ mark }) => mark?.successor === target.oid);
  const wanted = run === null ? ofTarget.at(-1) : ofTarget.find((each) => each.run === run);
  if (wanted) return wanted;
  const others = originals.map(({ name }) => name).join(', ') || 'none';
  throw new SafemigrateError('REFUSED', `No original of ${target.name} is kept that could be swapped back.`, {
    hint: `Nothing was touched. Kept originals on this server: ${others}. \`safemigrate list\` shows them.`,
  });
}

/** Names the properties that were changed since the swap, and that the original does not have by now. */
function changedSince(
  { mark }: OwnedDatabase,
  now: Readonly<Record<string, string>>,
  ofOriginal: Readonly<Record<string, string>>,
): string[] {
  return Object.entries(mark?.properties ?? {})
    .filter(([words, digest]) => now[words] !== digest && now[words] !== ofOriginal[words])
    .map(([words]) => words)
    .sort();
}

/** @throws SafemigrateError `REFUSED` if properties of the database were changed since the swap. */
function refuseTakingBack({ name }: OwnedDatabase, changed: readonly string[]): void {
  const lost = changed.filter((words) => words !== 'comment');
  if (lost.length === 0) return;
  throw swapFailure(
    `${lost.join(' and ')} of the database were changed since the swap, and would be taken back; change those of ` +
      `${name} (ALTER DATABASE, GRANT) in the same way, or give them up with --discard-writes`,
  );
}

/** @throws SafemigrateError `REFUSED` if something was written to the newer database since the swap, or may have been. */
function refuseLoss({ mark }: OwnedDatabase, now: DatabaseWrites): void {
  const flag = 'with --discard-writes the writes stay in the newer database, which is kept';
  if (mark?.writes === undefined || !now.counted)
    throw swapFailure(
      `writes since the swap are not known: the server did not count them (track_counts, or an online swap on PostgreSQL 14); ${flag}`,
    );
  const rows = now.rows - BigInt(mark.writes);
  if (rows < 0n || now.since !== mark.countedSince)
    throw swapFailure(`the server's counters were reset since the swap, so writes are not known; ${flag}`);
  if (rows === 0n) return;
  const count = `${plural(Number(rows), 'row')} ${rows === 1n ? 'was' : 'were'} written since the swap`;
  throw swapFailure(`${count}, and would be missing; ${flag}`);
}
