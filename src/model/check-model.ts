import { z } from 'zod';
import { milliseconds, time } from './measures.ts';
import { statementSection } from './statement-model.ts';

/** Something in the command that may harm production, or this run's result. */
export const hazard = z.object({
  /** Code of the hazard; docs/hazards.md lists all. */
  code: z.string(),
  /**
   * `error` makes the rehearsal fail, and so does `warning` with `--fail-on warning`; `notice` never does.
   */
  severity: z.enum(['error', 'warning', 'notice']),
  /** `index` of the statement; null: it is about no single statement. */
  statement: z.int().nullable(),
  /** Qualified name of the relation; null: it is about no single relation. */
  relation: z.string().nullable(),
  /** The finding, in a sentence. */
  message: z.string(),
  /** Measured facts behind it. */
  evidence: z.string(),
  /** Advice: a sentence that says what to do instead, and statements below it. */
  advice: z.string(),
  /** The policy accepts it, so that it does not make the rehearsal fail. */
  allowed: z.boolean(),
  /** Rows that are lost, or whose values are; null: not counted. Absent: it is not about lost data. */
  lostRows: z.int().nullable().optional(),
  /**
   * A script takes it away, which `--propose` writes, or only with `--propose-all` (`asked`). Absent: none does, or one was written.
   */
  saferForm: z.enum(['default', 'asked']).optional(),
});

/** Facts that a program needs to act on a finding, without looking elsewhere in the report. */
const actionable = {
  /** Qualified name of the relation; null: it is about no single relation. */
  relation: z.string().nullable(),
  /** File of its statement, as in `statements`; null: not known. */
  file: z.string().nullable(),
  /** Line of its statement in `file`; null: not known. */
  line: z.int().nullable(),
  /** Text of its statement; null: it is about no single statement. */
  sql: z.string().nullable(),
  /** Longest time that the transaction of its statement blocks reads or writes of the relation; null: it does not, or not known. */
  lockedMs: milliseconds.nullable(),
  /** Rows that are lost, or whose values are; null: it is not about lost data, or not counted. */
  lostRows: z.int().nullable(),
  /** The change to make instead; null: nothing is known. */
  fix: z
    .object({
      /** The advice, in a sentence. */
      advice: z.string(),
      /** Statements for it; empty if a sentence says all. */
      sql: z.array(z.string()),
    })
    .nullable(),
  /** Option that accepts it, with dots for the reason; null: it stops nothing, or cannot be accepted. */
  accept: z.string().nullable(),
};

/** A hazard as `--format json` prints it. */
export const printedHazard = hazard.extend(actionable);

/** A reason against the migration. */
export const objection = z.object({
  /**
   * Code of the hazard, or `TARGET_CHANGED`, `CONNECTED_TO_TARGET`, `STATEMENT_REFUSED`, `COMMAND_FAILED`, `INTERRUPTED`,
   * `NOT_CONNECTED`, `CHECK_FAILED`, `LOAD_FAILED`, `LIMIT_EXCEEDED`, `UNEXPECTED_CHANGE`, `NOT_COMPARED`, `NOT_PROVED`.
   */
  code: z.string(),
  /** The reason, in a sentence. */
  message: z.string(),
  /** Position of the hazard in `hazards`, from 0; null: it is none. */
  hazard: z.int().nullable(),
  /** `index` of the statement; null: it is about no single statement. */
  statement: z.int().nullable(),
});

/** An objection as `--format json` prints it. */
export const printedObjection = objection.extend(actionable);

const sqlError = z.object({
  /** SQLSTATE, five characters. */
  sqlstate: z.string(),
  /** Message of the server. */
  message: z.string(),
});

const applicationQuery = z.object({
  /** Text of the query, with `$1`, `$2` for its values. */
  sql: z.string(),
  /** null if the queries come from a file. */
  calls: z.int().nullable(),
  /** Average since `countedSince`; null: the time is not known, or the queries come from a file. */
  callsPerSecond: z.number().nonnegative().nullable(),
});

/** Queries of the running application. They were prepared on the clone before and after the command, never run. */
export const queriesSection = z.object({
  /** `pg_stat_statements`, or the file that contains them. */
  source: z.string(),
  /** The time since which calls have been counted, if it is the same for all queries. */
  countedSince: time.nullable(),
  /** Queries that could be prepared before the command, so that a failure afterwards means something. */
  checked: z.int(),
  /** Number of queries that were not checked, by reason. */
  skipped: z.object({
    /** Statements that cannot be prepared: DDL, transaction control. */
    utility: z.int(),
    /** Queries that could not be prepared before the command either. */
    failedBefore: z.int(),
    /** Queries whose text is hidden from the role. */
    hidden: z.int(),
    /**
     * Queries that are not the application's: those of safemigrate itself, and of tools that read only catalogs or a migration tool's
     * table. Absent: the queries come from a file or a profile.
     */
    others: z.int().optional(),
  }),
  /** Plans were compared as well. */
  planned: z.boolean(),
  /** Queries that could be prepared before the command and no longer can. */
  broken: z.array(
    applicationQuery.extend({
      /** Error of the server. */
      error: sqlError,
    }),
  ),
  /** INSERTs and UPDATEs that the table refuses since the command. */
  refused: z
    .array(
      applicationQuery.extend({
        /** Qualified name of the table. */
        relation: z.string(),
        /** Columns that have no default, must have a value, and are not named by the INSERT; or those of `constraint`. */
        columns: z.array(z.string()),
        /** The new CHECK or foreign key that it violated, tried on the clone with the values of an existing row. */
        constraint: z.string().optional(),
      }),
    )
    .optional(),
  /** Queries that return columns of other names or types than before: sessions that prepared them get an error once. */
  changedRow: z.array(applicationQuery).optional(),
  /** Queries whose plan costs more after the command. */
  slower: z.array(
    applicationQuery.extend({
      /** The planner's total cost for the generic plan. */
      costBefore: z.number(),
      /** Cost after the command. */
      costAfter: z.number(),
      /** The plan node that changed, such as `Index Scan on public.orders`; null if the nodes are the same. */
      nodeBefore: z.string().nullable(),
      /** The node that replaced it; null if the nodes are the same. */
      nodeAfter: z.string().nullable(),
      /** Tables without statistics after the command: after ANALYZE of them on the clone the query was no longer slower. */
      untilAnalyzed: z.array(z.string()).optional(),
      /** The plans are those that the sizes and statistics of `--profile` lead to. */
      atProductionSize: z.literal(true).optional(),
    }),
  ),
});

/** A check of the user (`--check`, `--check-empty`): a query whose result must hold after the command. */
export const checkSection = z.object({
  /** The SQL, or the file that contains it. */
  name: z.string(),
  /** `same`: the rows are those from before. `empty`: there are no rows. */
  rule: z.enum(['same', 'empty']),
  /** The result after the command satisfies the rule. */
  passed: z.boolean(),
  /** null if the query failed at that time, or did not have to be run. */
  rowsBefore: z.int().nullable(),
  /** Rows after the command; null if the query failed then, or was not run. */
  rowsAfter: z.int().nullable(),
  /** The error of the query; null: it did not fail. */
  error: sqlError
    .extend({
      /** The run of the query that failed: before the command or after it. */
      when: z.enum(['before', 'after']),
    })
    .nullable(),
  /** Some of the rows that differ, as JSON. */
  missing: z.array(z.string()),
  /** Some of the rows that were not there before the command, as JSON. */
  added: z.array(z.string()),
});

/** Another command on the migrated clone: the migration again (`--rerun`), or the down migration (`--down`). */
export const furtherRunSection = z.object({
  /** The command line, with secrets removed. */
  command: z.string(),
  /** Exit code; null: a signal ended the command. */
  exitCode: z.int().nullable(),
  /** Signal that ended the command; null: it ended by itself. */
  signal: z.string().nullable(),
  /** The command was ended because it exceeded `--timeout`. */
  timedOut: z.boolean(),
  /** Time from the start of the command to its end. */
  durationMs: milliseconds,
  /** The command connected to the clone at least once. */
  reachedClone: z.boolean(),
  /** Statements that were refused, because they would have taken effect outside the clone. */
  refused: z.array(
    z.object({
      /** The statement or function that was refused. */
      what: z.string(),
      /** Reason why it was refused. */
      why: z.string(),
    }),
  ),
  /** The statements of this command, numbered from 1. */
  statements: z.array(statementSection),
  /** The schema is the expected one: that before the migration (`--down`), or that after its first run (`--rerun`). null: not compared. */
  schemaEqual: z.boolean().nullable(),
  /** Differences from the expected schema. */
  differences: z.array(
    z.object({
      /** The difference, in words. */
      what: z.string(),
      /** It is in the migration tool's own table, and does not make the run fail. */
      bookkeeping: z.boolean(),
    }),
  ),
  /** Tables whose rows differ from the expected ones. */
  dataDifferences: z.array(
    z.object({
      /** Qualified name of the table. */
      relation: z.string(),
      /** The difference, in words. */
      what: z.string(),
      /** It is in the migration tool's own table, and does not make the run fail. */
      bookkeeping: z.boolean(),
      /** `rerunIgnore` names the table, so that the difference does not make the run fail. */
      ignored: z.boolean().optional(),
    }),
  ),
  /** Number of tables whose rows were compared. */
  tablesCompared: z.int(),
  /** Tables whose rows were not compared because they are too large. */
  tablesSkipped: z.int(),
  /** The command succeeded, and nothing differs except in the migration tool's own table, and in tables that `rerunIgnore` names. */
  passed: z.boolean(),
});

/** The command, started several times together on a second clone (`--at-once`), as replicas of a service do at boot. */
export const atOnceSection = z.object({
  /** One entry for each copy of the command. */
  runs: z.array(
    z.object({
      /** Exit code; null: a signal ended the command. */
      exitCode: z.int().nullable(),
      /** Signal that ended the command; null: it ended by itself. */
      signal: z.string().nullable(),
      /** Time from the start of the command to its end. */
      durationMs: milliseconds,
    }),
  ),
  /** Statements that the server ended because of a deadlock. */
  deadlocks: z.int(),
  /** Together they left the schema that one run leaves. null: not compared. */
  schemaEqual: z.boolean().nullable(),
  /** Tables that hold other rows than after one run. Columns with times and UUIDs are not compared. */
  dataDifferences: z.array(
    z.object({
      /** Qualified name of the table. */
      relation: z.string(),
      /** The difference, in words. */
      what: z.string(),
      /** It is in the migration tool's own table, and does not make the run fail. */
      bookkeeping: z.boolean(),
    }),
  ),
  /** Number of tables whose rows were compared. */
  tablesCompared: z.int(),
  /** Tables whose rows were not compared because they are too large. */
  tablesSkipped: z.int(),
  /** All of them succeeded, and what they left is what one leaves. */
  passed: z.boolean(),
});

export type PrintedHazard = z.infer<typeof printedHazard>;
export type Objection = z.infer<typeof objection>;
export type PrintedObjection = z.infer<typeof printedObjection>;
export type Hazard = z.infer<typeof hazard>;
export type QueriesSection = z.infer<typeof queriesSection>;
export type CheckSection = z.infer<typeof checkSection>;
export type FurtherRunSection = z.infer<typeof furtherRunSection>;
export type AtOnceSection = z.infer<typeof atOnceSection>;
