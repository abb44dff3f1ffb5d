import { z } from 'zod';
import { milliseconds } from './measures.ts';

/** The outcome of `safemigrate swap`, if the rehearsal passed. */
export const swapSection = z.object({
  /** `refused`: nothing was changed. `undone`: the target was closed for a while, and is as before. */
  outcome: z.enum(['swapped', 'undone', 'refused']),
  /** Why the outcome is this one, in sentences; empty if it was swapped. */
  reasons: z.array(z.string()),
  /** The new name of the original database. */
  original: z.string().nullable(),
  /** How long the original is to be kept (ISO 8601); null if no time was given. */
  keepUntil: z.string().nullable(),
  /** How long no session could connect to the target. */
  stallMs: milliseconds.nullable(),
  /** Number of sessions on the target that were terminated. */
  sessionsEnded: z.int(),
  /** Steps of the swap, in their order. */
  steps: z.array(
    z.object({
      /** Name of the step. */
      name: z.string(),
      /** Time that the step took. */
      durationMs: milliseconds,
    }),
  ),
});

export type SwapSection = z.infer<typeof swapSection>;
