import { z } from 'zod';
import { bytes, milliseconds, time } from './measures.ts';

/**
 * A time at production's size, extrapolated by a profile: the rate of the work that was measured, or a typical one if too little was
 * measured, times the size in the profile. Present only if it differs from what was measured.
 */
export const productionTime = z.object({
  ms: milliseconds,
  lowMs: milliseconds,
  highMs: milliseconds,
  basis: z.enum(['measured rate', 'typical rate']),
});

export const lockSection = z.object({
  relation: z.string(),
  /** The table, if the relation is an index: whoever uses the table uses the index. Absent otherwise. */
  indexOf: z.string().optional(),
  mode: z.string(),
  acquiredBy: z.string(),
  heldMs: milliseconds.nullable(),
  blocks: z.array(z.string()),
  /**
   * true if it was not seen: PostgreSQL takes it by rule. Of what a CALL or DO released before its end, `heldMs` is then the longest time
   * that can stay unseen. Absent otherwise.
   */
  byRule: z.boolean().optional(),
  atProductionSize: productionTime.optional(),
});

/**
 * Why `sql` is a note in brackets instead of the statement's text: the text is too large to be read, it was prepared in a place that
 * could not be observed, or there is none because an implicit transaction failed at its end.
 */
export const statementNote = z.enum(['unread', 'prepared elsewhere', 'implicit end']);

export const statementSection = z.object({
  index: z.int(),
  session: z.int(),
  sql: z.string(),
  /** Absent if `sql` is the statement's text. */
  note: statementNote.optional(),
  tag: z.string().nullable(),
  startedAt: time,
  durationMs: milliseconds,
  rows: z.int().nullable(),
  transaction: z.int(),
  explicit: z.boolean(),
  exactness: z.enum(['exact', 'group', 'sampled', 'unknown']),
  error: z
    .object({
      sqlstate: z.string(),
      message: z.string(),
      detail: z.string().nullable(),
      hint: z.string().nullable(),
      position: z.int().nullable(),
      /** The CONTEXT of the message: function calls, or the line of copied data. */
      where: z.string().nullable(),
      /** The statement inside a function that failed. */
      internalQuery: z.string().nullable(),
      schema: z.string().nullable(),
      table: z.string().nullable(),
      column: z.string().nullable(),
      dataType: z.string().nullable(),
      constraint: z.string().nullable(),
    })
    .nullable(),
  locks: z.array(lockSection).nullable(),
  rewrote: z.array(z.string()),
  walBytes: bytes.nullable(),
  atProductionSize: productionTime.optional(),
  /** Rows at production's size, by a profile, if they differ. */
  rowsAtProductionSize: z.int().optional(),
  /**
   * Present if this stands for many statements of one session with the same normalised text, as a command that sends thousands of
   * them gets: `sql`, `index`, `startedAt` and `transaction` are those of the first; `durationMs`, `rows` and `walBytes` are
   * sums, `locks` has those of any.
   */
  repeated: z
    .object({
      count: z.int(),
      /** Number of transactions that they ran in. */
      transactions: z.int(),
      /** false if there were so many different texts that only their first word is the same. */
      alike: z.boolean(),
      /** If they are not alike: hashes of the different texts without their values, which an apply compares with. */
      likenesses: z.array(z.string()).optional(),
      minMs: milliseconds,
      meanMs: milliseconds,
      maxMs: milliseconds,
      /** At most 10 % too high. */
      p99Ms: milliseconds,
      lastIndex: z.int(),
      lastStartedAt: time,
    })
    .optional(),
});

export const transactionOutcome = z.enum(['committed', 'rolled back', 'prepared', 'unknown']);

/** One transaction of the command; a statement outside BEGIN … COMMIT is a transaction of its own. */
export const transactionSection = z.object({
  /** The number that the statements of this transaction have in `transaction`. */
  transaction: z.int(),
  session: z.int(),
  startedAt: time,
  /** null if the session ended without reporting the end of the transaction. */
  endedAt: time.nullable(),
  /** `prepared`: PREPARE TRANSACTION ended it, and nothing has committed it or rolled it back by the end of the command. */
  outcome: transactionOutcome,
});

export type StatementNote = z.infer<typeof statementNote>;
export type StatementSection = z.infer<typeof statementSection>;
export type TransactionSection = z.infer<typeof transactionSection>;
export type ProductionTime = z.infer<typeof productionTime>;
