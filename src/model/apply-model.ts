import { z } from 'zod';
import { milliseconds, time } from './measures.ts';
import { statementSection, transactionOutcome, transactionSection } from './statement-model.ts';

/** Work of the guardrails while the command ran on the target. */
export const duringSection = z.object({
  /**
   * Statements that failed because of a lock and were sent again without the command noticing: alone, or together with the
   * multi-statement query that contains them. `apply.statements` has the last attempt of each.
   */
  retries: z.array(
    z.object({
      /** Text of the statement. */
      sql: z.string(),
      /** Number of failed attempts. */
      failed: z.int(),
      /** Reasons why they failed. */
      causes: z.array(z.enum(['lock-timeout', 'deadlock'])),
      /** Sum of the pauses between the attempts. */
      pausedMs: milliseconds,
      /** `went on`: an attempt succeeded. `gave up`: the command received the error. */
      outcome: z.enum(['went on', 'gave up']),
    }),
  ),
  /** Statements that were cancelled because they blocked other sessions. */
  cancelled: z.array(
    z.object({
      /** Text of the statement. */
      sql: z.string(),
      /** `standby`: it waited for synchronous replication, where cancelling would have committed it, so it was not cancelled. */
      outcome: z.enum(['cancelled', 'refused', 'standby']),
      /**
       * The limit that was exceeded: time of a blocked session, number of blocked sessions, or free
       * connections of the server.
       */
      reason: z.enum(['max-blocked', 'max-waiting', 'connections']),
      /** Number of blocked sessions. */
      waiting: z.int(),
      /** Time that the longest-blocked session had waited. */
      waitedMs: milliseconds,
    }),
  ),
  /** Statements that the command sent but had not sent in the rehearsal. */
  diverged: z.array(
    z.object({
      /** Text of the statement. */
      sql: z.string(),
      /** The statement was refused, and the command received an error. */
      stopped: z.boolean(),
      /** Only constants differ that it stores or passes on (a DEFAULT, a comment, arguments of CALL), so that it was run. */
      onlyValues: z.boolean(),
    }),
  ),
  /** Timeouts that the command set itself; they take precedence. */
  ownTimeouts: z.array(
    z.object({
      /** Name of the setting. */
      setting: z.string(),
      /** Value that the command gave it; null: it is not known. */
      value: z.string().nullable(),
      /** `start-up`: as a parameter of the connection. `statement`: by SET. */
      where: z.enum(['start-up', 'statement']),
    }),
  ),
  /** Sessions that blocked the command; null for what our role may not see. */
  blockers: z.array(
    z.object({
      /** Process id of the backend. */
      pid: z.int(),
      /** Role of the session. */
      user: z.string().nullable(),
      /** application_name of the session. */
      application: z.string().nullable(),
      /** State of the session, as in pg_stat_activity. */
      state: z.string().nullable(),
      /** Its current or last query. */
      query: z.string().nullable(),
      /** Time at which its transaction started. */
      since: z.string().nullable(),
      /** The statement that was blocked. */
      blocked: z.string(),
      /** `--unblock` terminated the session. */
      ended: z.boolean(),
    }),
  ),
  /** Time for which statements were held back: by `safemigrate pause`, and until standbys had caught up. */
  pausedMs: milliseconds,
  /** Time for which statements were held back until standbys had caught up. */
  laggedMs: milliseconds,
});

/** A statement of the apply that wrote, or may have written, and its outcome. */
const appliedStatement = z.object({
  /** Its index in `apply.statements`. */
  statement: z.int(),
  /** Text of the statement. */
  sql: z.string(),
  /** `unknown`: the connection was lost, and the server could not be asked afterwards. */
  outcome: transactionOutcome,
  /** The command itself began the transaction with BEGIN. */
  explicit: z.boolean(),
});

/** The outcome of `safemigrate apply`. */
export const applySection = z.object({
  /**
   * `applied`: the command did what was rehearsed. `refused`: the command was not started. `failed`: it was started, and all of
   * it was rolled back. `partly`: the target was changed, or may have been, but not as rehearsed.
   */
  outcome: z.enum(['applied', 'refused', 'failed', 'partly']),
  /** Reasons why the outcome is this one, in sentences; empty if it was applied. */
  reasons: z.array(z.string()),
  /** The run id of the rehearsal that the apply relies on. */
  rehearsal: z.string(),
  /** The receipt that replaced the rehearsal (`--receipt`). */
  receipt: z
    .object({
      /** End of the rehearsal that wrote the receipt. */
      finishedAt: time,
      /** Age of the receipt when it was used. */
      ageMs: milliseconds,
      /** Signed with `--receipt-key`; otherwise its seal is a plain checksum, which anybody can compute. */
      signed: z.boolean(),
    })
    .nullable(),
  /** The reason for applying although the rehearsal did not pass (`--force`). */
  forced: z.string().nullable(),
  /** Start of the first attempt; null: the command was not started. */
  startedAt: time.nullable(),
  /** End of the last attempt; null: the command was not started. */
  finishedAt: time.nullable(),
  /** End of the last attempt of the command. */
  command: z
    .object({
      /** Exit code; null: a signal ended the command. */
      exitCode: z.int().nullable(),
      /** Signal that ended the command; null: it ended by itself. */
      signal: z.string().nullable(),
      /** The command was ended because it exceeded `--timeout`. */
      timedOut: z.boolean(),
      /** Time from the start of the command to its end. */
      durationMs: milliseconds,
      /** Processes that the kernel ended for lack of memory, as in `command.endedForMemory`. */
      endedForMemory: z.int().optional(),
    })
    .nullable(),
  /** Every run of the command on the target, in order: `--retries` allows more than one. */
  attempts: z.array(
    z.object({
      /** Start of the attempt. */
      startedAt: time,
      /** Time from the start of the command to its end. */
      durationMs: milliseconds,
      /** Exit code; null: a signal ended the command. */
      exitCode: z.int().nullable(),
      /** Signal that ended the command; null: it ended by itself. */
      signal: z.string().nullable(),
      /** Indexes here refer to `apply.statements`; null: this attempt sent no statement. */
      firstStatement: z.int().nullable(),
      /** The cause of its failure; null: no statement failed, or the command did not end by itself. */
      failure: z
        .object({
          /** `index` of the statement that failed. */
          statement: z.int(),
          /** SQLSTATE of its error. */
          sqlstate: z.string(),
          /** `lock`: it timed out waiting for one. `watchdog`: safemigrate cancelled or refused the statement because it blocked other sessions. */
          cause: z.enum(['lock', 'deadlock', 'watchdog', 'other']),
        })
        .nullable(),
      /** Statements of `apply.committed` that this attempt sent. */
      committed: z.array(z.int()),
      /** The pause before the next attempt; null: there was none. */
      pausedMs: milliseconds.nullable(),
    }),
  ),
  /** The statements sent to the target in all attempts, numbered from 1. */
  statements: z.array(statementSection),
  /** Transactions of all attempts. */
  transactions: z.array(transactionSection),
  /** Actions of the guardrails; null: the command was not started. */
  during: duringSection.nullable(),
  /** The target's schema is the one that the rehearsal ended with; null: not compared. */
  schemaEqual: z.boolean().nullable(),
  /** The target's schema fingerprints right before the command and after it. null: not read. */
  fingerprints: z
    .object({
      /** Fingerprint right before the command. */
      before: z.string(),
      /** Fingerprint after the command; null: not read. */
      after: z.string().nullable(),
    })
    .nullable(),
  /** Differences from the rehearsal: of the schema, of the statements that were sent, and of the rows that were lost. */
  differences: z.array(z.string()),
  /** Invalid indexes and constraints that are not validated, if they did not exist before. */
  leftovers: z.array(
    z.object({
      /** Kind of object, as in `schema.leftovers`. */
      kind: z.string(),
      /** Qualified name of the index or constraint. */
      object: z.string(),
    }),
  ),
  /** Times and rows of the statements of the last attempt, beside those of the rehearsal. */
  comparedTimes: z.array(
    z.object({
      /** Text of the statement. */
      sql: z.string(),
      /** Its index in `statements`. */
      rehearsed: z.int(),
      /** Its index in `apply.statements`. */
      applied: z.int(),
      /** Time on the clone. */
      rehearsedMs: milliseconds,
      /** Time on the target. */
      appliedMs: milliseconds,
      /** Rows by the server's command tag on the clone; null: it has none. */
      rehearsedRows: z.int().nullable(),
      /** The same on the target. */
      appliedRows: z.int().nullable(),
    }),
  ),
  /** Statements that wrote, or may have written, in transactions that were committed, or may have been. */
  committed: z.array(appliedStatement),
  /** Statements that wrote in transactions that were rolled back. */
  rolledBack: z.array(appliedStatement),
  /** SQL that turns the target's schema back into that before; null if it did not change, or none could be generated. */
  wayBack: z.string().nullable(),
  /**
   * For a target that was changed, but not as rehearsed: whether the migration tool's own table agrees with `committed`. null:
   * the target was not changed so, or the statements do not show it.
   */
  bookkeeping: z
    .object({
      /** The table records the statements of `committed`, and no others. */
      agrees: z.boolean(),
      /** Statements of `committed` that the tool has not recorded, and would send again. */
      unnoted: z.array(z.int()),
    })
    .nullable(),
});

export type DuringSection = z.infer<typeof duringSection>;
export type ApplySection = z.infer<typeof applySection>;
