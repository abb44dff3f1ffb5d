import { z } from 'zod';
import { bytes, milliseconds, time } from './measures.ts';

/**
 * A time at production's size, extrapolated by a profile: the rate of the work that was measured, or a typical one if too little was
 * measured, times the size in the profile. Present only if it differs from what was measured.
 */
export const productionTime = z.object({
  /** Best estimate of the time. */
  ms: milliseconds,
  /** Lower end of the estimate. */
  lowMs: milliseconds,
  /** Upper end of the estimate. */
  highMs: milliseconds,
  /** Source of the rate of work: measured in this run, or typical of such work. */
  basis: z.enum(['measured rate', 'typical rate']),
});

/** A lock on a relation that the statement added to those of its transaction. */
export const lockSection = z.object({
  /** Qualified name of the relation, with quotes if necessary. */
  relation: z.string(),
  /** The table, if the relation is an index: whoever uses the table uses the index. Absent otherwise. */
  indexOf: z.string().optional(),
  /** Lock mode in PostgreSQL's words, such as `ACCESS EXCLUSIVE`. */
  mode: z.string(),
  /** Command tag of the statement, such as `ALTER TABLE`; its first word if it failed. */
  acquiredBy: z.string(),
  /** Time from the start of the statement to the end of its transaction; null: the end was not seen. */
  heldMs: milliseconds.nullable(),
  /**
   * Work on the relation that must wait: `reads`, `writes`, `schema changes`, …; empty for a relation that
   * the command created.
   */
  blocks: z.array(z.string()),
  /**
   * true if it was not seen: PostgreSQL takes it by rule. Of what a CALL or DO released before its end, `heldMs` is then the longest time
   * that can stay unseen. Absent otherwise.
   */
  byRule: z.boolean().optional(),
  /** `heldMs` at production's size; absent without a profile, or if it is the same. */
  atProductionSize: productionTime.optional(),
});

/**
 * Reason why `sql` is a note in brackets instead of the statement's text: the text is too large to be read, it was prepared in a place that
 * could not be observed, or there is none because an implicit transaction failed at its end, or a function was called by its OID.
 */
export const statementNote = z.enum(['unread', 'prepared elsewhere', 'implicit end', 'function call']);

/** A statement that the command sent, as the server finished it. */
export const statementSection = z.object({
  /** Number of the statement, from 1, in the order of beginning over all sessions. */
  index: z.int(),
  /** Number of the session that sent it, from 1. */
  session: z.int(),
  /** Text of the statement, without secrets, and with `--redact` without literals. */
  sql: z.string(),
  /** Absent if `sql` is the statement's text. */
  note: statementNote.optional(),
  /**
   * File of the working folder that has the statement, or the one that the migration tool's history names for it. Looked up for
   * statements of hazards and for those that failed; absent: not found.
   */
  file: z.string().optional(),
  /** Line of the statement in `file`, from 1; absent: not found there. */
  line: z.int().optional(),
  /** Command tag that the server answered, such as `CREATE TABLE`; null: it failed. */
  tag: z.string().nullable(),
  /** Time at which the statement was sent. */
  startedAt: time,
  /** Time until the server's answer was complete; a sum if `repeated` is present. */
  durationMs: milliseconds,
  /** Rows that the command tag counts; null: the tag has no count, or the statement failed. */
  rows: z.int().nullable(),
  /** Number of the transaction that it ran in, as in `transactions`. */
  transaction: z.int(),
  /** The command began the transaction with BEGIN; false: the statement was a transaction by itself. */
  explicit: z.boolean(),
  /**
   * Source of the locks. `exact`: read after the statement. `group`: read once for several similar
   * statements. `sampled`: read now and then. `unknown`: not read, for example because the statement failed.
   */
  exactness: z.enum(['exact', 'group', 'sampled', 'unknown']),
  /** The server's error; null: the statement succeeded. */
  error: z
    .object({
      /** SQLSTATE, five characters. */
      sqlstate: z.string(),
      /** Primary message. */
      message: z.string(),
      /** DETAIL; null: the server sent none. */
      detail: z.string().nullable(),
      /** HINT; null: the server sent none. */
      hint: z.string().nullable(),
      /** Position of the error in the text in characters, from 1; null: the server sent none. */
      position: z.int().nullable(),
      /** The CONTEXT of the message: function calls, or the line of copied data. */
      where: z.string().nullable(),
      /** The statement inside a function that failed. */
      internalQuery: z.string().nullable(),
      /** Schema that the error is about; null: the server named none. */
      schema: z.string().nullable(),
      /** Table that the error is about; null: the server named none. */
      table: z.string().nullable(),
      /** Column that the error is about; null: the server named none. */
      column: z.string().nullable(),
      /** Data type that the error is about; null: the server named none. */
      dataType: z.string().nullable(),
      /** Constraint that the error is about; null: the server named none. */
      constraint: z.string().nullable(),
    })
    .nullable(),
  /** true: it succeeded, and its effect was rolled back with its transaction or to a savepoint. Absent otherwise. */
  rolledBack: z.boolean().optional(),
  /** The server's warnings about it, the first 5; absent if there were none. Messages of level NOTICE and below are left out. */
  warnings: z
    .array(
      z.object({
        /** SQLSTATE, five characters. */
        sqlstate: z.string(),
        /** Primary message. */
        message: z.string(),
      }),
    )
    .optional(),
  /** Locks on relations, strongest first; null: they are not known, see `exactness`. */
  locks: z.array(lockSection).nullable(),
  /** Relations whose files the statement replaced. */
  rewrote: z.array(z.string()),
  /** WAL that the whole server wrote while the statement ran; null: it was not read. */
  walBytes: bytes.nullable(),
  /** `durationMs` at production's size; absent without a profile, or if it is the same. */
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
      /** Number of statements. */
      count: z.int(),
      /** Number of transactions that they ran in. */
      transactions: z.int(),
      /** false if there were so many different texts that only their first word is the same. */
      alike: z.boolean(),
      /** If they are not alike: hashes of the different texts without their values, which an apply compares with. */
      likenesses: z.array(z.string()).optional(),
      /** Shortest time of one of them. */
      minMs: milliseconds,
      /** Average time of one of them. */
      meanMs: milliseconds,
      /** Longest time of one of them. */
      maxMs: milliseconds,
      /** At most 10 % too high. */
      p99Ms: milliseconds,
      /** `index` of the last one. */
      lastIndex: z.int(),
      /** Start of the last one. */
      lastStartedAt: time,
    })
    .optional(),
});

export const transactionOutcome = z.enum(['committed', 'rolled back', 'prepared', 'unknown']);

/** One transaction of the command; a statement outside BEGIN … COMMIT is a transaction of its own. */
export const transactionSection = z.object({
  /** The number that the statements of this transaction have in `transaction`. */
  transaction: z.int(),
  /** Number of the session, as in `statements`. */
  session: z.int(),
  /** Start of its first statement. */
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
