import type { Report } from '../model/report.ts';
import type { RehearseOptions } from '../rehearsal/run-options.ts';
import type { GuardrailOptions } from './guardrails/guardrail-options.ts';

export interface ApplyOptions extends RehearseOptions {
  /** Shown what was rehearsed: whether to go on. */
  readonly confirm: (report: Report) => Promise<boolean>;
  /** Why to apply although the rehearsal did not pass. */
  readonly force?: string;
  /** Of a receipt that stands for the rehearsal. Default 24 h. */
  readonly maxAgeMs?: number;
  /** How often the command may be run again where it failed because of a lock. Default 0. */
  readonly retries?: number;
  /** How the command is guarded while it runs. */
  readonly during?: Omit<GuardrailOptions, 'listen' | 'redact'>;
}
