import { SafemigrateError } from '../errors.ts';
import { NOT_FELT_IN_SWAP } from '../hazards/catalogue.ts';
import {
  asOfNow,
  makeRehearsalPlan,
  makeRunPlan,
  type RehearsalPlan,
  type RunPlan,
} from '../rehearsal/plan.ts';
import { fillIn, type PlanOf } from '../settings.ts';
import { KEEPS_OIDS } from './online/online-rehearsal.ts';
import { ROLLBACK_SETTINGS, type RollbackOptions, SWAP_SETTINGS, type SwapOptions } from './swap-settings.ts';

type Settings = PlanOf<typeof SWAP_SETTINGS>;

/** How long the target is closed, who waits in the meantime, and what its mark says of the original. */
export interface WindowPlan extends Omit<Settings['window'], 'maxClosedMs'> {
  /** Infinity: no limit. */
  readonly maxClosedMs: number;
}

/** Pauses between the attempts at a cut-over, of which there are ten: each ends all sessions. */
const CUT_OVER_PAUSES_MS = [1, 2, 4, 8, 16, 30, 30, 30, 30].map((seconds) => seconds * 1_000);

/** Everything that a swap goes by, with every default filled in. */
export interface SwapPlan extends RehearsalPlan, Omit<Settings, 'window'> {
  readonly window: WindowPlan;
  readonly pausesMs: readonly number[];
  readonly confirm: SwapOptions['confirm'];
}

/** Everything that a rollback goes by, with every default filled in. */
export interface RollbackPlan extends RunPlan, Omit<PlanOf<typeof ROLLBACK_SETTINGS>, 'window'> {
  /** Where the target is looked for. */
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  readonly window: WindowPlan;
  readonly pausesMs: readonly number[];
  /** Run of the swap to roll back; null: the last one. */
  readonly run: string | null;
  readonly confirm: RollbackOptions['confirm'];
}

/** @throws SafemigrateError `CONFIGURATION` for options that do not fit together. */
export function makeSwapPlan(options: SwapOptions): SwapPlan {
  const { window, ...settings } = fillIn(SWAP_SETTINGS, options);
  const plan = asOfNow(makeRehearsalPlan(options));
  if (settings.online.enabled) refuseWithOnline(plan);
  const reason = 'in a swap the command runs on a clone that no session uses';
  const accept = [...plan.policy.accept, ...NOT_FELT_IN_SWAP.map((code) => ({ code, reason }))];
  return {
    ...plan,
    policy: { ...plan.policy, accept },
    ...settings,
    window: { ...window, maxClosedMs: window.maxClosedMs ?? Number.POSITIVE_INFINITY },
    pausesMs: CUT_OVER_PAUSES_MS,
    confirm: options.confirm,
  };
}

const OTHER_OIDS =
  "the rehearsal's clone would have other OIDs than the target, and tables are matched by OID";
const UNSEEN = 'the statements of the rehearsal decide whether a clone can follow the target';

/** @throws SafemigrateError `CONFIGURATION` for options with which the rehearsal cannot show how a clone could follow the target. */
function refuseWithOnline({ clone, proxy }: RehearsalPlan): void {
  const conflicts: readonly (readonly [holds: boolean, option: string, why: string])[] = [
    [clone.method !== 'auto' && !KEEPS_OIDS.has(clone.method), `--clone ${clone.method}`, OTHER_OIDS],
    [clone.rehearsalUrl !== null, '--clone-to', OTHER_OIDS],
    [clone.schemaOnly, '--schema-only', OTHER_OIDS],
    [proxy.observe === 'off', 'SAFEMIGRATE_OBSERVE=off', UNSEEN],
  ];
  const found = conflicts.filter(([holds]) => holds);
  if (found.length === 0) return;
  const message = found.map(([, option, why]) => `--online does not go with ${option}: ${why}.`).join('\n');
  const hint = 'Leave it out, or swap without --online. Nothing was touched.';
  throw new SafemigrateError('CONFIGURATION', message, { hint });
}

export function makeRollbackPlan(options: RollbackOptions): RollbackPlan {
  const { window, ...settings } = fillIn(ROLLBACK_SETTINGS, options);
  return {
    ...makeRunPlan(options),
    ...settings,
    folder: options.folder ?? process.cwd(),
    env: options.env ?? process.env,
    window: { ...window, keepOriginalMs: null, maxClosedMs: window.maxClosedMs ?? Number.POSITIVE_INFINITY },
    pausesMs: CUT_OVER_PAUSES_MS,
    run: options.run ?? null,
    confirm: options.confirm,
  };
}
