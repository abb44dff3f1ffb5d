import { z } from 'zod';
import { milliseconds } from './measures.ts';

/** The outcome of `--swap`, if the rehearsal passed. */
export const swapSection = z.object({
  /** `refused`: nothing was changed. `undone`: the target was closed for a while, and is as before. */
  outcome: z.enum(['swapped', 'undone', 'refused']),
  reasons: z.array(z.string()),
  /** The new name of the original database. */
  original: z.string().nullable(),
  /** How long the original is to be kept (ISO 8601); null if no time was given. */
  keepUntil: z.string().nullable(),
  /** How long no session could connect to the target. */
  stallMs: milliseconds.nullable(),
  sessionsEnded: z.int(),
  steps: z.array(z.object({ name: z.string(), durationMs: milliseconds })),
});

export type SwapSection = z.infer<typeof swapSection>;
