import {
  asOfNow,
  fillDefaults,
  makeRehearsalPlan,
  makeRunPlan,
  type RehearsalPlan,
  type RunPlan,
} from '../rehearsal/plan.ts';
import { REHEARSAL_DEFAULTS } from '../rehearsal/run-options.ts';
import { type RollbackOptions, SWAP_DEFAULTS, type SwapOptions, type SwapSettings } from './swap-options.ts';

/** How long the target is closed, who waits in the meantime, and what its mark says of the original. */
export interface WindowPlan {
  /** Consoles of PgBouncers whose clients wait. */
  readonly pgbouncer: readonly string[];
  /** How long no session may be able to connect to the target; beyond it everything is undone. Infinity: no limit. */
  readonly maxClosedMs: number;
  /** How long the original is to be kept, as its mark says; null: it does not say. */
  readonly keepOriginalMs: number | null;
}

/** Everything that a swap goes by, with every default filled in. */
export interface SwapPlan extends RehearsalPlan {
  readonly window: WindowPlan;
  /** SQL or a command that must accept the migrated clone; null: there is none. */
  readonly verify: string | null;
  /** Swaps although standbys are attached. */
  readonly allowStandbys: boolean;
  readonly confirm: SwapOptions['confirm'];
}

/** Everything that a rollback goes by, with every default filled in. */
export interface RollbackPlan extends RunPlan {
  readonly target: Pick<RehearsalPlan['target'], 'url' | 'urlEnv'>;
  /** Where the target is looked for. */
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  readonly window: WindowPlan;
  readonly allowStandbys: boolean;
  /** Run of the swap to roll back; null: the last one. */
  readonly run: string | null;
  readonly discardWrites: boolean;
  readonly confirm: RollbackOptions['confirm'];
}

/** @throws SafemigrateError `CONFIGURATION` for options that do not fit together. */
export function makeSwapPlan(options: SwapOptions): SwapPlan {
  const settings = fillDefaults<SwapSettings, typeof SWAP_DEFAULTS>(SWAP_DEFAULTS, options);
  const { pgbouncer, keepOriginalMs, verify, allowStandbys } = settings;
  return {
    ...asOfNow(makeRehearsalPlan(options)),
    window: { pgbouncer, keepOriginalMs, maxClosedMs: options.maxClosedMs ?? Number.POSITIVE_INFINITY },
    verify,
    allowStandbys,
    confirm: options.confirm,
  };
}

export function makeRollbackPlan(options: RollbackOptions): RollbackPlan {
  const { url = null, urlEnv = REHEARSAL_DEFAULTS.urlEnv, run = null, confirm } = options;
  const { pgbouncer = SWAP_DEFAULTS.pgbouncer, maxClosedMs = Number.POSITIVE_INFINITY } = options;
  return {
    ...makeRunPlan(options),
    target: { url, urlEnv },
    folder: options.folder ?? process.cwd(),
    env: options.env ?? process.env,
    window: { pgbouncer, maxClosedMs, keepOriginalMs: null },
    allowStandbys: options.allowStandbys ?? SWAP_DEFAULTS.allowStandbys,
    discardWrites: options.discardWrites ?? false,
    run,
    confirm,
  };
}
