import { type ActivitySession, type Arrivals, readArrivals } from '../../database/activity.ts';
import { SafemigrateError } from '../../errors.ts';
import { formatBytes, formatDuration } from '../../format.ts';
import { COUNTS_AT_ONCE } from '../../postgres/connection/supported-versions.ts';
import type { CloneContext } from '../method.ts';
import { visitsOf } from '../turns.ts';
import { rankHere } from './assess-template.ts';
import type { TemplateStrategy } from './estimate-template.ts';
import { pauseBetweenTries } from './sessions.ts';

/**
 * How long the statement may take: where the target is in use, newcomers wait no longer than --max-stall. An attempt
 * to clone files is limited anyway, since some file systems accept it and copy in full.
 */
export async function timeLimit(
  context: CloneContext,
  strategy: TemplateStrategy,
  present: readonly ActivitySession[],
): Promise<number> {
  const { maxStallMs } = context.limits;
  const expected =
    rankHere(context, true).find((estimate) => estimate.strategy === strategy)?.milliseconds ?? 0;
  const busy = maxStallMs < NO_LIMIT_MS && (present.length > 0 || (await isFelt(context, expected)));
  refuseLongStall(context, expected, busy);
  // CREATE DATABASE itself waits up to 5 s for sessions to go; that is part of the statement's time.
  const cloneLimit = 5_000 + Math.max(5_000, expected * 8);
  if (strategy === 'clone') return busy ? Math.min(cloneLimit, maxStallMs) : cloneLimit;
  return busy ? maxStallMs : 0;
}

function refuseLongStall(context: CloneContext, expectedMs: number, busy: boolean): void {
  const { maxStallMs } = context.limits;
  if (!busy || expectedMs <= maxStallMs) return;
  const { database } = context.target;
  throw new SafemigrateError(
    'STALL',
    `While ${database.name} (${formatBytes(database.sizeBytes)}) is copied, new connections to it wait: about ` +
      `${formatDuration(expectedMs)}, and --max-stall allows ${formatDuration(maxStallMs)}.`,
    {
      hint:
        'The target was not touched. Rehearse when it is not in use, allow it with --max-stall DURATION, rehearse ' +
        'against a copy on another server, or use PostgreSQL 18 on a file system that clones files (XFS, btrfs, ZFS).',
    },
  );
}

/** The refusal of a copy that was ended by its time limit. */
export function stalled(context: CloneContext, limitMs: number): SafemigrateError {
  return new SafemigrateError(
    'STALL',
    `The copy took longer than ${formatDuration(limitMs)} and was ended, so that new connections to ` +
      `${context.target.database.name} would not wait longer.`,
    {
      sqlstate: '57014',
      hint: 'The target was not changed. Allow it with --max-stall DURATION, or rehearse when it is not in use.',
    },
  );
}

/** Nobody is connected, but a statement that would be felt is to come where others come and go. */
async function isFelt(context: CloneContext, expectedMs: number): Promise<boolean> {
  if (expectedMs < FELT_MS) return false;
  const { control, target } = context;
  const { oid, arrivals: first } = target.database;
  const uncounted = target.server.versionNum < COUNTS_AT_ONCE ? 1 : 0;
  const areOurs = ({ sessions }: Arrivals) =>
    sessions - first.sessions <= visitsOf(context).sessions + uncounted;
  const now = await readArrivals(control, oid);
  if (areOurs(now) && now.atMs - first.atMs >= OBSERVED_MS) return false;
  // There may be more of ours, of which nobody keeps count; but none comes from now on.
  await pauseBetweenTries(OBSERVED_MS, context.signal);
  const later = await readArrivals(control, oid);
  return later.sessions > now.sessions && !areOurs(later);
}

const OBSERVED_MS = 250;
const FELT_MS = 1_000;
/** The longest statement_timeout. */
export const NO_LIMIT_MS = 2 ** 31 - 1;
