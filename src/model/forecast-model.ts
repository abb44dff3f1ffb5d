import { z } from 'zod';
import { bytes, milliseconds, time } from './measures.ts';
import { productionTime } from './statement-model.ts';

const openTransaction = z.object({
  ageMs: milliseconds,
  application: z.string().nullable(),
  /** `active`, `idle in transaction`, `prepared`, … */
  state: z.string().nullable(),
});

/**
 * What would happen on the target, estimated from what was measured on the clone and from the target's own statistics.
 * Rates are those between two readings, before and after the rehearsal. If the readings were less than 2 s apart, or no session could
 * connect in between, each rate is the larger one of that and of the average since the statistics were reset, provided that this
 * was at least a day ago.
 */
export const forecastSection = z.object({
  /** Rates, sessions and standbys are those of a profile, taken at this time; transactions that were open then are not in it. */
  profiledAt: time.optional(),
  sampledMs: milliseconds,
  /** The time that the average covers, if one was used; null: rates come from the sample alone. */
  averagedMs: milliseconds.nullable(),
  /** In the target database; a few of the transactions are safemigrate's own. */
  transactionsPerSecond: z.number().nonnegative().nullable(),
  /** On the target's server; `reserved` of the `max` connections are not available to ordinary roles. */
  sessions: z.object({ open: z.int(), max: z.int(), reserved: z.int() }),
  oldestTransaction: openTransaction.nullable(),
  preparedTransactions: z.object({ count: z.int(), oldestMs: milliseconds.nullable() }),
  /** Locks that block reads or writes: of those that one transaction has on a table and its indexes, the one with the longest queue. */
  locks: z.array(
    z.object({
      relation: z.string(),
      mode: z.string(),
      statement: z.int(),
      /** With a profile: at production's size. */
      heldMs: milliseconds.nullable(),
      atProductionSize: productionTime.optional(),
      blocks: z.array(z.string()),
      /** Scans of the relation and its indexes: an upper bound for the statements that read it. */
      readsPerSecond: z.number().nonnegative().nullable(),
      /** Rows inserted, updated and deleted. */
      writesPerSecond: z.number().nonnegative().nullable(),
      /** The source of both rates: `average` if at least one of them is an average. null: there are no rates. */
      ratesFrom: z.enum(['sample', 'average']).nullable(),
      /** Statements that would be waiting when the lock is released: held time × rate, but at most one for each transaction. */
      queued: z.int().nonnegative().nullable(),
      /** The open sessions and the waiting ones together would exceed the server's connections. */
      sessionsRunOut: z.boolean().nullable(),
      /** The oldest transaction with a conflicting lock: the request waits until it ends, and everybody else queues behind the request. */
      waitsFor: openTransaction.extend({ mode: z.string() }).nullable(),
    }),
  ),
  wal: z.object({
    writtenBytes: bytes.nullable(),
    /** null if the role may not see them. `behindBytes`: the lag after the run if the standby replayed nothing during it. */
    standbys: z
      .array(
        z.object({
          name: z.string(),
          synchronous: z.boolean(),
          lagBytes: bytes.nullable(),
          lagMs: milliseconds.nullable(),
          behindBytes: bytes.nullable(),
        }),
      )
      .nullable(),
    /** Replication slots without a consumer: they keep the WAL on the disk. */
    inactiveSlots: z.array(z.string()),
  }),
  /**
   * Needed at the peak: old and new files of rewritten relations, the growth of the database, and the WAL. Free: for an ordinary
   * user, on the file system of the database's default tablespace, before the clone was made; null if the target's files are not
   * on this machine, or the role may not see where they are. compressRatio: of the data on a ZFS that compresses; needed assumes
   * it for all but WAL. unsharedBytes: with a clone by snapshots, what the command wrote to new blocks at most, WAL of the clone
   * included; as long as other snapshots or clones of the target share the old ones, they stay on the disk as well.
   */
  disk: z.object({
    neededBytes: bytes.nullable(),
    freeBytes: bytes.nullable(),
    compressRatio: z.number().positive().optional(),
    unsharedBytes: bytes.nullable().optional(),
  }),
});

export type ForecastSection = z.infer<typeof forecastSection>;
