import { readWalSpace, type WalSpace } from '../../database/wal-space.ts';
import { SafemigrateError } from '../../errors.ts';
import { formatDuration } from '../../format.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import type { TargetState } from '../../proof/target-state.ts';
import { prepare, type RehearsalContext } from '../../rehearsal/prepare.ts';
import { withScope } from '../../rehearsal/with-scope.ts';
import { swapObjections } from '../preflight.ts';
import { FOR_SUCCESSOR } from '../successor.ts';
import type { SwapPlan } from '../swap-plan.ts';
import { readWriteCounters } from './counters.ts';
import { findOwnConnection, type OwnConnection, withoutLogin } from './own-connection.ts';
import { onlineObstacles } from './preconditions.ts';
import { openInTarget } from './source.ts';

/** Result of the checks before an online swap: how the server connects to itself, or what prevents the swap. */
type Checked = ({ readonly way: OwnConnection } | { readonly objections: string[] }) & {
  /** Space on the disk of the server's WAL; null if it cannot be seen. */
  readonly walSpace: WalSpace | null;
};

/** Checks everything that can be checked before anything is made. @param before the target as it was rehearsed on. */
export async function checkOnline(
  prepared: RehearsalContext,
  before: TargetState,
  plan: Pick<SwapPlan, 'allowStandbys' | 'window' | 'online'>,
): Promise<Checked> {
  const { control, target, run, audit } = prepared.context;
  const { wayBackMs, minFreeBytes } = plan.online;
  const walSpace = await readWalSpace(control, target, minFreeBytes);
  const obstacles = await onlineObstacles(control, target, wayBackMs !== null, walSpace);
  const objections = [
    ...(await swapObjections(prepared, before, plan)),
    ...obstacles.map(({ reason, wayOut }) => `${reason}: ${wayOut}`),
    ...tooLong(cloneTime(prepared), plan),
  ];
  if (objections.length > 0) return { walSpace, objections };
  const subject = { ...prepared.context, settings: prepared.settings, audit: withoutLogin(audit) };
  return withSession(openInTarget(subject, 'check'), async (inside) => {
    if ((await readWriteCounters(inside)).largeObjects) return { walSpace, objections: [LARGE_OBJECTS] };
    const { superuser, name } = target.role;
    const way = await findOwnConnection(inside, { settings: target.settings, run, superuser });
    if (typeof way === 'string') return { walSpace, way };
    const failed = `the server cannot log in to itself as ${name} (${way.failure}): ${OWN_LOGIN}`;
    return { walSpace, objections: [failed] };
  });
}

const LARGE_OBJECTS = 'the target has large objects, which are not replicated: swap without --online';
const OWN_LOGIN = 'permit it in pg_hba.conf, and name the password in the URL of the target';

/** Estimate of the time for which the target is closed while it is cloned, in milliseconds. */
function cloneTime({ choice }: RehearsalContext): number {
  return choice.assessment.readyMs;
}

function tooLong(cloneMs: number, { window: { maxClosedMs } }: Pick<SwapPlan, 'window'>): string[] {
  if (cloneMs <= maxClosedMs) return [];
  return [
    `the target would be closed for about ${formatDuration(cloneMs)} while it is cloned, as estimated, which is more than --limit closed allows`,
  ];
}

export type OnlineExamination = Awaited<ReturnType<typeof examineOnline>>;

/** Finds out, without a rehearsal, what prevents an online swap of the target, and for how long it would be closed. It changes nothing. */
export async function examineOnline(plan: SwapPlan) {
  const { result } = await withScope(plan, async (scope, stop) => {
    const prepared = await prepare(scope, stop, { ...plan, clone: { ...plan.clone, ...FOR_SUCCESSOR } });
    const checked = await checkOnline(prepared, prepared.stateBefore, plan);
    const objections = 'objections' in checked ? checked.objections : [];
    return {
      database: prepared.context.target.database.name,
      objections,
      cloneClosedMs: cloneTime(prepared),
      wayBack: plan.online.wayBackMs !== null,
      walSpace: checked.walSpace,
    };
  });
  return result;
}

/**
 * Checks before the rehearsal, which may take long.
 * @returns estimate of the time for which the target is closed while it is cloned.
 * @throws SafemigrateError `REFUSED` with everything that prevents the swap.
 */
export async function requireOnline(plan: SwapPlan): Promise<number> {
  const { database, objections, cloneClosedMs, walSpace } = await examineOnline(plan);
  if (objections.length === 0 && !walSpace) plan.emit({ type: 'notice', message: UNSEEN });
  if (objections.length === 0) return cloneClosedMs;
  const list = objections.map((each) => `\n  - ${each}`).join('');
  throw new SafemigrateError('REFUSED', `${database} cannot be swapped online:${list}`, {
    hint: 'Nothing was touched. Without --online the target is closed while the command runs on the clone.',
  });
}

const UNSEEN =
  'the disk of pg_wal cannot be seen from here (--limit free-disk): only --limit kept-wal keeps the replication slot from filling it';
