import type { Report } from '../model/report.ts';
import { type Rehearsal, readRehearsal } from '../rehearsal/receipts/receipt-file.ts';
import { redactIfAsked, rehearseAndRemember } from '../rehearsal/rehearse.ts';
import { withScope } from '../rehearsal/with-scope.ts';
import { openSchemaWatch } from '../schema/schema-watch.ts';
import type { Cleanup, Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import type { ApplyOptions } from './apply-options.ts';
import { type ApplyResult, objectionToApply, refusedApply, withApply } from './apply-section.ts';
import { changesSince, compareWithRehearsal } from './compare-with-rehearsal.ts';
import { lockTarget } from './lock-target.ts';
import { refuseEarly } from './refuse-early.ts';
import { runOnTarget } from './run-on-target.ts';

/** How often a target that keeps changing is rehearsed on. */
const MAX_REHEARSALS = 3;

/**
 * Rehearses the command, or reads a receipt, and runs it on the target if that passed and the target has not changed since.
 *
 * | step | what it leaves if the process dies right after it, and who repairs that |
 * |---|---|
 * | refuse early | nothing |
 * | rehearse, or read the receipt | what a rehearsal leaves: its clone, until its watchdog or `clean` drops it |
 * | lock the target, compare, confirm, compare | nothing: the server ends our sessions, and with them the apply lock |
 * | open the journal | the journal: `list` reports an interrupted apply, and the target unchanged |
 * | run the command | what it has committed, which `list` shows from the journal; the server rolls back what is open |
 * | inspect the outcome | the same: a person reads `list`, and decides |
 * | end the journal | the target as the command left it, without a report |
 *
 * @throws SafemigrateError what rehearse() throws; `REFUSED`; `TARGET_CHANGED` if the outcome of the command is not known.
 */
export async function apply(options: ApplyOptions): Promise<Report> {
  const startedAt = new Date();
  const { receipt } = options;
  await refuseEarly(options);
  for (let rehearsals = 1; ; rehearsals++) {
    const rehearsal = await (receipt === undefined
      ? rehearseAndRemember(options)
      : readRehearsal(receipt, options));
    const { result, cleanup } = await applyRehearsal(rehearsal, options);
    const { outdated = [] } = result;
    if (outdated.length === 0 || rehearsals === MAX_REHEARSALS)
      return redactIfAsked(withApply(rehearsal.report, result, startedAt, cleanup), options);
    const message = `the target changed while it was rehearsed on (${outdated.join(', ')}): rehearsing again`;
    options.emit?.({ type: 'notice', message });
  }
}

async function applyRehearsal(
  rehearsal: Rehearsal,
  options: ApplyOptions,
): Promise<{ result: ApplyResult; cleanup: Cleanup }> {
  const objection = objectionToApply(rehearsal.report);
  if (objection === undefined || options.force !== undefined)
    return withScope(options, (scope, stop) => applyToTarget(scope, stop, rehearsal, options));
  const result = refusedApply(rehearsal, options, [objection]);
  return { result, cleanup: { done: [], failed: [] } };
}

async function applyToTarget(
  scope: Scope,
  stop: Stop,
  rehearsal: Rehearsal,
  options: ApplyOptions,
): Promise<ApplyResult> {
  const locked = await lockTarget(scope, stop, options);
  const refuse = (reasons: string[]) => ({ ...refusedApply(rehearsal, options, reasons), run: locked.run });
  const openSchema = () => openSchemaWatch(options.audit);
  const schema = await scope.own('schema reader', openSchema, async (opened) => opened?.close());
  const before = await compareWithRehearsal(locked, schema, rehearsal, options);
  if (!before.matches) return { ...refuse(before.reasons), outdated: before.outdated };
  if (!(await options.confirm(rehearsal.report))) return refuse(['it was not confirmed']);
  stop.signal.throwIfAborted();
  const changes = await changesSince(before.digest, locked, schema);
  if (changes.length > 0) return refuse(changes);
  return stop.pausedDuring(() =>
    runOnTarget(scope, stop, locked, { rehearsal, options, schema, fingerprint: before.fingerprint }),
  );
}
