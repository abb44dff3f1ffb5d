import { z } from 'zod';
import { milliseconds, time } from './measures.ts';
import { statementSection, transactionOutcome, transactionSection } from './statement-model.ts';

/** What the guardrails did while the command ran on the target. */
export const duringSection = z.object({
  /**
   * Statements that failed because of a lock and were sent again without the command noticing: alone, or together with the
   * multi-statement query that contains them. `apply.statements` has the last attempt of each.
   */
  retries: z.array(
    z.object({
      sql: z.string(),
      /** Number of failed attempts. */
      failed: z.int(),
      /** Why they failed. */
      causes: z.array(z.enum(['lock-timeout', 'deadlock'])),
      pausedMs: milliseconds,
      outcome: z.enum(['went on', 'gave up']),
    }),
  ),
  /** Statements that were cancelled because they blocked other sessions. */
  cancelled: z.array(
    z.object({
      sql: z.string(),
      /** `standby`: it waited for synchronous replication, where cancelling would have committed it, so it was not cancelled. */
      outcome: z.enum(['cancelled', 'refused', 'standby']),
      reason: z.enum(['max-blocked', 'max-waiting', 'connections']),
      /** Number of blocked sessions. */
      waiting: z.int(),
      /** How long the longest-blocked session had waited. */
      waitedMs: milliseconds,
    }),
  ),
  /** Statements that the command sent but had not sent in the rehearsal. */
  diverged: z.array(
    z.object({
      sql: z.string(),
      stopped: z.boolean(),
      /** Only constants differ that it stores or passes on (a DEFAULT, a comment, arguments of CALL), so that it was run. */
      onlyValues: z.boolean(),
    }),
  ),
  /** Timeouts that the command set itself; they take precedence. */
  ownTimeouts: z.array(
    z.object({ setting: z.string(), value: z.string().nullable(), where: z.enum(['start-up', 'statement']) }),
  ),
  /** Sessions that blocked the command; null for what our role may not see. */
  blockers: z.array(
    z.object({
      pid: z.int(),
      user: z.string().nullable(),
      application: z.string().nullable(),
      state: z.string().nullable(),
      query: z.string().nullable(),
      /** When its transaction started. */
      since: z.string().nullable(),
      /** The statement that was blocked. */
      blocked: z.string(),
      /** `--unblock` terminated the session. */
      ended: z.boolean(),
    }),
  ),
  /** How long statements were held back: by `safemigrate pause`, and until standbys had caught up. */
  pausedMs: milliseconds,
  laggedMs: milliseconds,
});

/** A statement of the apply that wrote, or may have written, and its outcome. */
const appliedStatement = z.object({
  /** Its index in `apply.statements`. */
  statement: z.int(),
  sql: z.string(),
  /** `unknown`: the connection was lost, and the server could not be asked afterwards. */
  outcome: transactionOutcome,
  /** The command itself began the transaction with BEGIN. */
  explicit: z.boolean(),
});

/** The outcome of `--apply`. */
export const applySection = z.object({
  /**
   * `applied`: the command did what was rehearsed. `refused`: the command was not started. `failed`: it was started, and all of
   * it was rolled back. `partly`: the target was changed, or may have been, but not as rehearsed.
   */
  outcome: z.enum(['applied', 'refused', 'failed', 'partly']),
  reasons: z.array(z.string()),
  /** The run id of the rehearsal that the apply relies on. */
  rehearsal: z.string(),
  /** The receipt that replaced the rehearsal (`--receipt`). */
  receipt: z
    .object({
      finishedAt: time,
      ageMs: milliseconds,
      /** Signed with `--receipt-key`; otherwise its seal is a plain checksum, which anybody can compute. */
      signed: z.boolean(),
    })
    .nullable(),
  /** The reason for applying although the rehearsal did not pass (`--force`). */
  forced: z.string().nullable(),
  startedAt: time.nullable(),
  finishedAt: time.nullable(),
  /** How the last attempt of the command ended. */
  command: z
    .object({
      exitCode: z.int().nullable(),
      signal: z.string().nullable(),
      timedOut: z.boolean(),
      durationMs: milliseconds,
    })
    .nullable(),
  /** Every run of the command on the target, in order: `--retries` allows more than one. */
  attempts: z.array(
    z.object({
      startedAt: time,
      durationMs: milliseconds,
      exitCode: z.int().nullable(),
      signal: z.string().nullable(),
      /** Indexes here refer to `apply.statements`; null: this attempt sent no statement. */
      firstStatement: z.int().nullable(),
      /** The cause of its failure; null: no statement failed, or the command did not end by itself. */
      failure: z
        .object({
          statement: z.int(),
          sqlstate: z.string(),
          /** `lock`: it timed out waiting for one. `watchdog`: safemigrate cancelled or refused the statement because it blocked other sessions. */
          cause: z.enum(['lock', 'deadlock', 'watchdog', 'other']),
        })
        .nullable(),
      /** Those statements of `apply.committed` that this attempt sent. */
      committed: z.array(z.int()),
      /** The pause before the next attempt; null: there was none. */
      pausedMs: milliseconds.nullable(),
    }),
  ),
  /** The statements sent to the target in all attempts, numbered from 1. */
  statements: z.array(statementSection),
  transactions: z.array(transactionSection),
  during: duringSection.nullable(),
  /** The target's schema is the one that the rehearsal ended with; null: not compared. */
  schemaEqual: z.boolean().nullable(),
  /** The target's schema fingerprints right before the command and after it. null: not read. */
  fingerprints: z.object({ before: z.string(), after: z.string().nullable() }).nullable(),
  /** Differences between the target and what the rehearsal ended with. */
  differences: z.array(z.string()),
  /** Invalid indexes and constraints that are not validated, if they did not exist before. */
  leftovers: z.array(z.object({ kind: z.string(), object: z.string() })),
  comparedTimes: z.array(
    z.object({
      sql: z.string(),
      /** Its index in `statements`. */
      rehearsed: z.int(),
      /** Its index in `apply.statements`. */
      applied: z.int(),
      rehearsedMs: milliseconds,
      appliedMs: milliseconds,
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
      agrees: z.boolean(),
      /** Statements of `committed` that the tool has not recorded, and would send again. */
      unnoted: z.array(z.int()),
    })
    .nullable(),
});

export type DuringSection = z.infer<typeof duringSection>;
export type ApplySection = z.infer<typeof applySection>;
