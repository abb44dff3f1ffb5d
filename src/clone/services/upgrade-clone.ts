import { messageOf, SafemigrateError } from '../../errors.ts';
import { formatDuration, listed } from '../../format.ts';
import { withoutPasswords } from '../../ownership/shell-command.ts';
import type { CloneContext } from '../method.ts';
import type { ServiceClone, ServiceUpgrade, Source, SourceFacts, UpgradeMessages } from './clone-service.ts';
import { findOwnClone } from './destroy-clone.ts';
import { callsOf, GRACE_MS, type OrderedClone, pollClone } from './order-clone.ts';
import type { ListedService } from './service-list.ts';

/** A service that upgrades clones. */
export type UpgradingService = ListedService & { readonly upgrade: ServiceUpgrade };

export function upgradesClones(service: ListedService): service is UpgradingService {
  return service.upgrade !== undefined;
}

/** The end of an upgrade by the service. */
export type CloneUpgrade = { readonly durationMs: number; readonly differences: readonly string[] } & (
  | { readonly upgraded: ServiceClone }
  | ({ readonly upgraded: null; readonly reason: string } & UpgradeMessages)
);

/**
 * Finds the newest release of a major version to which the service would upgrade the source.
 * @throws SafemigrateError `CLONE` if it offers none.
 */
export async function offeredRelease(
  service: UpgradingService,
  context: CloneContext,
  source: Source,
  facts: SourceFacts,
  major: number,
): Promise<string> {
  const offered = await service.upgrade.offered(callsOf(service, context), source, facts);
  const [newest] = offered.filter((release) => majorOfRelease(release) === major).sort(newestFirst);
  if (newest !== undefined) return newest;
  const instead = offered.length === 0 ? 'It offers none at all' : `It offers ${listed(offered)}`;
  throw new SafemigrateError(
    'CLONE',
    `${service.title} offers no upgrade of ${source.at(-1)} to PostgreSQL ${major}. ${instead}.`,
    {
      hint: 'Name another version with --to, or upgrade the minor release of the source first. Nothing was made, and the target was not touched.',
    },
  );
}

function majorOfRelease(release: string): number {
  return Number(release.split('.')[0]);
}

function newestFirst(one: string, other: string): number {
  return other.localeCompare(one, 'en', { numeric: true });
}

/** Time in which an ordered upgrade begins, even if the service calls the clone ready meanwhile. */
const BEGINS_WITHIN_MS = 10 * 60_000;
/** Time for which the clone must stay as before until its upgrade has failed: the facts of a list may be of different moments. */
const SETTLES_WITHIN_MS = 15_000;
/** The clock of the service may be ahead of ours by this. */
const CLOCK_DIFFERENCE_MS = 60_000;

/**
 * Has the service upgrade the clone of this run, and waits. Nothing but that clone is changed: its name, its marks and its identity
 * are checked first.
 * @throws SafemigrateError `NOT_OURS` if a check fails; `CLONE` if the service refuses the order, or is not done in the clone's lifetime.
 */
export async function upgradeClone(
  service: UpgradingService,
  context: CloneContext,
  { order, facts, ready }: OrderedClone,
  release: string,
): Promise<CloneUpgrade> {
  const { source, name } = order;
  const own = await findOwnClone(service, callsOf(service, context), source, name, 'upgraded');
  if (own?.id !== ready.id)
    throw new SafemigrateError('NOT_OURS', `${name} at ${service.title} is not the clone that was made.`, {
      hint: `It was not upgraded. Look at it yourself, with ${service.program}.`,
    });
  const since = new Date(Date.now() - CLOCK_DIFFERENCE_MS);
  const started = performance.now();
  const from = { source, facts };
  const differences = await service.upgrade.order(callsOf(service, context, GRACE_MS), own, release, from);
  const work = { of: 'the upgrade of the clone', forMs: Date.parse(order.expiresAt) - Date.now() };
  const end = await pollClone(service, context, order, work, endOfUpgrade(release));
  const durationMs = performance.now() - started;
  if (typeof end !== 'string') return { durationMs, differences, upgraded: end };
  const explained = await explain(service, context, own, source, since);
  return { durationMs, differences, upgraded: null, reason: end, ...explained };
}

/**
 * Judges each list: an upgrade that fails leaves a ready clone of the old release, with no order pending.
 * @returns the upgraded clone, the reason why the upgrade has failed, or undefined until either is known.
 */
export function endOfUpgrade(
  release: string,
): (clone: ServiceClone | undefined) => ServiceClone | string | undefined {
  let hasBegun = false;
  let readySince: number | null = null;
  let quietSince: number | null = null;
  return (clone) => {
    if (clone === undefined || clone.state === 'deleting') return 'the clone does not exist any more';
    if (clone.state === 'failed') return 'the clone cannot be used any more';
    const isReady = clone.state === 'ready';
    if (isReady && clone.release === release) return clone;
    const isQuiet = isReady && !clone.isUpgradePending;
    hasBegun ||= !isQuiet;
    const now = performance.now();
    readySince = isReady ? (readySince ?? now) : null;
    quietSince = isQuiet ? (quietSince ?? now) : null;
    if (hasBegun && quietSince !== null && now - quietSince >= SETTLES_WITHIN_MS)
      return `the clone is still PostgreSQL ${clone.release} afterwards`;
    if (readySince !== null && now - readySince >= BEGINS_WITHIN_MS)
      return `the clone was still PostgreSQL ${clone.release} after ${formatDuration(BEGINS_WITHIN_MS)}`;
    return undefined;
  };
}

/** Asks the service why, without secrets. A message that cannot be read must not hide that the upgrade has failed. */
async function explain(
  service: UpgradingService,
  context: CloneContext,
  clone: ServiceClone,
  source: Source,
  since: Date,
): Promise<UpgradeMessages> {
  try {
    const { events, log } = await service.upgrade.explain(callsOf(service, context), clone, source, since);
    return { events: events.map(withoutPasswords), log: log.map(withoutPasswords) };
  } catch (error) {
    context.signal.throwIfAborted();
    return { events: [`its messages could not be read: ${messageOf(error)}`], log: [] };
  }
}
