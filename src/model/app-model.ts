import { z } from 'zod';
import { milliseconds } from './measures.ts';

/** One run of an application's own checks on a clone. */
const appRun = z.object({
  /** Exit code; null: a signal ended the command. */
  exitCode: z.int().nullable(),
  /** Signal that ended the command; null: none did. */
  signal: z.string().nullable(),
  /** The command was ended because it exceeded `appTimeout`. */
  timedOut: z.boolean(),
  /** Time from the start of the command to its end. */
  durationMs: milliseconds,
  /** Statements that it sent to the clone. */
  statements: z.int(),
});

/** Checks of the application in one of its releases, with the migration and without it (`--app`, `appNew`). */
const appCheck = z.object({
  /** The release that runs now, or the one that is to replace it. */
  release: z.enum(['old', 'new']),
  /** The command line, with secrets removed. */
  command: z.string(),
  /** On a clone that is not migrated; null: not tried, because the release works on the migrated one. */
  before: appRun.nullable(),
  /** On the migrated clone. */
  after: appRun,
  /**
   * `breaks`: it fails on the migrated clone only. `needs migration`: it fails on the clone that is not migrated only. `fails either way`:
   * the migration is not the reason. `unsteady`: it failed on one of the clones, but not when it was run there again.
   */
  result: z.enum(['works', 'breaks', 'needs migration', 'fails either way', 'unsteady']),
  /** Statements that failed in the run that failed, and not in the one that passed. */
  failed: z.array(
    z.object({
      /** SQLSTATE, five characters. */
      sqlstate: z.string(),
      /** Message of the server, without the values that it quotes. */
      message: z.string(),
      /** Normalized text, without literals. */
      sql: z.string(),
      /** Number of times that it failed. */
      count: z.int(),
    }),
  ),
  /** Statements that were refused, because they would have taken effect outside the clone. */
  refused: z.array(
    z.object({
      /** The statement or function that was refused. */
      what: z.string(),
      /** Reason why it was refused. */
      why: z.string(),
    }),
  ),
});

export const appSection = z.array(appCheck);

export type AppRun = z.infer<typeof appRun>;
export type AppCheck = z.infer<typeof appCheck>;
