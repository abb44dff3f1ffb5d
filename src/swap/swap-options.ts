import type { Report } from '../model/report.ts';
import type { RehearseOptions } from '../rehearsal/run-options.ts';

/** Settings of a swap, beyond those of its rehearsal. */
export interface SwapSettings {
  /** Consoles of PgBouncers whose clients wait during the swap. */
  readonly pgbouncer?: readonly string[];
  /** SQL or a command that must accept the migrated clone before it takes the target's place. */
  readonly verify?: string;
  /** How long the original is to be kept, as its mark says. */
  readonly keepOriginalMs?: number;
  /** Swaps although standbys are attached. */
  readonly allowStandbys?: boolean;
}

/** The one place of these defaults; null: nothing is set. */
export const SWAP_DEFAULTS = {
  pgbouncer: [],
  verify: null,
  keepOriginalMs: null,
  allowStandbys: false,
} as const satisfies { readonly [K in keyof SwapSettings]-?: SwapSettings[K] | null };

export interface SwapOptions extends RehearseOptions, SwapSettings {
  /** How long no session may be able to connect to the target; beyond it everything is undone. Default: no limit. */
  readonly maxClosedMs?: number;
  /** Gets the report of the rehearsal, and answers whether to go on. */
  readonly confirm: (report: Report) => Promise<boolean>;
}

export interface RollbackOptions
  extends Pick<
    SwapOptions,
    | 'url'
    | 'urlEnv'
    | 'pgbouncer'
    | 'maxClosedMs'
    | 'allowStandbys'
    | 'emit'
    | 'audit'
    | 'signal'
    | 'env'
    | 'folder'
  > {
  /** Run of the swap to roll back. Default: the last one. */
  readonly run?: string;
  /** Rolls back even if rows were written since the swap; they stay in the newer database. Default false. */
  readonly discardWrites?: boolean;
  readonly confirm: (target: string, original: string) => Promise<boolean>;
}
