import { z } from 'zod';
import { bytes, milliseconds } from './measures.ts';

/**
 * Costs and proof of an online swap, or of a rollback that keeps all writes: there it is the original that follows, and no clone is
 * made. A value is null if it did not get that far.
 */
const onlineSection = z.object({
  /** Time for which the target was closed while it was cloned. */
  cloneClosedMs: milliseconds.nullable(),
  /**
   * Longest time between two answers that safemigrate's client got around the closing for the clone, through PgBouncer if one was given;
   * null: not measured, e.g. since the role may have no further session.
   */
  cloneGapMs: milliseconds.nullable(),
  /**
   * WAL that the clone does not have yet, from its making to the cut-over: at most 60 points, each the largest of its part of the time.
   * In a rollback: WAL that the original does not have yet.
   * All WAL of the server counts, with that of the command on the clone.
   */
  lag: z.array(
    z.object({
      /** Time since the clone was made, right before the target was opened again, or since the rollback began. */
      atMs: milliseconds,
      /** Size of that WAL. */
      behindBytes: bytes,
    }),
  ),
  /** Time that the migrated clone needed to apply all writes in the target since it was cloned. */
  catchUpMs: milliseconds.nullable(),
  /** Number of the target's rows that were compared with those of the clone, while clients wrote. */
  rowsCompared: z.int().nullable(),
  /** Number of rows, and of tables without a key, that changed at each look, so that they could not be compared. */
  rowsUnsettled: z.int().nullable(),
  /** Time that the comparison took. */
  compareMs: milliseconds.nullable(),
  /** Parts of the clone that the comparison cannot prove, since the target has no such values: those that --catch-up fills. */
  notCompared: z.array(z.string()),
  /** Time for which the cut-over waited for its order; null: none was asked for (--postpone-file). */
  postponedMs: milliseconds.nullable(),
  /** Number of times that the target was closed for the cut-over. All but that of a swap that was done were given up. */
  attempts: z.int().nullable(),
  /** Time at which the cut-over that succeeded closed the target, as `lag` counts it. */
  cutOverAtMs: milliseconds.nullable(),
  /** Time for which the target was closed by the cut-over that succeeded. */
  cutOverClosedMs: milliseconds.nullable(),
  /** Longest time without an answer, as in `cloneGapMs`, around the cut-over that succeeded. */
  cutOverGapMs: milliseconds.nullable(),
  /** The original that follows the new target, so that a rollback keeps all writes; null: it was not asked for, or nothing was swapped. */
  wayBack: z
    .object({
      /** Time until which the original follows (ISO 8601); null if it does not. */
      until: z.string().nullable(),
      /** Process on the machine of the swap that ends it then; null if it does not follow. */
      watchdogPid: z.int().nullable(),
      /** Writes to the new target that do not go back, or that the original cannot apply. */
      limits: z.array(z.string()),
      /** Reason why it does not follow, although the swap was done; null if it does. */
      failure: z.string().nullable(),
    })
    .nullable(),
});

/** The outcome of `safemigrate swap`, if the rehearsal passed. */
export const swapSection = z.object({
  /**
   * `refused`: nothing was changed. `undone`: the target is open and not migrated; it has all that clients have written. It may
   * have been closed for a while.
   */
  outcome: z.enum(['swapped', 'undone', 'refused']),
  /** Reasons why the outcome is this one, in sentences; empty if it was swapped. */
  reasons: z.array(z.string()),
  /** The new name of the original database. In the result of a rollback null, but if it takes a rollback back. */
  original: z.string().nullable(),
  /** The new name of the migrated database, which a rollback has put aside. Absent if none has. */
  rolledBack: z.string().optional(),
  /** Rows written since the swap that only the database put aside has (`rollback --discard-writes`). Absent: there are none. */
  givenUp: z
    .object({
      /** Number of rows, as the server counts them; null: not known. */
      rows: z.int().nullable(),
      /** Reason why they are not known, or may not all be missing; null if they are exactly these. */
      reason: z.string().nullable(),
      /** Their tables; empty: it is not known which. */
      tables: z.array(z.string()),
    })
    .optional(),
  /** Time until which the original is kept (ISO 8601); null if no time was given. */
  keepUntil: z.string().nullable(),
  /** Time for which no session could connect to the target; the longest one if an online swap closed it several times. */
  stallMs: milliseconds.nullable(),
  /** Every time that no session could connect to the target, in their order. */
  closings: z.array(
    z.object({
      /** `clone`: for the clone of an online swap; `cut-over`: for one attempt at the cut-over; `exchange`: for the whole swap or rollback. */
      purpose: z.enum(['exchange', 'clone', 'cut-over']),
      /** Time until it was open again. */
      durationMs: milliseconds,
    }),
  ),
  /** Number of sessions on the target that were terminated. */
  sessionsEnded: z.int(),
  /** Steps of the swap, in their order. */
  steps: z.array(
    z.object({
      /** Name of the step. */
      name: z.string(),
      /** Time that the step took. */
      durationMs: milliseconds,
    }),
  ),
  /** Absent: the target was closed for the whole swap. */
  online: onlineSection.optional(),
});

export type SwapSection = z.infer<typeof swapSection>;
export type OnlineSection = z.infer<typeof onlineSection>;
