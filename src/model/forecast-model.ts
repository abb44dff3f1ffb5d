import { z } from 'zod';
import { lockWaits } from './lock-waits.ts';
import { bytes, milliseconds, time } from './measures.ts';
import { productionTime } from './statement-model.ts';

/** A transaction that was open on the target when it was read. */
const openTransaction = z.object({
  /** Time since it began. */
  ageMs: milliseconds,
  /** application_name of its session; null: it is not visible, or there is no session. */
  application: z.string().nullable(),
  /** `active`, `idle in transaction`, `prepared`, … */
  state: z.string().nullable(),
});

/**
 * Effects on the target, estimated from what was measured on the clone and from the target's own statistics.
 * Rates are those between two readings, before and after the rehearsal. If the readings were less than 2 s apart, or no session could
 * connect in between, each rate is the larger one of that and of the average since the statistics were reset, provided that this
 * was at least a day ago.
 */
export const forecastSection = z.object({
  /** Rates, sessions and standbys are those of a profile, taken at this time; transactions that were open then are not in it. */
  profiledAt: time.optional(),
  /** Time between the two readings of the statistics. */
  sampledMs: milliseconds,
  /** The time that the average covers, if one was used; null: rates come from the sample alone. */
  averagedMs: milliseconds.nullable(),
  /** In the target database; a few of the transactions are safemigrate's own. */
  transactionsPerSecond: z.number().nonnegative().nullable(),
  /** On the target's server; `reserved` of the `max` connections are not available to ordinary roles. */
  sessions: z.object({
    /** Sessions that are open. */
    open: z.int(),
    /** max_connections. */
    max: z.int(),
    /** Connections that are reserved. */
    reserved: z.int(),
  }),
  /** The transaction that had been open for the longest time; null: there was none. */
  oldestTransaction: openTransaction.nullable(),
  /** Transactions that were prepared and are neither committed nor rolled back. */
  preparedTransactions: z.object({
    /** Number of them. */
    count: z.int(),
    /** Age of the oldest one; null: there are none. */
    oldestMs: milliseconds.nullable(),
  }),
  /** Waits for locks on the target's server until the rehearsal ended; with a profile, until the profile was taken. Absent before PostgreSQL 19. */
  lockWaits: lockWaits.optional(),
  /** Locks that block reads or writes: of those that one transaction has on a table and its indexes, the one with the longest queue. */
  locks: z.array(
    z.object({
      /** Qualified name of the relation. */
      relation: z.string(),
      /** Lock mode in PostgreSQL's words. */
      mode: z.string(),
      /** `index` of the statement that takes the lock. */
      statement: z.int(),
      /** With a profile: at production's size. */
      heldMs: milliseconds.nullable(),
      /**
       * The time for which it would be held at production's size; absent without a profile, or if it is the
       * same.
       */
      atProductionSize: productionTime.optional(),
      /** Work on the relation that must wait, as in `statements[].locks[].blocks`. */
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
      waitsFor: openTransaction
        .extend({
          /** Lock mode that the transaction has on the relation. */
          mode: z.string(),
        })
        .nullable(),
    }),
  ),
  /** WAL of the command, and the standbys and slots that it concerns. */
  wal: z.object({
    /** WAL that the command wrote on the clone; null: it could not be read. */
    writtenBytes: bytes.nullable(),
    /** null if the role may not see them. `behindBytes`: the lag after the run if the standby replayed nothing during it. */
    standbys: z
      .array(
        z.object({
          /** application_name of the standby. */
          name: z.string(),
          /** It takes part in synchronous replication. */
          synchronous: z.boolean(),
          /** WAL that it had not replayed; null: it is not visible. */
          lagBytes: bytes.nullable(),
          /** Its replay lag; null: it is not visible, or the standby was idle. */
          lagMs: milliseconds.nullable(),
          /** Lag after the run if it replayed nothing; null if one of the two amounts is not known. */
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
    /** Space needed at the peak; null if a part of it could not be measured. */
    neededBytes: bytes.nullable(),
    /** Free space; null if it could not be read. */
    freeBytes: bytes.nullable(),
    /** Size of the data divided by the space that it takes; absent without compression. */
    compressRatio: z.number().positive().optional(),
    /**
     * Blocks that the clone no longer shares with the target; null if not measured, absent with other
     * methods.
     */
    unsharedBytes: bytes.nullable().optional(),
  }),
});

export type ForecastSection = z.infer<typeof forecastSection>;
