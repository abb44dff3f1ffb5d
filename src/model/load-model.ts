import { z } from 'zod';
import { duringSection } from './apply-model.ts';
import { milliseconds, time } from './measures.ts';
import { statementSection, transactionSection } from './statement-model.ts';

/** Transactions of the load that ended in a part of the run. A latency is null if there was none. */
const loadPhase = z.object({
  durationMs: milliseconds,
  transactions: z.int(),
  failures: z.int(),
  p50Ms: milliseconds.nullable(),
  p95Ms: milliseconds.nullable(),
  p99Ms: milliseconds.nullable(),
  maxMs: milliseconds.nullable(),
});

/** One run of the command under load. */
const loadedRun = z.object({
  /** When the load began. */
  startedAt: time,
  clients: z.int(),
  /** null if the command never connected to the clone. */
  command: z.object({
    exitCode: z.int().nullable(),
    startedMs: milliseconds,
    endedMs: milliseconds,
    /** It left the schema that the rehearsal without load left. null: not compared, because it failed for example. */
    schemaEqual: z.boolean().nullable(),
  }),
  /** Before the command. */
  before: loadPhase,
  /** Transactions that were open while the command ran. */
  during: loadPhase,
  after: loadPhase,
  /** Time from the end of the command until no session waited and latencies were as before; null: not within the time that was waited. */
  recoveryMs: milliseconds.nullable(),
  /** Each second, by the time when transactions ended; a run of more than 300 s has parts of two seconds, of four, and so on. */
  seconds: z.array(
    z.object({
      atMs: milliseconds,
      durationMs: milliseconds,
      transactions: z.int(),
      failures: z.int(),
      p50Ms: milliseconds.nullable(),
      p95Ms: milliseconds.nullable(),
      maxMs: milliseconds.nullable(),
      /** Most sessions of the load that waited behind the command at once. */
      waiting: z.int(),
    }),
  ),
  /** Sum of the times that sessions of the load waited behind the command, in milliseconds. */
  blockedMs: milliseconds,
  longestWaitMs: milliseconds,
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
      sql: z.string().nullable(),
      blockedMs: milliseconds,
      sessions: z.int(),
      longestMs: milliseconds,
    }),
  ),
  /** Errors of the load's transactions that ended while the command ran or after it. */
  failures: z.array(z.object({ sqlstate: z.string(), message: z.string(), count: z.int() })),
  /** Deadlocks between the command and the load. */
  deadlocks: z.array(
    z.object({
      victim: z.enum(['command', 'load']),
      /** The statement of the command that took part, if it is known. */
      statement: z.int().nullable(),
      sql: z.string().nullable(),
      /** Who waited for which lock, by the server's own words, with names. */
      detail: z.string(),
    }),
  ),
  /** Sessions on the clone's server, and how many it permits. */
  connections: z.object({ most: z.int(), limit: z.int() }),
  /**
   * Connections that the target would need if its application opened one for each request that is held back: those that are open, and the
   * transactions that could not begin while sessions waited. null: the target's sessions could not be counted.
   */
  pool: z.object({ needed: z.int(), open: z.int(), limit: z.int() }).nullable(),
  /** What the command sent in this run. */
  statements: z.array(statementSection),
  transactions: z.array(transactionSection),
});

/**
 * The command under the target's traffic, on a second clone (`--load`): what the traffic felt. Times count from the start of the load.
 */
export const loadSection = loadedRun.extend({
  /** `shapes`: the locks that the target's own transactions were seen to take. `pgbench`: scripts of the user. `command`: a command of the user's. */
  source: z.enum(['shapes', 'pgbench', 'command']),
  /** What was played, in a sentence. */
  origin: z.string(),
  /** Transactions a second before the command ran, while nothing was in their way. */
  rate: z.object({
    /** As the server counted them on the target, or as the profile has them, times `--load-rate`; for scripts `--load-rate`. null: as many as can be. */
    wanted: z.number().nullable(),
    /** Those that ended. null: the load began together with the command. */
    played: z.number().nullable(),
  }),
  /** With `--apply`: the same once more, with the guardrails of the apply. null: not requested, or it could not be made. */
  guarded: loadedRun.extend({ guardrails: duringSection.nullable() }).nullable(),
});

export type LoadedRunSection = z.infer<typeof loadedRun>;
export type LoadSection = z.infer<typeof loadSection>;
export type LoadPhase = z.infer<typeof loadPhase>;
