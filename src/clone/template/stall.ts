import type { ActivitySession } from '../../database/activity.ts';
import { SafemigrateError } from '../../errors.ts';
import { formatBytes, formatDuration } from '../../format.ts';
import type { CloneContext } from '../method.ts';
import { rankHere } from './assess-template.ts';
import type { TemplateStrategy } from './estimate-template.ts';
import { clientSessions, pauseBetweenTries } from './sessions.ts';

/**
 * Returns how long the statement may take, in milliseconds; 0 is no limit. If the target is in use, new connections wait no longer
 * than --limit stall. An attempt to clone files is always limited, since some file systems accept it and copy in full.
 */
export async function timeLimit(
  context: CloneContext,
  strategy: TemplateStrategy,
  present: readonly ActivitySession[],
): Promise<number> {
  const { maxStallMs } = context.options;
  const expected =
    rankHere(context, true).find((estimate) => estimate.strategy === strategy)?.milliseconds ?? 0;
  const busy = maxStallMs < NO_LIMIT_MS && (present.length > 0 || (await isVisited(context, expected)));
  refuseLongStall(context, expected, busy);
  // CREATE DATABASE itself waits up to 5 s for sessions to end, which is part of the statement's time.
  const cloneLimit = 5_000 + Math.max(5_000, expected * 8);
  if (strategy === 'clone') return busy ? Math.min(cloneLimit, maxStallMs) : cloneLimit;
  return busy ? maxStallMs : 0;
}

function refuseLongStall(context: CloneContext, expectedMs: number, busy: boolean): void {
  const { maxStallMs } = context.options;
  if (!busy || expectedMs <= maxStallMs) return;
  const { database } = context.target;
  throw new SafemigrateError(
    'STALL',
    `While ${database.name} (${formatBytes(database.sizeBytes)}) is copied, new connections to it wait: about ` +
      `${formatDuration(expectedMs)}, and --limit stall allows ${formatDuration(maxStallMs)}.`,
    {
      hint:
        'The target was not touched. Rehearse when it is not in use, allow it with --limit stall=DURATION, rehearse ' +
        'against a copy on another server, or use PostgreSQL 18 on a file system that clones files (XFS, btrfs, ZFS).',
    },
  );
}

/** The refusal after the time limit has ended a copy. */
export function stalled(context: CloneContext, limitMs: number): SafemigrateError {
  return new SafemigrateError(
    'STALL',
    `The copy took longer than ${formatDuration(limitMs)} and was ended, so that new connections to ` +
      `${context.target.database.name} would not wait longer.`,
    {
      sqlstate: '57014',
      hint: 'The target was not changed. Allow it with --limit stall=DURATION, or rehearse when it is not in use.',
    },
  );
}

/**
 * Whether short sessions come and go: no session was connected a moment ago, but the statement takes so long that a client that
 * connects during it would notice. So the server is asked several times who is connected now.
 */
async function isVisited({ control, target, signal }: CloneContext, expectedMs: number): Promise<boolean> {
  if (expectedMs < NOTICED_MS) return false;
  for (let look = 0; look < LOOKS; look++) {
    if ((await clientSessions(control, target.database.oid)).length > 0) return true;
    // At uneven intervals: a client that comes as often as we look could be missed each time.
    await pauseBetweenTries(2 * LOOK_EVERY_MS * Math.random(), signal);
  }
  return false;
}

const LOOKS = 20;
/** On average. */
const LOOK_EVERY_MS = 25;
const NOTICED_MS = 1_000;
/** The longest statement_timeout. */
export const NO_LIMIT_MS = 2 ** 31 - 1;
