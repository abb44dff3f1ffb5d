import { z } from 'zod';

/**
 * The report: what every renderer reads, what `--format json` prints, and what the rooms fill in, each its own
 * section. Durations are milliseconds, sizes bytes, times ISO 8601. Paths are stable from version 1 on; more may
 * be added. A scalar that could not be measured is null, and `caveats` say why (promise P7).
 */
const milliseconds = z.number().nonnegative();
const bytes = z.int();
const time = z.iso.datetime({ offset: true });

export const runSection = z.object({
  id: z.string(),
  startedAt: time,
  finishedAt: time,
  mode: z.enum(['rehearse', 'apply', 'swap']),
  tool: z.object({ name: z.literal('safemigrate'), version: z.string() }),
});

export const targetSection = z.object({
  host: z.string(),
  port: z.int(),
  database: z.string(),
  serverVersion: z.string(),
  sizeBytes: bytes,
  /** Where the connection came from: `--url`, `DATABASE_URL`, … */
  source: z.string(),
  /** What others or the command changed there while the run went on. */
  changes: z.array(
    z.object({
      what: z.string(),
      /** `unknown`: while the command ran, and whether the command or others made it cannot be proved. A person must look. */
      madeBy: z.enum(['command', 'others', 'unknown']),
      /** Why it is put down to them. */
      evidence: z.string(),
    }),
  ),
  /** What safemigrate itself did there, beyond reading catalogues. */
  touched: z.array(z.string()),
});

export const cloneSection = z.object({
  method: z.string(),
  strategy: z.string(),
  isolation: z.enum(['same-cluster', 'own-cluster']),
  database: z.string(),
  durationMs: milliseconds,
  sizeBytes: bytes.nullable(),
  /** Space that the clone really takes beyond what it shares with the target. */
  uniqueBytes: bytes.nullable(),
  reason: z.string(),
  /** Kept on request (`--keep`). */
  kept: z.boolean(),
  /** Every way that was looked at, the one that was taken first. */
  considered: z.array(z.object({ method: z.string(), possible: z.boolean(), reason: z.string() })),
});

export const commandSection = z.object({
  argv: z.array(z.string()),
  exitCode: z.int().nullable(),
  signal: z.string().nullable(),
  timedOut: z.boolean(),
  durationMs: milliseconds,
  /** Names of the variables, and positions of the arguments, that were pointed at the clone. */
  rewritten: z.array(z.string()),
  /** What may name the target and was left alone, with the reason. */
  undecided: z.array(z.object({ name: z.string(), reason: z.string() })),
  /** The command connected to the clone at least once. */
  reachedClone: z.boolean(),
  /** Statements that were not let through, because they would have taken effect beyond the clone. */
  refused: z.array(z.object({ what: z.string(), why: z.string() })),
  /** What was let through although it reaches beyond the clone (`--allow-cluster-statements`). */
  allowed: z.array(z.string()),
  /** Statements that named the target, and were led to the clone. */
  redirected: z.array(z.string()),
  /** Indexes of the statements that failed in the server although the command ended with exit code 0. */
  swallowedErrors: z.array(z.int()),
  /** The command failed, and no statement of it did. */
  failedWithoutError: z.boolean(),
});

export const lockSection = z.object({
  relation: z.string(),
  mode: z.string(),
  acquiredBy: z.string(),
  heldMs: milliseconds.nullable(),
  blocks: z.array(z.string()),
});

/**
 * Why there is a note in brackets in the place of a statement's text: it is too large to be read, it was prepared where nobody
 * could see it, or there is none, since an implicit transaction failed at its end.
 */
export const statementNote = z.enum(['unread', 'prepared elsewhere', 'implicit end']);
export type StatementNote = z.infer<typeof statementNote>;

export const statementSection = z.object({
  index: z.int(),
  session: z.int(),
  sql: z.string(),
  /** Missing if `sql` is the statement's text. */
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
      /** The CONTEXT of the message: calls of functions, lines of copied data. */
      where: z.string().nullable(),
      /** The statement within a function that failed. */
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
});

/** One transaction of the command's, implicit ones included. */
export const transactionSection = z.object({
  /** As the statements name it. */
  transaction: z.int(),
  session: z.int(),
  startedAt: time,
  /** null where its session ended without a word. */
  endedAt: time.nullable(),
  outcome: z.enum(['committed', 'rolled back', 'unknown']),
});

export const schemaChange = z.object({
  verb: z.enum(['create', 'alter', 'drop', 'rename', 'grant', 'revoke', 'comment']),
  /** As PostgreSQL calls it, in lower case: `table`, `column`, `index`, `constraint`, `function`, … */
  kind: z.string(),
  /** Qualified and quoted where needed: `public.orders`, `public.orders.email`. */
  object: z.string(),
  sql: z.string(),
  /**
   * Applying it destroys stored rows or values. Of a changed type: it cuts or rounds values by what it is, or by what was counted,
   * `data.lost[].rowsChanged`. What the server refuses to convert is not lost.
   */
  dataLoss: z.boolean(),
});

/**
 * An object that differs, whole: a table with its columns, constraints, indexes, triggers, policies, privileges and comments.
 * Definitions are SQL for people to read, not to run: options of foreign servers and user mappings have no value, what
 * is longer than 1,000 lines or 100,000 characters says what it lacks, and `another` behind a value says that the one before is shown alike and is not the same.
 */
export const schemaObject = z.object({
  /** `alter`: it is there on both sides, also where it was dropped and made anew. */
  verb: z.enum(['create', 'alter', 'drop']),
  /** As in `schema.changes`. */
  kind: z.string(),
  /** The name after the command; of what was dropped the last one. */
  object: z.string(),
  /** The name before it, where it is another one. */
  formerly: z.string().nullable(),
  /** null: it was not there. */
  before: z.string().nullable(),
  /** null: it is not there any more. */
  after: z.string().nullable(),
});

export const rename = z.object({ kind: z.string(), from: z.string(), to: z.string() });

export const schemaSection = z.object({
  /** Content fingerprints: equal for databases that hold the same schema. */
  before: z.string(),
  after: z.string(),
  changes: z.array(schemaChange),
  renames: z.array(rename),
  /** The same as objects before and after, by their names; absent from reports that were made before it was there. */
  objects: z.array(schemaObject).optional(),
  /** Changed objects beyond the first 500, or behind 2,000,000 characters of definitions: counted, not described. */
  objectsLeftOut: z.int().optional(),
  /** Kinds of objects that the comparison does not model, and what was seen of them. */
  unmodeled: z.array(z.object({ kind: z.string(), detail: z.string() })),
  /** SQL that leads from the schema after to the schema before; null where none could be made. */
  rollbackSql: z.string().nullable(),
  /** What the way back cannot restore, in words. */
  rollbackLoses: z.array(z.string()),
  leftovers: z.array(
    z.object({
      kind: z.enum(['invalid index', 'constraint not valid']),
      object: z.string(),
      /** It was there before the command. */
      preexisting: z.boolean(),
    }),
  ),
});

export const dataSection = z.object({
  /** Relations that hold rows and that changed in rows, size or storage; the unchanged are counted, not listed. */
  tables: z.array(
    z.object({
      relation: z.string(),
      rowsBefore: z.int().nullable(),
      rowsAfter: z.int().nullable(),
      /** The counts are exact, not the planner's estimate. */
      exact: z.boolean(),
      bytesBefore: bytes.nullable(),
      bytesAfter: bytes.nullable(),
      rewritten: z.boolean(),
    }),
  ),
  unchangedTables: z.int(),
  /** Rows that the command wrote, those of transactions that were rolled back included; TRUNCATE is not counted here. */
  written: z.array(z.object({ relation: z.string(), inserted: z.int(), updated: z.int(), deleted: z.int() })),
  /** Stored data that is gone or was cut, by the names from before the command. */
  lost: z.array(
    z.object({
      object: z.string(),
      kind: z.enum(['table', 'column']),
      what: z.enum(['dropped', 'narrowed', 'deleted']),
      /** Of the table, before the command. */
      rows: z.int().nullable(),
      /** How many of them had a value there, or are gone. */
      rowsWithValue: z.int().nullable(),
      /**
       * Of a narrowed column: values that were cut or rounded, counted by casting each there and back. null: not counted, so that
       * its values may have been.
       */
      rowsChanged: z.int().nullable(),
      /** All were counted; else they are estimates. */
      exact: z.boolean(),
    }),
  ),
  walBytes: bytes.nullable(),
  sizeDeltaBytes: bytes.nullable(),
});

const openTransaction = z.object({
  ageMs: milliseconds,
  application: z.string().nullable(),
  /** `active`, `idle in transaction`, `prepared`, … */
  state: z.string().nullable(),
});

/**
 * What would happen on the target, reckoned from what was measured on the clone and from the target's own statistics.
 * Rates are those between two readings, before and after the rehearsal; where that was less than 2 s, or nobody could be connected
 * meanwhile, each is the larger one of that and of the average since the server began to count, if that was a day ago or more.
 */
export const forecastSection = z.object({
  sampledMs: milliseconds,
  /** The time of the average that was taken in as well; null: rates are those of the sample alone. */
  averagedMs: milliseconds.nullable(),
  /** Of the target database; a few of them are safemigrate's own. */
  transactionsPerSecond: z.number().nonnegative().nullable(),
  /** Of the target's server; `reserved` slots of `max` are not for ordinary roles. */
  sessions: z.object({ open: z.int(), max: z.int(), reserved: z.int() }),
  oldestTransaction: openTransaction.nullable(),
  preparedTransactions: z.object({ count: z.int(), oldestMs: milliseconds.nullable() }),
  /** One for each relation and mode that keeps others from reading or writing: the longest. */
  locks: z.array(
    z.object({
      relation: z.string(),
      mode: z.string(),
      statement: z.int(),
      heldMs: milliseconds.nullable(),
      blocks: z.array(z.string()),
      /** Scans begun of the relation and its indexes: an upper bound of the statements that read it. */
      readsPerSecond: z.number().nonnegative().nullable(),
      /** Rows inserted, updated and deleted. */
      writesPerSecond: z.number().nonnegative().nullable(),
      /** Where both rates come from: `average` as soon as one of them does. null: there are none. */
      ratesFrom: z.enum(['sample', 'average']).nullable(),
      /** Statements that would wait for the lock at its end: held time × rate, one for each transaction at most. */
      queued: z.int().nonnegative().nullable(),
      /** The open sessions and those that wait would fill the server. */
      sessionsRunOut: z.boolean().nullable(),
      /** The oldest transaction that holds a lock in the way: the request waits for its end, and all others behind it. */
      waitsFor: openTransaction.extend({ mode: z.string() }).nullable(),
    }),
  ),
  wal: z.object({
    writtenBytes: bytes.nullable(),
    /** null where the role may not see them. `behindBytes` if it replayed nothing meanwhile. */
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
    /** Slots that nobody reads from: the WAL stays on the disk for them. */
    inactiveSlots: z.array(z.string()),
  }),
  /**
   * At the peak: old and new files of what is written anew, what the database grows by, and the WAL. Free: for an ordinary user, on
   * the file system of the database's default tablespace, before the clone was made; null where the target's files are not on this
   * machine, or the role may not see where they are.
   */
  disk: z.object({ neededBytes: bytes.nullable(), freeBytes: bytes.nullable() }),
  /**
   * Of statements that earlier runs applied to this target: their time there divided by the rehearsed one, the tenth part and
   * the nine tenths of them below `low` and `high`. null: none yet.
   */
  earlierApplies: z
    .object({
      applies: z.int(),
      statements: z.int(),
      low: z.number().positive(),
      median: z.number().positive(),
      high: z.number().positive(),
    })
    .nullable(),
});

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
  /** null where the queries come from a file. */
  calls: z.int().nullable(),
  callsPerSecond: z.number().nonnegative().nullable(),
});

/** Queries of the running application, prepared on the clone before the command and after it; none was run. */
export const queriesSection = z.object({
  /** `pg_stat_statements`, or the file that they stand in. */
  source: z.string(),
  /** Since when the calls were counted, where that is the same for all. */
  countedSince: time.nullable(),
  /** Could be prepared before the command, so that they say something after it. */
  checked: z.int(),
  skipped: z.object({
    /** Nothing that can be prepared: DDL, transaction control. */
    utility: z.int(),
    failedBefore: z.int(),
    /** Their text is hidden from the role. */
    hidden: z.int(),
  }),
  /** Costs were compared: EXPLAIN (GENERIC_PLAN) is there from version 16 on. */
  planned: z.boolean(),
  broken: z.array(applicationQuery.extend({ error: sqlError })),
  slower: z.array(
    applicationQuery.extend({
      /** The planner's total cost of the generic plan. */
      costBefore: z.number(),
      costAfter: z.number(),
      /** The node of the plan that changed, as `Index Scan on public.orders`; null where all are as they were. */
      nodeBefore: z.string().nullable(),
      nodeAfter: z.string().nullable(),
    }),
  ),
});

/** A query of the user's own that must hold after the command. */
export const checkSection = z.object({
  /** The SQL, or the file that it stands in. */
  name: z.string(),
  rule: z.enum(['same', 'empty']),
  passed: z.boolean(),
  /** null where it could not be run then, or was not needed. */
  rowsBefore: z.int().nullable(),
  rowsAfter: z.int().nullable(),
  error: sqlError.extend({ when: z.enum(['before', 'after']) }).nullable(),
  /** Some of the rows that make the difference, as JSON. */
  missing: z.array(z.string()),
  added: z.array(z.string()),
});

/** A further command on the migrated clone: the migration once more (`--rerun`), or the way back (`--down`). */
export const furtherRunSection = z.object({
  command: z.string(),
  exitCode: z.int().nullable(),
  signal: z.string().nullable(),
  timedOut: z.boolean(),
  durationMs: milliseconds,
  reachedClone: z.boolean(),
  refused: z.array(z.object({ what: z.string(), why: z.string() })),
  /** Its own statements; their numbers begin at 1 again. */
  statements: z.array(statementSection),
  /** The schema is as it was to be: as before the migration, or as after its first run. null: not compared. */
  schemaEqual: z.boolean().nullable(),
  differences: z.array(
    z.object({
      what: z.string(),
      /** In a table in which a migration tool keeps its own books; does not count against it. */
      bookkeeping: z.boolean(),
    }),
  ),
  dataDifferences: z.array(z.object({ relation: z.string(), what: z.string(), bookkeeping: z.boolean() })),
  tablesCompared: z.int(),
  /** Tables whose rows were not compared, being too large. */
  tablesSkipped: z.int(),
  /** It succeeded, and nothing differs but bookkeeping. */
  passed: z.boolean(),
});

/** A session on the target that the command opened past safemigrate. */
export const targetConnection = z.object({
  process: z.object({ pid: z.int(), command: z.string() }),
  user: z.string().nullable(),
  application: z.string(),
  connectedAt: time,
  /** What it ran last when it was found. */
  query: z.string().nullable(),
  /** safemigrate ended it. */
  ended: z.boolean(),
});

export const caveat = z.object({
  /** A path of this report, or a prefix of one. */
  path: z.string(),
  kind: z.enum(['estimate', 'unmeasured']),
  reason: z.string(),
});

/** What became of `--swap`, where the rehearsal had passed. */
export const swapSection = z.object({
  /** `refused`: nothing was touched. `undone`: the target was closed for a while, and is as it was. */
  outcome: z.enum(['swapped', 'undone', 'refused']),
  reasons: z.array(z.string()),
  /** The name that the original has now. */
  original: z.string().nullable(),
  /** Until when the original is meant to be kept; null where nobody said. ISO 8601. */
  keepUntil: z.string().nullable(),
  /** For how long nobody could connect to the target. */
  stallMs: milliseconds.nullable(),
  sessionsEnded: z.int(),
  steps: z.array(z.object({ name: z.string(), durationMs: milliseconds })),
});

/** What was done to the command on its way to the target. */
export const duringSection = z.object({
  /**
   * Statements that did not get their lock in time, and were sent again before the command heard of it: alone, or with
   * the text of several that they came in. `apply.statements` has the last attempt of each.
   */
  retries: z.array(
    z.object({
      sql: z.string(),
      /** Attempts that failed. */
      failed: z.int(),
      pausedMs: milliseconds,
      outcome: z.enum(['went on', 'gave up']),
    }),
  ),
  /** Statements that were cancelled because of those who waited behind them. */
  cancelled: z.array(
    z.object({
      sql: z.string(),
      /** `standby`: it waited for synchronous replication, where a cancel would have committed; it was left alone. */
      outcome: z.enum(['cancelled', 'refused', 'standby']),
      reason: z.enum(['max-blocked', 'max-waiting', 'connections']),
      /** Sessions behind it. */
      waiting: z.int(),
      /** Of the one that had waited longest. */
      waitedMs: milliseconds,
    }),
  ),
  /** What was sent and not rehearsed. */
  diverged: z.array(z.object({ sql: z.string(), stopped: z.boolean() })),
  /** Timeouts that the command set by itself; they win. */
  ownTimeouts: z.array(
    z.object({ setting: z.string(), value: z.string().nullable(), where: z.enum(['start-up', 'statement']) }),
  ),
  /** Who held what the command waited for; null is what our role may not see. */
  blockers: z.array(
    z.object({
      pid: z.int(),
      user: z.string().nullable(),
      application: z.string().nullable(),
      state: z.string().nullable(),
      query: z.string().nullable(),
      /** Of its transaction. */
      since: z.string().nullable(),
      /** The statement that waited. */
      blocked: z.string(),
      /** By `--unblock`. */
      ended: z.boolean(),
    }),
  ),
  /** For how long statements were held back: by `safemigrate pause`, or for standbys to catch up. */
  pausedMs: milliseconds,
  laggedMs: milliseconds,
});

/** A statement of the apply that wrote, or may have, and what became of it. */
const appliedStatement = z.object({
  /** As `apply.statements` counts them. */
  statement: z.int(),
  sql: z.string(),
  /** `unknown`: the connection was lost, and the server could not be asked. */
  outcome: z.enum(['committed', 'rolled back', 'unknown']),
  /** Its transaction was the command's own BEGIN … COMMIT. */
  explicit: z.boolean(),
});

/** What became of `--apply`. Durations are milliseconds. */
export const applySection = z.object({
  /**
   * `applied`: as asked. `refused`: the command was not started. `failed`: it was, and nothing of it stays. `partly`: the
   * target was changed, or may have been, and is not as asked.
   */
  outcome: z.enum(['applied', 'refused', 'failed', 'partly']),
  reasons: z.array(z.string()),
  /** The run of the rehearsal that it relies on. */
  rehearsal: z.string(),
  /** Stands for the rehearsal, where one was given (`--receipt`). */
  receipt: z
    .object({
      finishedAt: time,
      ageMs: milliseconds,
      /** By `--receipt-key`; else the seal is a plain checksum, which anybody can make. */
      signed: z.boolean(),
    })
    .nullable(),
  /** Why it was applied although the rehearsal did not pass (`--force`). */
  forced: z.string().nullable(),
  startedAt: time.nullable(),
  finishedAt: time.nullable(),
  /** As it ended; of the last attempt. */
  command: z
    .object({
      exitCode: z.int().nullable(),
      signal: z.string().nullable(),
      timedOut: z.boolean(),
      durationMs: milliseconds,
    })
    .nullable(),
  /** Every run of the command on the target, in their order: with `--retries` there may be more than one. */
  attempts: z.array(
    z.object({
      startedAt: time,
      durationMs: milliseconds,
      exitCode: z.int().nullable(),
      signal: z.string().nullable(),
      /** In `apply.statements`, like the other numbers here; null: it sent none. */
      firstStatement: z.int().nullable(),
      /** What it failed of; null: no statement failed, or it did not end by itself. */
      failure: z
        .object({
          statement: z.int(),
          sqlstate: z.string(),
          /** `watchdog`: safemigrate cancelled or refused it because of those who waited behind it. */
          cause: z.enum(['lock', 'watchdog', 'other']),
        })
        .nullable(),
      /** Of the statements in `apply.committed` those that it sent: what it left. */
      committed: z.array(z.int()),
      /** Before the next attempt; null: there was none. */
      pausedMs: milliseconds.nullable(),
    }),
  ),
  /** What the target was sent, in all attempts; their numbers begin at 1 again. */
  statements: z.array(statementSection),
  transactions: z.array(transactionSection),
  during: duringSection.nullable(),
  /** The target's schema is the one that the rehearsal led to; null: not compared. */
  schemaEqual: z.boolean().nullable(),
  /** Of the target: right before the command, and after it. null: not read. */
  fingerprints: z.object({ before: z.string(), after: z.string().nullable() }).nullable(),
  /** What the target has otherwise than the rehearsal led to expect. */
  differences: z.array(z.string()),
  /** Invalid indexes and constraints that are not validated, which were not there before. */
  leftovers: z.array(z.object({ kind: z.string(), object: z.string() })),
  comparedTimes: z.array(
    z.object({
      sql: z.string(),
      /** In `statements` of the report. */
      rehearsed: z.int(),
      /** In `apply.statements`. */
      applied: z.int(),
      rehearsedMs: milliseconds,
      appliedMs: milliseconds,
    }),
  ),
  /** Statements that wrote, or may have, and whose transaction was committed, or may have been. */
  committed: z.array(appliedStatement),
  /** The same of which nothing stays. */
  rolledBack: z.array(appliedStatement),
  /** SQL that leads from what the target is now to what it was before; null where it is as before, or none could be made. */
  wayBack: z.string().nullable(),
  /**
   * Whether the table in which the migration tool notes what it ran says the same as `committed`, where the target was
   * changed otherwise than asked. null: not so, or it cannot be told from the statements.
   */
  bookkeeping: z
    .object({
      agrees: z.boolean(),
      /** Statements of `committed` that the tool does not know of, and would send again. */
      unnoted: z.array(z.int()),
    })
    .nullable(),
});

export const report = z.object({
  version: z.literal(1),
  run: runSection,
  target: targetSection,
  clone: cloneSection,
  command: commandSection,
  statements: z.array(statementSection),
  transactions: z.array(transactionSection),
  schema: schemaSection.nullable(),
  data: dataSection.nullable(),
  hazards: z.array(hazard),
  caveats: z.array(caveat),
  forecast: forecastSection.nullable(),
  /** null: `--queries off`, or none can be read. */
  queries: queriesSection.nullable(),
  checks: z.array(checkSection),
  /** null: not asked for (`--rerun`, `--down`), or not run; `caveats` say why. */
  rerun: furtherRunSection.nullable(),
  down: furtherRunSection.nullable(),
  targetConnections: z.array(targetConnection),
  verdict: z.object({ pass: z.boolean(), reasons: z.array(z.string()) }),
  /** null: not asked for (`--apply`). */
  apply: applySection.nullable(),
  swap: swapSection.nullable(),
  cleanup: z.object({
    done: z.array(z.string()),
    failed: z.array(z.object({ name: z.string(), reason: z.string() })),
  }),
});

export type Report = z.infer<typeof report>;
export type TargetSection = z.infer<typeof targetSection>;
export type CommandSection = z.infer<typeof commandSection>;
export type CloneSection = z.infer<typeof cloneSection>;
export type SchemaSection = z.infer<typeof schemaSection>;
export type SchemaChange = z.infer<typeof schemaChange>;
export type SchemaObject = z.infer<typeof schemaObject>;
export type Rename = z.infer<typeof rename>;
export type DataSection = z.infer<typeof dataSection>;
export type ForecastSection = z.infer<typeof forecastSection>;
export type StatementSection = z.infer<typeof statementSection>;
export type TargetConnection = z.infer<typeof targetConnection>;
export type TransactionSection = z.infer<typeof transactionSection>;
export type Hazard = z.infer<typeof hazard>;
export type Caveat = z.infer<typeof caveat>;
export type ApplySection = z.infer<typeof applySection>;
export type DuringSection = z.infer<typeof duringSection>;
export type SwapSection = z.infer<typeof swapSection>;
export type QueriesSection = z.infer<typeof queriesSection>;
export type CheckSection = z.infer<typeof checkSection>;
export type FurtherRunSection = z.infer<typeof furtherRunSection>;
