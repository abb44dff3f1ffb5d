import { z } from 'zod';

/** What the command sent, as one script (`--script`). */
export const scriptSection = z.object({
  /** null: it could not be written. */
  file: z.string().nullable(),
  /** Why not. */
  reason: z.string().nullable(),
  /** Number of statements in the script. */
  statements: z.int(),
  /** Number of transactions in the script. */
  transactions: z.int(),
});

export type ScriptSection = z.infer<typeof scriptSection>;
