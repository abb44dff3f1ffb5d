import { z } from 'zod';
import { bytes, milliseconds } from './measures.ts';
import { statementSection, transactionSection } from './statement-model.ts';

/** Costs of one of the two forms, each on a clone of its own. */
const proposalMeasures = z.object({
  /** Time from the start of the command or script to its end. */
  durationMs: milliseconds,
  /** The longest time that reads of a table were blocked; null: its locks were not observed. */
  readsBlockedMs: milliseconds.nullable(),
  /** Longest time that writes to a table were blocked; null: its locks were not observed. */
  writesBlockedMs: milliseconds.nullable(),
  /** WAL written; null: it could not be read. */
  walBytes: bytes.nullable(),
  /** Needed at the peak: old and new files of rewritten tables, growth and WAL, without indexes of the old files. */
  diskBytes: bytes.nullable(),
  /** With `--load`: what the traffic felt. null: not requested, or it could not be measured; `caveats` says why. */
  load: z
    .object({
      /** Time in which at least one session waited. */
      someWaitedMs: milliseconds,
      /** Longest time that one session waited. */
      longestWaitMs: milliseconds,
      /** Transactions of the load that failed while it ran, or after it. */
      failures: z.int(),
    })
    .nullable(),
});

/** A statement of the command, and the change that the script makes to it. */
const change = z.object({
  /** null: it is not about one statement. */
  statement: z.int().nullable(),
  /** Codes of the hazards concerned. */
  codes: z.array(z.string()),
  /** The statements that the script has instead, in words, or the reason why the statement is left as it was. */
  words: z.string(),
});

/** A safer form of what the command did (`--propose`), proved on another clone. */
export const proposalSection = z.object({
  /**
   * `proved`: it left the same schema and the same rows, without the hazards, and was written to `file`. `refused`: it did not, or it could
   * not be written. `none`: no hazard that was found can be taken away by a script.
   */
  outcome: z.enum(['proved', 'refused', 'none']),
  /** File that the script was written to; null: none was written. */
  file: z.string().nullable(),
  /** Reasons why it is not proved. */
  reasons: z.array(z.string()),
  /** Changes that take hazards away. */
  changes: z.array(change),
  /** Statements that have such a hazard, and no safer form. */
  left: z.array(change),
  /** Data that differs between any two runs, and was not compared: times, UUIDs, the migration tool's own table. */
  tolerated: z.array(z.string()),
  /** Number of tables whose rows were compared. */
  tablesCompared: z.int(),
  /** Tables whose rows were not compared because they are too large. */
  tablesSkipped: z.int(),
  /** Cost of the command as it is. */
  original: proposalMeasures,
  /** null: it was not run. */
  safer: proposalMeasures.nullable(),
  /** Statements of the script. */
  statements: z.array(statementSection),
  /** Transactions of the script. */
  transactions: z.array(transactionSection),
});

/** The statements of the command, as one script (`--script`). */
export const scriptSection = z.object({
  /** null: it could not be written. */
  file: z.string().nullable(),
  /** Reason why it was not written. */
  reason: z.string().nullable(),
  /** Number of statements in the script. */
  statements: z.int(),
  /** Number of transactions in the script. */
  transactions: z.int(),
});

export type ProposalSection = z.infer<typeof proposalSection>;
export type ProposalMeasures = z.infer<typeof proposalMeasures>;
export type ScriptSection = z.infer<typeof scriptSection>;
