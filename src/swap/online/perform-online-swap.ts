import path from 'node:path';
import type { Script } from '../../clone/after-clone.ts';
import { inClone } from '../../clone/own-sessions.ts';
import { inPhase } from '../../events.ts';
import type { Report, SwapSection } from '../../model/report.ts';
import type { ChangeLock } from '../../ownership/change-lock.ts';
import { droppingPublications } from '../../ownership/owned-replication.ts';
import { readEnvironment } from '../../postgres/connection/environment.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import type { TargetState } from '../../proof/target-state.ts';
import { redactIfAsked } from '../../rehearsal/judge-rehearsal.ts';
import { prepare, type RehearsalContext } from '../../rehearsal/prepare.ts';
import { rehearseAndRemember } from '../../rehearsal/rehearse.ts';
import { type Lifetime, withScope } from '../../rehearsal/with-scope.ts';
import { prepareWindow } from '../open-window.ts';
import { FOR_SUCCESSOR, migrateClone, requireSealable, verifyClone } from '../successor.ts';
import type { SwapPlan } from '../swap-plan.ts';
import { NOTHING_YET, refusedOnline, swapFailure, withSwap } from '../swap-section.ts';
import { catchUp } from './catch-up.ts';
import { readCatchUpScript } from './catch-up-script.ts';
import { checkOnline, requireOnline } from './check-online.ts';
import { CloneLag } from './clone-lag.ts';
import { readWriteCounters } from './counters.ts';
import { closeBoth, costsSoFar, cutOverCosts } from './cut-over.ts';
import { startFollowing } from './follower.ts';
import { type Fork, forkTarget } from './fork.ts';
import type { OnlineEligibility, OnlinePlan } from './online-plan.ts';
import { type OnlineRehearsal, objectionsText, planInRehearsal, waitForCommand } from './online-rehearsal.ts';
import { planOnlineSwap } from './plan-online-swap.ts';
import { makePostponeFile, waitForOrder } from './postponing.ts';
import { openInTarget, openSource, watchSlot } from './source.ts';
import { prepareWayBack } from './start-way-back.ts';

/**
 * Swaps the target for a migrated clone of it, while production writes on: the clone catches up by the server's own logical
 * replication. Until the COMMIT of the renames every failure is undone: the target is open, and has all that was written.
 *
 * | step | leftovers if the process dies right after it, and who repairs that |
 * |---|---|
 * | take the change lock, check, rehearse, plan, confirm | what a swap leaves (perform-swap.ts) |
 * | prepare, check | nothing: the server ends our sessions |
 * | reopen agent | a process that ends with our input |
 * | publication, slot | both, and the slot keeps WAL: the agent and `clean` drop them |
 * | close the target, clone it | the target closed, with our mark: the agent, `clean`, and every later run reopen it; the clone |
 * | open it; migrate and verify the clone | clone, slot, publication: the agent and `clean` drop them |
 * | follow, catch up, compare | the same, and the subscription in the clone, which still applies: it is dropped with the clone |
 * | wait for the order to cut over | the same, and the file that was to be removed |
 * | close the target for the cut-over | the target closed, as before |
 * | hand over, close both | the same |
 * | rename | the clone as the target, open; the original under its new name, closed and marked; the slot, as before |
 * | prepare the way back, start it | start-way-back.ts says it |
 *
 * @throws SafemigrateError `REFUSED` if something prevents it even before the rehearsal; `TARGET_CHANGED` if the target could not be
 *   reopened.
 */
export async function performOnlineSwap(plan: SwapPlan, lock: ChangeLock): Promise<Report> {
  const script = await readCatchUpScript(plan.online.catchUp, plan.command.folder);
  const cloneMs = await requireOnline(plan);
  const file = plan.online.postponeFile;
  const postponeFile = file === null ? null : path.resolve(plan.command.folder, file);
  const removeFile = postponeFile === null ? async () => {} : await makePostponeFile(postponeFile);
  return rehearseAndExchange({ plan, lock, script, postponeFile }, cloneMs).finally(removeFile);
}

/** Everything that an online swap goes by. */
interface Exchange {
  readonly plan: SwapPlan;
  readonly lock: ChangeLock;
  readonly script: Script | null;
  /** The cut-over waits while it exists; null: it does not wait. */
  readonly postponeFile: string | null;
}

async function rehearseAndExchange(exchange: Exchange, cloneMs: number): Promise<Report> {
  const { plan, script } = exchange;
  const { reader, found } = planInRehearsal(script);
  const { report, before } = await rehearseAndRemember(plan, null, reader);
  const rehearsed = found() ?? { objections: report.verdict.pass ? [NOT_PLANNED] : [] };
  const objections = [
    ...(report.verdict.pass ? [] : ['the rehearsal did not pass']),
    ...('objections' in rehearsed ? rehearsed.objections : objectionsToReturn(rehearsed, plan)),
  ];
  if ('plan' in rehearsed && rehearsed.plan.notCompared.length > 0)
    plan.emit({
      type: 'notice',
      message: `not proved by comparing rows, since only the clone has them: ${rehearsed.plan.notCompared.join(', ')}`,
    });
  const limits = 'objections' in rehearsed ? [] : rehearsed.wayBack.limits.map(({ what }) => what);
  if (objections.length === 0 && !(await plan.confirm(report, cloneMs, limits)))
    objections.push('it was not confirmed');
  if (objections.length > 0 || 'objections' in rehearsed)
    return redactIfAsked(withSwap(report, refusedOnline(objections), { done: [], failed: [] }), plan);
  const { result, cleanup } = await withScope(plan, (scope, stop) =>
    exchangeOnline({ scope, stop }, { before, rehearsed }, exchange),
  );
  return redactIfAsked(withSwap(report, result, cleanup), plan);
}

function objectionsToReturn({ wayBack }: OnlineRehearsal, { online }: SwapPlan): string[] {
  return online.wayBackMs === null ? [] : objectionsText(wayBack).map((each) => `no way back: ${each}`);
}

const NOT_PLANNED = 'the rehearsal did not show how a clone could follow the target';

async function exchangeOnline(
  { scope, stop }: Lifetime,
  { before, rehearsed }: { readonly before: TargetState; readonly rehearsed: OnlineRehearsal },
  { plan, lock, script, postponeFile }: Exchange,
): Promise<SwapSection> {
  const prepared = await prepare(scope, stop, { ...plan, clone: { ...plan.clone, ...FOR_SUCCESSOR } });
  const subject = { ...prepared.context, settings: prepared.settings };
  const ready = await checkOnline(prepared, before, plan);
  if ('objections' in ready) return refusedOnline(ready.objections);
  lock.requireHeld();
  const { env, folder } = plan.command;
  const window = await prepareWindow(subject, scope, plan.window, readEnvironment(env, folder), [
    subject.run,
  ]);
  await window.clients.measureGaps();
  const lag = new CloneLag();
  let online = NOTHING_YET;
  try {
    const counters = await withSession(openInTarget(subject, 'publish'), async (inside) => {
      await window.step('slot', () => openSource(subject, scope, inside, rehearsed.plan));
      return readWriteCounters(inside);
    });
    await watchSlot(subject, scope, plan.online, lag);
    const fork = await forkTarget(prepared, { subject, scope, window, lag }, rehearsed.plan, counters);
    const { clone } = fork;
    online = {
      ...online,
      cloneClosedMs: window.closings.at(-1)?.durationMs ?? null,
      cloneGapMs: window.clients.gapMs,
    };
    await window.step('migrate', () => migrateClone(prepared, clone, { scope, stop }, plan));
    const { verify, command } = plan;
    if (verify !== null) await window.step('verify', () => verifyClone(prepared, clone, verify, command));
    await requireSealable(prepared, clone);
    const { plan: now, wayBack: planned } = await planAgain(prepared, fork, rehearsed);
    const follower = await startFollowing(subject, scope, fork, now, ready.way, lag);
    const { maxCutOverMs, wayBackMs: lastsMs, minFreeBytes: leastFreeBytes } = plan.online;
    const beforeSealing = () => fork.inside.query(droppingPublications(subject.run));
    const { pausesMs } = plan;
    const run = { subject, window, fork, plan: now, follower, beforeSealing, script, maxCutOverMs, pausesMs };
    const caughtUp = await window.step('catch up', () => catchUp(run));
    online = { ...online, ...caughtUp, notCompared: [...now.notCompared] };
    if (postponeFile !== null) {
      const waits = () => waitForOrder(run, postponeFile);
      online = { ...online, postponedMs: await window.step('wait for the order', waits) };
      lock.requireHeld();
    }
    const back =
      lastsMs === null
        ? undefined
        : await prepareWayBack(prepared, { subject, scope }, fork, {
            plan: planned,
            way: ready.way,
            lastsMs,
            leastFreeBytes,
          });
    const closed = await inPhase(plan.emit, 'cut-over', () => closeBoth(run));
    const { original, successor } = closed;
    const wayBack = back?.mark();
    const section = await window.rename(
      original,
      { ...successor, comment: window.comment },
      { as: 'original', ...(wayBack && { wayBack }) },
    );
    online = { ...online, ...cutOverCosts(closed, window, lag) };
    const started = await back?.start(closed.lsn);
    const watchdogPid = started?.failure === null ? window.leaveWayBackToAgent() : null;
    online = { ...online, wayBack: started ? { ...started, watchdogPid } : null };
    return { ...section, online };
  } catch (error) {
    return { ...(await window.undo(error)), online: { ...online, ...costsSoFar(window, lag) } };
  }
}

/** @throws SafemigrateError `REFUSED` if the migrated clone needs another plan than the rehearsal's clone. */
async function planAgain(
  { context }: RehearsalContext,
  { clone, inside, birth }: Fork,
  rehearsed: OnlineRehearsal,
): Promise<Extract<OnlineEligibility, { eligible: true }>> {
  const found = await inClone({ clone, context }, async (session) => {
    await waitForCommand(session, context);
    return planOnlineSwap(inside, session, { ...rehearsed.statements, birth });
  });
  if (!found.eligible) throw swapFailure(objectionsText(found).join('; '));
  if (essence(found.plan) !== essence(rehearsed.plan))
    throw swapFailure('the command did something else to the clone than in the rehearsal');
  return found;
}

/** The parts of a plan that must be the same as in the rehearsal. Temporary defaults may hold the time of the command. */
function essence({ tables, leftOut, sequences, refresh, newForeignKeys }: OnlinePlan): string {
  const out = leftOut.map(({ oid }) => oid);
  return JSON.stringify([tables, out, sequences, refresh, newForeignKeys.map(({ name }) => name)]);
}
