import type { Report } from '../model/report.ts';
import type { RehearseOptions } from '../rehearsal/run-options.ts';
import type { GuardrailSettings } from './guardrails/guardrail-options.ts';

/** Settings of an apply, beyond those of its rehearsal and its guardrails. */
export interface ApplySettings {
  /** Why to apply although the rehearsal did not pass. */
  readonly force?: string;
  /** The oldest receipt that is accepted instead of a rehearsal. */
  readonly maxAgeMs?: number;
  /** Reruns of the command after a lock failure, if it is safe. */
  readonly retries?: number;
}

/** The one place of these defaults; null: nothing is set. */
export const APPLY_DEFAULTS = {
  force: null,
  maxAgeMs: 24 * 3_600_000,
  retries: 0,
} as const satisfies { readonly [K in keyof ApplySettings]-?: ApplySettings[K] | null };

export interface ApplyOptions extends RehearseOptions, ApplySettings {
  /** Gets the report of the rehearsal, and answers whether to go on. */
  readonly confirm: (report: Report) => Promise<boolean>;
  /** How the command is guarded while it runs. */
  readonly guardrails?: GuardrailSettings;
}
