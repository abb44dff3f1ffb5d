import { locateTarget } from '../database/locate.ts';
import { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import type { SwapSection } from '../model/report.ts';
import { type ChangeLock, withChangeLock } from '../ownership/change-lock.ts';
import { claimRun, lostControl } from '../ownership/control-session.ts';
import type { PutAside } from '../ownership/mark.ts';
import { type OwnedDatabase, ownedDatabases } from '../ownership/owned.ts';
import { counterpartOf, isPutAside, putAsideAt } from '../ownership/put-aside.ts';
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
import type { WritesSince } from './swap-settings.ts';
import { exchangeOf, writesSince, writesWords } from './writes-since.ts';

/**
 * Swaps a database back that was put aside. The one in use is put aside in its place, under another name.
 *
 * | step | what it leaves if the process dies right after it, and who repairs that |
 * |---|---|
 * | connect, find what comes back, count the writes since, check, confirm | nothing: the server ends our sessions |
 * | open the window, close the target | open-window.ts says it |
 * | count the writes since the swap, close the original | the target closed, as before; the original was closed already |
 * | rename | the original as the target, open; the other one under its new name, closed and marked |
 *
 * With a way back: perform-return.ts.
 *
 * @throws SafemigrateError `REFUSED` if there is none; `TARGET_CHANGED` if the target could not be reopened.
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
  const original = await findPutAside(control, target.database, plan.run);
  const { role } = original;
  const wayBack = (await findWayBacks(control)).find((each) => each.original.oid === original.oid);
  const reasons = await obstacleReasons(control, target, plan, wayBack !== undefined);
  if (reasons.length > 0) return { ...refusedSwap(reasons), target: name };
  lock.requireHeld();
  const exchange = { subject, scope };
  const returned = wayBack && (await returnIfFollowing(exchange, plan, wayBack));
  if (returned && !('stopped' in returned)) return { ...returned, target: name };
  const doubt = returned === undefined ? null : HAS_SOME;
  await waitForCounters(target.server.versionNum);
  const writes = await countWrites(subject, { original, doubt }, await rowsOfAnalyzeIn(subject, lock));
  const loss = lossReason(writes, role);
  const refusal = returned ? `${returned.stopped}; ${loss ?? AS_IT_IS}` : loss;
  if (refusal !== null && !plan.discardWrites) return { ...refusedSwap([refusal]), target: name };
  if (!(await plan.confirm({ target: name, database: original.name, role, follows: false, writes })))
    return { ...refusedSwap(['it was not confirmed']), target: name };
  if (wayBack) await endWayBack(control, wayBack, (database) => enter(subject, database));
  return { ...(await returnWithoutWrites(exchange, plan, { original, doubt }, lock)), target: name };
}

const HAS_SOME = 'it is not known how many of them the original got before it stopped';
const AS_IT_IS = 'with --discard-writes it comes back with the rows that it has so far';

/** The database that comes back. */
interface Returning {
  readonly original: OwnedDatabase & { readonly role: PutAside };
  /** Why it is not known which of the rows it lacks; null: it has none of them. */
  readonly doubt: string | null;
}

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
  const { name } = target.database;
  const confirm = (writes: WritesSince) =>
    plan.confirm({ target: name, database: original.name, role: 'original', follows: true, writes });
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
  kept: Returning,
  lock: ChangeLock,
): Promise<SwapSection> {
  const { target, control } = subject;
  const { original } = kept;
  const { oid } = target.database;
  const ofAnalyze = await rowsOfAnalyzeIn(subject, lock);
  const window = await openWindow(subject, scope, plan.window, readEnvironment(plan.env, plan.folder));
  try {
    const newer = await window.close('exchange');
    await waitForCounters(target.server.versionNum);
    const writes = await countWrites(subject, kept, ofAnalyze);
    const refusal = lossReason(writes, original.role);
    if (refusal !== null && !plan.discardWrites) throw swapFailure(refusal);
    const now = propertyDigests(await readClusterProperties(control, oid), window.comment);
    const then = await readClusterProperties(control, original.oid);
    const changed = changedSince(original, now, propertyDigests(then, original.mark?.comment ?? null));
    const comment = judgeProperties(original, changed, window.comment, plan);
    const successor = await sealOriginal(subject, original);
    const section = await window.rename(
      newer,
      { ...successor, comment },
      { as: counterpartOf(original.role) },
    );
    return refusal === null ? section : { ...section, givenUp: { ...writes, tables: [] } };
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

/** Finds the database that comes back: the last one that was put aside for the target, or that of a run. */
async function findPutAside(
  control: Session,
  target: { readonly oid: number; readonly name: string },
  run: string | null,
): Promise<OwnedDatabase & { readonly role: PutAside }> {
  const candidates = (await ownedDatabases(control, { sizes: false })).flatMap((database) => {
    const { role, ownershipStatus, mark } = database;
    const isKept = isPutAside(role) && ownershipStatus === 'marked' && mark?.state === 'renamed';
    return isKept ? [{ ...database, role }] : [];
  });
  const ofTarget = candidates
    .filter(({ mark }) => mark?.successor === target.oid)
    .sort((one, other) => (putAsideAt(one) ?? 0) - (putAsideAt(other) ?? 0));
  const wanted = run === null ? ofTarget.at(-1) : ofTarget.find((each) => each.run === run);
  if (wanted) return wanted;
  const others = candidates.map(({ name }) => name).join(', ') || 'none';
  throw new SafemigrateError('REFUSED', `No database is kept that could be swapped back to ${target.name}.`, {
    hint: `Nothing was touched. Databases put aside on this server: ${others}. \`safemigrate list\` shows them.`,
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

/** Reads what ANALYZE has written in the target, over a session there, which has to end before it is closed. */
async function rowsOfAnalyzeIn(
  { target, run, audit, signal }: SwapSubject,
  lock: ChangeLock,
): Promise<bigint> {
  const counters = { run, audit, signal, purpose: 'counters', readOnly: true };
  return withSession(openSession(target.settings, counters), (inside) => {
    lock.requireHeld();
    return rowsOfAnalyze(inside);
  });
}

async function countWrites(
  { control, target }: SwapSubject,
  { original, doubt }: Returning,
  ofAnalyze: bigint,
): Promise<WritesSince> {
  const writes = writesSince(original, await rowsWritten(control, target.database.oid, ofAnalyze));
  return { ...writes, reason: writes.reason ?? doubt };
}

const DISCARDING = 'with --discard-writes they stay in the database that is put aside';

/** Says what would be missing; null: nothing was written since. */
function lossReason(writes: WritesSince, role: PutAside): string | null {
  const words = writesWords(writes, exchangeOf(role));
  return words === null
    ? null
    : `${words}${writes.reason === null ? ', and would be missing' : ''}; ${DISCARDING}`;
}
