import { z } from 'zod';
import { milliseconds } from './measures.ts';

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

export type AtOnceSection = z.infer<typeof atOnceSection>;
