import type { Report } from '../model/report.ts';
import type { RehearseOptions } from '../rehearsal/run-options.ts';

export interface SwapOptions extends RehearseOptions {
  /** Consoles of PgBouncers whose clients are to wait meanwhile. */
  readonly pgbouncer?: readonly string[];
  /** For how long nobody may be able to connect to the target; beyond it everything is undone. Default: no limit. */
  readonly maxClosedMs?: number;
  /** SQL or a command that must agree to the migrated clone before it takes the target's place. */
  readonly verify?: string;
  /** For how long the original is meant to be kept, which is noted in its mark. Default: nobody says. */
  readonly keepOriginalMs?: number;
  /** Sessions on standbys are taken care of. Default false. */
  readonly allowStandbys?: boolean;
  /** Shown what the rehearsal found: whether to go on. */
  readonly confirm: (report: Report) => Promise<boolean>;
}
