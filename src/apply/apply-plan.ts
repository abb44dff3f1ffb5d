import { asOfNow, fillDefaults, makeRehearsalPlan, type RehearsalPlan } from '../rehearsal/plan.ts';
import { APPLY_DEFAULTS, type ApplyOptions, type ApplySettings } from './apply-options.ts';
import {
  GUARDRAIL_DEFAULTS,
  type GuardrailSettings,
  type Guardrails,
} from './guardrails/guardrail-options.ts';

/** Everything that an apply goes by, with every default filled in. */
export interface ApplyPlan extends RehearsalPlan {
  /** Why to apply although the rehearsal did not pass; null: then it is refused. */
  readonly force: string | null;
  /** The oldest receipt that is accepted. */
  readonly maxAgeMs: number;
  /** Reruns of the command after a lock failure. */
  readonly retries: number;
  readonly guardrails: Guardrails;
  readonly confirm: ApplyOptions['confirm'];
}

/** @throws SafemigrateError `CONFIGURATION` for options that do not fit together. */
export function makeApplyPlan(options: ApplyOptions): ApplyPlan {
  return {
    ...asOfNow(makeRehearsalPlan(options)),
    ...fillDefaults<ApplySettings, typeof APPLY_DEFAULTS>(APPLY_DEFAULTS, options),
    guardrails: fillDefaults<GuardrailSettings, typeof GUARDRAIL_DEFAULTS>(
      GUARDRAIL_DEFAULTS,
      options.guardrails ?? {},
    ),
    confirm: options.confirm,
  };
}
