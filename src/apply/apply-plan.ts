import { asOfNow, makeRehearsalPlan, type RehearsalPlan } from '../rehearsal/plan.ts';
import { fillIn, type PlanOf } from '../settings.ts';
import { APPLY_SETTINGS, type ApplyOptions } from './apply-settings.ts';

/** Everything that an apply goes by, with every default filled in. */
export interface ApplyPlan extends RehearsalPlan, PlanOf<typeof APPLY_SETTINGS> {
  readonly confirm: ApplyOptions['confirm'];
}

/** @throws SafemigrateError `CONFIGURATION` for options that do not fit together. */
export function makeApplyPlan(options: ApplyOptions): ApplyPlan {
  const plan = asOfNow(makeRehearsalPlan(options));
  const { command } = plan;
  return {
    ...plan,
    // The apply itself rewrites what names the target: the rehearsal has to show that this reaches the command.
    command: { ...command, sandbox: { ...command.sandbox, byAddress: false } },
    ...fillIn(APPLY_SETTINGS, options),
    confirm: options.confirm,
  };
}
