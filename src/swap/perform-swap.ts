import type { Report, SwapSection } from '../model/report.ts';
import type { ChangeLock } from '../ownership/change-lock.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import type { TargetState } from '../proof/target-state.ts';
import { redactIfAsked } from '../rehearsal/judge-rehearsal.ts';
import { prepare } from '../rehearsal/prepare.ts';
import { rehearseAndRemember } from '../rehearsal/rehearse.ts';
import { inTurn, type Lifetime, withScope } from '../rehearsal/with-scope.ts';
import { readClusterProperties } from './database-state.ts';
import { performOnlineSwap } from './online/perform-online-swap.ts';
import { openWindow } from './open-window.ts';
import { objectionToSwap, swapObjections } from './preflight.ts';
import {
  cloneTarget,
  FOR_SUCCESSOR,
  migrateClone,
  requireSame,
  sealClone,
  verifyClone,
} from './successor.ts';
import type { SwapPlan } from './swap-plan.ts';
import { refusedSwap, withSwap } from './swap-section.ts';

/**
 * Swaps the target for a migrated clone of it. Until the COMMIT of the renames every failure is undone: the target is open and
 * unchanged.
 *
 * | step | what it leaves if the process dies right after it, and who repairs that |
 * |---|---|
 * | take the change lock | nothing: the server ends our session, and with it the lock |
 * | rehearse, confirm | what a rehearsal leaves: its clone, until its watchdog or `clean` drops it |
 * | prepare, check | nothing: the server ends our sessions |
 * | open the window, close the target | open-window.ts says it |
 * | clone, migrate, verify, seal | the target closed, as before; the clone with its mark, which `clean` drops |
 * | rename | the clone as the target, open; the original under its new name, closed and marked, kept for a rollback |
 *
 * @throws SafemigrateError what performRehearsal() throws; `TARGET_CHANGED` if the target could not be reopened.
 */
export function performSwap(plan: SwapPlan): Promise<Report> {
  const perform = plan.online.enabled ? performOnlineSwap : performOfflineSwap;
  return inTurn(plan, 'swap', (lock) => perform(plan, lock));
}

async function performOfflineSwap(plan: SwapPlan, lock: ChangeLock): Promise<Report> {
  const { report, before } = await rehearseAndRemember(plan);
  const objection = await objectionToSwap(report, plan);
  const { result, cleanup } =
    objection === undefined
      ? await withScope(plan, (scope, stop) => exchangeTarget({ scope, stop }, before, plan, lock))
      : { result: refusedSwap([objection]), cleanup: { done: [], failed: [] } };
  return redactIfAsked(withSwap(report, result, cleanup), plan);
}

async function exchangeTarget(
  { scope, stop }: Lifetime,
  before: TargetState,
  plan: SwapPlan,
  lock: ChangeLock,
): Promise<SwapSection> {
  const prepared = await prepare(scope, stop, { ...plan, clone: { ...plan.clone, ...FOR_SUCCESSOR } });
  const { control, target } = prepared.context;
  const objections = await swapObjections(prepared, before, plan);
  if (objections.length > 0) return refusedSwap(objections);
  lock.requireHeld();
  const { env, folder } = plan.command;
  const subject = { ...prepared.context, settings: prepared.settings };
  const window = await openWindow(subject, scope, plan.window, readEnvironment(env, folder));
  try {
    const original = await window.close('exchange');
    const properties = await readClusterProperties(control, target.database.oid);
    const clone = await window.step('clone', () => cloneTarget(prepared, scope));
    requireSame(properties, await readClusterProperties(control, clone.oid), clone);
    await window.step('migrate', () => migrateClone(prepared, clone, { scope, stop }, plan));
    const { verify, command } = plan;
    if (verify !== null) await window.step('verify', () => verifyClone(prepared, clone, verify, command));
    const successor = await sealClone(prepared, clone, properties);
    return await window.rename(original, { ...successor, comment: window.comment }, { as: 'original' });
  } catch (error) {
    return await window.undo(error);
  }
}
