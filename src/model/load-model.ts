import { z } from 'zod';
import { duringSection } from './apply-model.ts';
import { lockWaits } from './lock-waits.ts';
import { milliseconds, time } from './measures.ts';
import { statementSection, transactionSection } from './statement-model.ts';

/** Transactions of the load that ended in a part of the run. A latency is null if there was none. */
const loadPhase = z.object({
  /** Length of the part. */
  durationMs: milliseconds,
  /** Transactions that ended in it, also failed ones. */
  transactions: z.int(),
  /** Transactions that failed in it. */
  failures: z.int(),
  /** Median latency. */
  p50Ms: milliseconds.nullable(),
  /** 95th percentile of the latencies. */
  p95Ms: milliseconds.nullable(),
  /** 99th percentile of the latencies. */
  p99Ms: milliseconds.nullable(),
  /** Longest latency. */
  maxMs: milliseconds.nullable(),
});

/** One run of the command under load. */
const loadedRun = z.object({
  /** Time at which the load began. */
  startedAt: time,
  /**
   * Number of sessions that played the load; 1 for a command of the user's, whose sessions are not counted.
   */
  clients: z.int(),
  /** null if the command never connected to the clone. */
  command: z.object({
    /** Exit code; null: a signal ended the command. */
    exitCode: z.int().nullable(),
    /** Start of the command, counted from the start of the load. */
    startedMs: milliseconds,
    /** End of the command, counted from the start of the load. */
    endedMs: milliseconds,
    /** It left the schema that the rehearsal without load left. null: not compared, because it failed for example. */
    schemaEqual: z.boolean().nullable(),
  }),
  /** Before the command. */
  before: loadPhase,
  /** Transactions that were open while the command ran. */
  during: loadPhase,
  /** After the command, until the load ended. */
  after: loadPhase,
  /** Time from the end of the command until no session waited and latencies were as before; null: not within the time that was waited. */
  recoveryMs: milliseconds.nullable(),
  /** Each second, by the time when transactions ended; a run of more than 300 s has parts of two seconds, of four, and so on. */
  seconds: z.array(
    z.object({
      /** Start of this part, counted from the start of the load. */
      atMs: milliseconds,
      /** Length of the part. */
      durationMs: milliseconds,
      /** Transactions that ended in it, also failed ones. */
      transactions: z.int(),
      /** Transactions that failed in it. */
      failures: z.int(),
      /** Median latency; null if none ended. */
      p50Ms: milliseconds.nullable(),
      /** 95th percentile of the latencies; null if none ended. */
      p95Ms: milliseconds.nullable(),
      /** Longest latency; null if none ended. */
      maxMs: milliseconds.nullable(),
      /** Most sessions of the load that waited behind the command at once. */
      waiting: z.int(),
    }),
  ),
  /** Sum of the times that sessions of the load waited behind the command, in milliseconds. */
  blockedMs: milliseconds,
  /** Longest time that one session waited. */
  longestWaitMs: milliseconds,
  /** Highest number of sessions that waited at the same time. */
  mostWaiting: z.int(),
  /** Time in which at least one session waited. */
  someWaitedMs: milliseconds,
  /** The same for each relation, and the statement of the command that ran at that time. */
  blocked: z.array(
    z.object({
      /** null: the wait was for something else, such as a transaction id. */
      relation: z.string().nullable(),
      /** The index of the statement in the loaded run. */
      statement: z.int().nullable(),
      /** Text of the statement; null if the statement is not known. */
      sql: z.string().nullable(),
      /** Sum of the waiting times. */
      blockedMs: milliseconds,
      /** Number of sessions that waited. */
      sessions: z.int(),
      /** Longest time that one of them waited. */
      longestMs: milliseconds,
    }),
  ),
  /** Waits for locks on the clone's server while the load ran, also those of the load's sessions for each other. Absent before PostgreSQL 19. */
  lockWaits: lockWaits.optional(),
  /** Errors of the load's transactions that ended while the command ran or after it. */
  failures: z.array(
    z.object({
      /** SQLSTATE; empty if the error has none. */
      sqlstate: z.string(),
      /** Message of the first such error. */
      message: z.string(),
      /** Number of such errors. */
      count: z.int(),
    }),
  ),
  /** Deadlocks between the command and the load. */
  deadlocks: z.array(
    z.object({
      /** The transaction that the server ended: the command's or one of the load. */
      victim: z.enum(['command', 'load']),
      /** The statement of the command that took part, if it is known. */
      statement: z.int().nullable(),
      /** Text of the statement; null if the statement is not known. */
      sql: z.string().nullable(),
      /** Who waited for which lock, by the server's own words, with names. */
      detail: z.string(),
    }),
  ),
  /** Sessions on the clone's server, and how many it permits. */
  connections: z.object({
    /** Highest number of sessions at the same time. */
    most: z.int(),
    /** max_connections. */
    limit: z.int(),
  }),
  /**
   * Connections that the target would need if its application opened one for each request that is held back: those that are open, and the
   * transactions that could not begin while sessions waited. null: the target's sessions could not be counted.
   */
  pool: z
    .object({
      /** Connections that would be needed. */
      needed: z.int(),
      /** Sessions that are open on the target. */
      open: z.int(),
      /** Connections of the target that ordinary roles can use. */
      limit: z.int(),
    })
    .nullable(),
  /** Statements that the command sent in this run. */
  statements: z.array(statementSection),
  /** Transactions of the command in this run. */
  transactions: z.array(transactionSection),
});

/**
 * The command under the target's traffic, on a second clone (`--load`): what the traffic felt. Times count from the start of the load.
 */
export const loadSection = loadedRun.extend({
  /** `shapes`: the locks that the target's own transactions were seen to take. `pgbench`: scripts of the user. `command`: a command of the user's. */
  source: z.enum(['shapes', 'pgbench', 'command']),
  /** The load that was played, in a sentence. */
  origin: z.string(),
  /** Transactions a second before the command ran, while nothing was in their way. */
  rate: z.object({
    /** Rate as the server counted it on the target, or as the profile has them, times `loadRate`; for scripts `loadRate`. null: as many as can be. */
    wanted: z.number().nullable(),
    /** Transactions that ended. null: the load began together with the command. */
    played: z.number().nullable(),
  }),
  /** With `safemigrate apply`: the same once more, with the guardrails of the apply. null: not requested, or it could not be made. */
  guarded: loadedRun
    .extend({
      /** Actions of the guardrails; null: the command was not started. */
      guardrails: duringSection.nullable(),
    })
    .nullable(),
});

export type LoadedRunSection = z.infer<typeof loadedRun>;
export type LoadSection = z.infer<typeof loadSection>;
export type LoadPhase = z.infer<typeof loadPhase>;
