import { z } from 'zod';
import { milliseconds } from './measures.ts';

/** The command, started several times together on a second clone (`--at-once`), as replicas of a service do at boot. */
export const atOnceSection = z.object({
  runs: z.array(
    z.object({ exitCode: z.int().nullable(), signal: z.string().nullable(), durationMs: milliseconds }),
  ),
  /** Statements that the server ended because of a deadlock. */
  deadlocks: z.int(),
  /** Together they left the schema that one run leaves. null: not compared. */
  schemaEqual: z.boolean().nullable(),
  /** Tables that hold other rows than after one run. Columns with times and UUIDs are not compared. */
  dataDifferences: z.array(z.object({ relation: z.string(), what: z.string(), bookkeeping: z.boolean() })),
  tablesCompared: z.int(),
  /** Tables whose rows were not compared because they are too large. */
  tablesSkipped: z.int(),
  /** All of them succeeded, and what they left is what one leaves. */
  passed: z.boolean(),
});

export type AtOnceSection = z.infer<typeof atOnceSection>;
