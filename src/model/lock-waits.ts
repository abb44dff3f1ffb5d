import { z } from 'zod';
import { milliseconds } from './measures.ts';

/**
 * Waits for locks as the server counts them (`pg_stat_lock`), in all its databases: those that were longer than `deadlock_timeout`
 * and ended with the lock, not with an error. Absent before PostgreSQL 19.
 */
export const lockWaits = z.object({
  /** `deadlock_timeout`: shorter waits are not counted. */
  longerThanMs: milliseconds,
  /** Time in which they were counted. */
  overMs: milliseconds,
  /** One entry for each kind of lock that a session waited for. */
  kinds: z.array(
    z.object({
      /** The `locktype` of `pg_locks`: `relation`, `transactionid`, `tuple`, … */
      kind: z.string(),
      /** Number of waits. */
      waits: z.int(),
      /** Sum of their times. */
      waitedMs: milliseconds,
    }),
  ),
});

export type LockWaits = z.infer<typeof lockWaits>;
