import { SafemigrateError, sqlstateOf } from '../../errors.ts';
import { formatDuration } from '../../format.ts';
import { inTransaction } from '../../ownership/reopen.ts';
import { DURATION } from '../../value-types.ts';
import type { SwapSubject } from '../rename.ts';
import { drain, type Follower } from './follower.ts';

/** An attempt at a cut-over that did not end in time; the target can be opened, and the clone follows it as before. */
export class MissedCutOver extends Error {
  /** By which the time that it would have needed is found out after the opening; null: it closed nothing. */
  readonly progress: AttemptProgress | null;

  constructor(message: string, progress: AttemptProgress | null) {
    super(message);
    this.progress = progress;
  }
}

/** The state of an attempt. Times are those of performance.now(). */
export interface AttemptProgress {
  readonly closedAt: number;
  /** Time for which it waited for counters, which the limit does not include. */
  countedMs: number;
  /** When the follower had the last writes; undefined: not in time. */
  drainedAt?: number;
  /** Reads the closed target; it ends after the opening if need be. */
  readonly reading: Promise<{ readonly readAt: number; readonly sequences: readonly string[] } | undefined>;
}

/** The target, and the database that follows it. */
interface Pair {
  readonly subject: SwapSubject;
  readonly follower: Follower;
}

/** Longest time for which an attempt that was given up is looked at, while the target is open. */
const LOOKED_AT_MS = 30_000;

/** An attempt as it would have been: all but the hand-over, and the statements that this begins with. */
export interface NeededTime {
  readonly readyMs: number;
  readonly sequences: readonly string[];
}

/**
 * Finds out, with the target open again, how long an attempt would have needed until everything was ready for the hand-over. Clients
 * write meanwhile, so this is rather too long.
 * @returns undefined if it takes too long to find out.
 */
export async function timeUntilReady(
  { subject, follower }: Pair,
  progress: AttemptProgress,
): Promise<NeededTime | undefined> {
  const { control, signal } = subject;
  if (progress.drainedAt === undefined) {
    const spentMs = await drain(control, follower, { timeoutMs: LOOKED_AT_MS, signal });
    if (spentMs === undefined) return undefined;
    progress.drainedAt = performance.now();
  }
  const read = await progress.reading;
  if (!read) return undefined;
  const readyMs = Math.max(progress.drainedAt, read.readAt) - progress.closedAt - progress.countedMs;
  return { readyMs, sequences: read.sequences };
}

/** Takes a hand-over back that only served to measure. */
class TakenBack extends Error {}

/**
 * Does a hand-over with the target open, and takes it back: its locks make the worker wait, so this is done for a cut-over that is given
 * up. @returns the time that it took; undefined if it fails.
 */
export async function timeOfHandOver(
  { follower }: Pick<Pair, 'follower'>,
  statements: readonly string[],
  work: () => Promise<void>,
): Promise<number | undefined> {
  const startedAt = performance.now();
  let tookMs: number | undefined;
  const limited = [`SET LOCAL statement_timeout = ${LOOKED_AT_MS}`, ...statements];
  try {
    await inTransaction(follower.inside, limited, async () => {
      await work();
      tookMs = performance.now() - startedAt;
      throw new TakenBack();
    });
  } catch (error) {
    const isOfServer = error instanceof SafemigrateError || sqlstateOf(error) !== undefined;
    if (!(error instanceof TakenBack) && !isOfServer) throw error;
  }
  return tookMs;
}

const STEP_MS = 100;
/** The next attempt meets other writes. */
const MARGIN = 1.25;

/** `; the shortest would have taken about 870 ms: --limit cut-over=1100ms would have done` */
export function neededWords(neededMs: number): string {
  const enoughMs = Math.ceil((neededMs * MARGIN) / STEP_MS) * STEP_MS;
  return `; the shortest would have taken about ${formatDuration(neededMs)}: --limit cut-over=${DURATION.format(enoughMs)} would have done`;
}
