import { z } from 'zod';
import { milliseconds, time } from './measures.ts';
import { statementSection } from './statement-model.ts';

export const hazard = z.object({
  code: z.string(),
  severity: z.enum(['error', 'warning', 'notice']),
  statement: z.int().nullable(),
  relation: z.string().nullable(),
  message: z.string(),
  evidence: z.string(),
  advice: z.string(),
  allowed: z.boolean(),
});

const sqlError = z.object({ sqlstate: z.string(), message: z.string() });

const applicationQuery = z.object({
  sql: z.string(),
  /** null if the queries come from a file. */
  calls: z.int().nullable(),
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
  skipped: z.object({
    /** Statements that cannot be prepared: DDL, transaction control. */
    utility: z.int(),
    failedBefore: z.int(),
    /** Queries whose text is hidden from the role. */
    hidden: z.int(),
  }),
  /** Plans were compared as well. */
  planned: z.boolean(),
  broken: z.array(applicationQuery.extend({ error: sqlError })),
  /** INSERTs and UPDATEs that the table refuses since the command. */
  refused: z
    .array(
      applicationQuery.extend({
        relation: z.string(),
        /** Those that have no default, must have a value, and are not named by the INSERT; or those of `constraint`. */
        columns: z.array(z.string()),
        /** The new CHECK or foreign key that it violated, tried on the clone with the values of an existing row. */
        constraint: z.string().optional(),
      }),
    )
    .optional(),
  /** Queries that return columns of other names or types than before: sessions that prepared them get an error once. */
  changedRow: z.array(applicationQuery).optional(),
  slower: z.array(
    applicationQuery.extend({
      /** The planner's total cost for the generic plan. */
      costBefore: z.number(),
      costAfter: z.number(),
      /** The plan node that changed, such as `Index Scan on public.orders`; null if the nodes are the same. */
      nodeBefore: z.string().nullable(),
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
  rule: z.enum(['same', 'empty']),
  passed: z.boolean(),
  /** null if the query failed at that time, or did not have to be run. */
  rowsBefore: z.int().nullable(),
  rowsAfter: z.int().nullable(),
  error: sqlError.extend({ when: z.enum(['before', 'after']) }).nullable(),
  /** Some of the rows that differ, as JSON. */
  missing: z.array(z.string()),
  added: z.array(z.string()),
});

/** Another command on the migrated clone: the migration again (`--rerun`), or the down migration (`--down`). */
export const furtherRunSection = z.object({
  command: z.string(),
  exitCode: z.int().nullable(),
  signal: z.string().nullable(),
  timedOut: z.boolean(),
  durationMs: milliseconds,
  reachedClone: z.boolean(),
  refused: z.array(z.object({ what: z.string(), why: z.string() })),
  /** The statements of this command, numbered from 1. */
  statements: z.array(statementSection),
  /** The schema is the expected one: that before the migration (`--down`), or that after its first run (`--rerun`). null: not compared. */
  schemaEqual: z.boolean().nullable(),
  differences: z.array(
    z.object({
      what: z.string(),
      /** It is in the migration tool's own table, and does not make the run fail. */
      bookkeeping: z.boolean(),
    }),
  ),
  dataDifferences: z.array(
    z.object({
      relation: z.string(),
      what: z.string(),
      bookkeeping: z.boolean(),
      /** --rerun-ignore names the table, so that the difference does not make the run fail. */
      ignored: z.boolean().optional(),
    }),
  ),
  tablesCompared: z.int(),
  /** Tables whose rows were not compared because they are too large. */
  tablesSkipped: z.int(),
  /** The command succeeded, and nothing differs except in the migration tool's own table, and in tables that --rerun-ignore names. */
  passed: z.boolean(),
});

export type Hazard = z.infer<typeof hazard>;
export type QueriesSection = z.infer<typeof queriesSection>;
export type CheckSection = z.infer<typeof checkSection>;
export type FurtherRunSection = z.infer<typeof furtherRunSection>;
