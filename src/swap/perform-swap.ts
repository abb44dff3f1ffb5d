import { SafemigrateError } from '../errors.ts';
import type { Report, SwapSection } from '../model/report.ts';
import type { TargetState } from '../observe/target-state.ts';
import { prepare } from '../rehearsal/prepare.ts';
import { redactIfAsked, rehearseAndRemember } from '../rehearsal/rehearse.ts';
import { withScope } from '../rehearsal/with-scope.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import { readClusterProperties } from './cluster-properties.ts';
import { openWindow } from './maintenance-window.ts';
import { objectionToSwap, swapObjections } from './preflight.ts';
import {
  cloneTarget,
  FOR_SUCCESSOR,
  migrateClone,
  requireSame,
  sealClone,
  verifyClone,
} from './successor.ts';
import type { SwapOptions } from './swap-options.ts';
import { refusedSwap, withSwap } from './swap-section.ts';

/**
 * Swaps the target for a migrated clone of it. Until the COMMIT of the renames every failure is undone: the target is open and
 * unchanged.
 *
 * | step | what it leaves if the process dies right after it, and who repairs that |
 * |---|---|
 * | rehearse, confirm | what a rehearsal leaves: its clone, until its watchdog or `clean` drops it |
 * | prepare, check | nothing: the server ends our sessions |
 * | open the window, close the target | maintenance-window.ts says it |
 * | clone, migrate, verify, seal | the target closed, as before; the clone with its mark, which `clean` drops |
 * | rename | the clone as the target, open; the original under its new name, closed and marked, kept for a rollback |
 *
 * @throws SafemigrateError what rehearse() throws; `TARGET_CHANGED` if the target could not be reopened.
 */
export async function swap(options: SwapOptions): Promise<Report> {
  if (options.from !== undefined)
    throw new SafemigrateError('USAGE', '--swap and --from cannot be given together: a dump has no target.');
  const { report, before } = await rehearseAndRemember(options);
  const objection = await objectionToSwap(report, options);
  const { result, cleanup } =
    objection === undefined
      ? await withScope(options, (scope, stop) => exchangeTarget(scope, stop, before, options))
      : { result: refusedSwap([objection]), cleanup: { done: [], failed: [] } };
  return redactIfAsked(withSwap(report, result, cleanup), options);
}

async function exchangeTarget(
  scope: Scope,
  stop: Stop,
  before: TargetState,
  options: SwapOptions,
): Promise<SwapSection> {
  // The successor is a clone of the target itself, wherever the rehearsal took place.
  const { rehearsalUrl: _, ...onTarget } = options;
  const prepared = await prepare(scope, stop, { ...onTarget, ...FOR_SUCCESSOR });
  const { control, target } = prepared.context;
  const objections = await swapObjections(prepared, before, options);
  if (objections.length > 0) return refusedSwap(objections);
  const window = await openWindow({ ...prepared.context, settings: prepared.settings }, scope, options);
  try {
    const original = await window.close();
    const properties = await readClusterProperties(control, target.database.oid);
    const clone = await window.step('clone', () => cloneTarget(prepared, scope));
    requireSame(properties, await readClusterProperties(control, clone.oid), clone);
    await window.step('migrate', () => migrateClone(prepared, clone, { scope, stop }, options));
    if (options.verify !== undefined)
      await window.step('verify', () => verifyClone(prepared, clone, options));
    const successor = await sealClone(prepared, clone, properties);
    return await window.rename(original, { ...successor, comment: window.comment });
  } catch (error) {
    return await window.undo(error);
  }
}
