import { steadyDate } from '../clock.ts';
import type { Report } from '../model/report.ts';
import type { ChangeLock } from '../ownership/change-lock.ts';
import { redactIfAsked } from '../rehearsal/judge-rehearsal.ts';
import { type Rehearsal, readRehearsal } from '../rehearsal/receipts/receipt.ts';
import { rehearseAndRemember } from '../rehearsal/rehearse.ts';
import { inTurn, type Lifetime, openSchemaReader, withScope } from '../rehearsal/with-scope.ts';
import type { ApplyPlan } from './apply-plan.ts';
import { type ApplyResult, objectionToApply, refusedApply, withApply } from './apply-section.ts';
import { changesSince, compareWithRehearsal } from './compare-with-rehearsal.ts';
import { enterTarget } from './enter-target.ts';
import { guardedOnClone } from './guardrails/guarded-proxy.ts';
import { runOnTarget } from './run-on-target.ts';

/** How often a target that keeps changing is rehearsed on. */
const MAX_REHEARSALS = 3;

/**
 * Rehearses the command, or reads a receipt, and runs it on the target if that passed and the target has not changed since.
 *
 * | step | what it leaves if the process dies right after it, and who repairs that |
 * |---|---|
 * | take the change lock | nothing: the server ends our session, and with it the lock |
 * | rehearse, or read the receipt | what a rehearsal leaves: its clone, until its watchdog or `clean` drops it |
 * | enter the target, compare, confirm, compare | nothing: the server ends our sessions |
 * | open the journal | the journal: `list` reports an interrupted apply, and the target unchanged |
 * | run the command | what it has committed, which `list` shows from the journal; the server rolls back what is open |
 * | inspect the outcome | the same: a person reads `list`, and decides |
 * | end the journal | the target as the command left it, without a report |
 *
 * @throws SafemigrateError what performRehearsal() throws; `REFUSED`; `TARGET_CHANGED` if the outcome of the command is not known.
 */
export function performApply(plan: ApplyPlan): Promise<Report> {
  return inTurn(plan, 'apply', (lock) => applyInTurn(plan, lock));
}

async function applyInTurn(plan: ApplyPlan, lock: ChangeLock): Promise<Report> {
  const startedAt = steadyDate();
  const { file, key } = plan.receipt;
  for (let rehearsals = 1; ; rehearsals++) {
    const rehearsal = await (file === null
      ? rehearseAndRemember(plan, guardedOnClone(plan.guardrails))
      : readRehearsal(file, key));
    const objection = objectionToApply(rehearsal.report, plan.guardrails);
    const { result, cleanup } =
      objection === undefined || plan.force !== null
        ? await withScope(plan, (scope, stop) => applyToTarget({ scope, stop }, rehearsal, plan, lock))
        : { result: refusedApply(rehearsal, plan, [objection]), cleanup: { done: [], failed: [] } };
    const { outdated = [] } = result;
    if (outdated.length === 0 || rehearsals === MAX_REHEARSALS)
      return redactIfAsked(withApply(rehearsal.report, result, startedAt, cleanup), plan);
    const message = `the target changed while it was rehearsed on (${outdated.join(', ')}): rehearsing again`;
    plan.emit({ type: 'notice', message });
  }
}

async function applyToTarget(
  { scope, stop }: Lifetime,
  rehearsal: Rehearsal,
  plan: ApplyPlan,
  lock: ChangeLock,
): Promise<ApplyResult> {
  const entered = await enterTarget(scope, stop, plan);
  await lock.takeInside(entered.inside);
  const refuse = (reasons: string[]) => ({ ...refusedApply(rehearsal, plan, reasons), run: entered.run });
  const schema = await openSchemaReader(scope, plan);
  const before = await compareWithRehearsal(entered, schema, rehearsal, plan);
  if (!before.matches) return { ...refuse(before.reasons), outdated: before.outdated };
  if (!(await plan.confirm(rehearsal.report))) return refuse(['it was not confirmed']);
  stop.signal.throwIfAborted();
  const changes = await changesSince(before.digest, entered, schema);
  if (changes.length > 0) return refuse(changes);
  lock.requireHeld();
  return stop.pausedDuring(() =>
    runOnTarget(scope, stop, entered, { rehearsal, plan, schema, fingerprint: before.fingerprint }),
  );
}
