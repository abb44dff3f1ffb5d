import { z } from 'zod';

/** The outcome of a run, what to do about it and where, in at most 2 kB (`--format summary`). Long texts are cut. */
export const summary = z.object({
  /** Version of the format. */
  version: z.literal(1),
  /** Run id, for `safemigrate show`. */
  run: z.string(),
  /** Outcome of the run: `passed`, `did not pass`, or the outcome of the apply or the swap. */
  outcome: z.string(),
  /** The rehearsal passed. */
  pass: z.boolean(),
  /** Exit code of the run; null: not known. */
  exitCode: z.int().nullable(),
  /** The command did not change the target: true if proved, null if neither is. An apply and a swap change it on purpose. */
  unchanged: z.boolean().nullable(),
  /** Number of hazards that the policy does not accept, by severity, and of those that it does. */
  hazards: z.object({
    errors: z.int(),
    warnings: z.int(),
    notices: z.int(),
    accepted: z.int(),
  }),
  /** Reasons against the migration, then the other errors and warnings. */
  findings: z.array(
    z.object({
      /** Code of the hazard or of the objection. */
      code: z.string(),
      /** The run does not pass because of it. */
      stops: z.boolean(),
      /** Qualified name of the relation; absent: it is about no single relation. */
      relation: z.string().optional(),
      /** `file:line` of the statement; absent: not known. */
      at: z.string().optional(),
      /** The finding, in a sentence. */
      message: z.string(),
      /** The change to make instead; absent: nothing is known. */
      fix: z.string().optional(),
      /** Option that accepts it; absent: it stops nothing, or cannot be accepted. */
      accept: z.string().optional(),
    }),
  ),
  /** Number of findings that had no room. */
  more: z.int(),
  /** Next step. */
  next: z.string(),
});

export type Summary = z.infer<typeof summary>;
