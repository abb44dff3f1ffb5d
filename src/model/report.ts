import { z } from 'zod';
import { appSection } from './app-model.ts';
import { applySection } from './apply-model.ts';
import {
  atOnceSection,
  checkSection,
  furtherRunSection,
  hazard,
  objection,
  printedHazard,
  printedObjection,
  queriesSection,
} from './check-model.ts';
import { dataSection } from './data-model.ts';
import { forecastSection } from './forecast-model.ts';
import { loadSection } from './load-model.ts';
import { proposalSection, scriptSection } from './proposal-model.ts';
import {
  caveat,
  cloneSection,
  commandSection,
  profileSection,
  runSection,
  targetConnection,
  targetSection,
} from './run-model.ts';
import { schemaSection } from './schema-model.ts';
import { statementSection, transactionSection } from './statement-model.ts';
import { swapSection } from './swap-model.ts';

/** The judgement of the rehearsal by the policy. */
const verdictSection = z.object({
  /** The rehearsal passed: the exit code is 0, and an apply or a swap may follow. */
  pass: z.boolean(),
  /** Reasons why it did not pass, in sentences; empty if it passed. */
  reasons: z.array(z.string()),
  /** The same reasons as objects, in the same order. Absent from reports of versions that did not have them. */
  objections: z.array(objection).optional(),
});

/**
 * The report: what every renderer reads and `--format json` prints. Each module of the program returns its section. Durations are
 * milliseconds, sizes bytes, times ISO 8601. Paths are stable from version 1 on; more may be added. A value that could not
 * be measured is null, and `caveats` says why (promise P7).
 */
export const report = z.object({
  /** Version of the report's format; a new one only if a path goes or changes its meaning. */
  version: z.literal(1),
  /** Exit code of the run. Absent: the report comes from the library, or from a version that did not say. */
  exitCode: z.int().optional(),
  run: runSection,
  target: targetSection,
  clone: cloneSection,
  command: commandSection,
  /** Absent: judged by the sizes and rates of this database. */
  profile: profileSection.optional(),
  /** Statements of the command on the clone, in the order in which they began. */
  statements: z.array(statementSection),
  /** Transactions of the command on the clone, in the order in which they began. */
  transactions: z.array(transactionSection),
  /** Schema before and after the command; null: it could not be compared, `caveats` says why. */
  schema: schemaSection.nullable(),
  /** Data before and after the command; null: it could not be compared, `caveats` says why. */
  data: dataSection.nullable(),
  /** Hazards that were found, also those that the policy accepts. */
  hazards: z.array(hazard),
  caveats: z.array(caveat),
  forecast: forecastSection.nullable(),
  /** null: `--queries off`, or no queries can be read. */
  queries: queriesSection.nullable(),
  /** Results of the user's own checks (`--check`, `--check-empty`); empty without any. */
  checks: z.array(checkSection),
  /** null: not requested (`--rerun`, `--down`), or not run; `caveats` says why. */
  rerun: furtherRunSection.nullable(),
  /** The down migration (`--down`) after the command. null: not requested, or not run; `caveats` says why. */
  down: furtherRunSection.nullable(),
  /** null: not requested (`--at-once`), or not run; `caveats` says why. */
  atOnce: atOnceSection.nullable(),
  /** Checks of the application's releases (`--app`, `appNew`). Absent: not requested, or not run; `caveats` says why. */
  app: appSection.optional(),
  /** null: not requested (`--load`), or not run; `caveats` says why. */
  load: loadSection.nullable(),
  /** Absent: not requested (`--propose`). */
  proposal: proposalSection.optional(),
  /** Absent: not requested (`--script`). */
  script: scriptSection.optional(),
  /** Sessions that the command opened on the target itself; empty if there were none. */
  targetConnections: z.array(targetConnection),
  /** The judgement of the rehearsal by the policy. */
  verdict: verdictSection,
  /** null: not requested (`safemigrate apply`). */
  apply: applySection.nullable(),
  /** null: not requested (`safemigrate swap`). */
  swap: swapSection.nullable(),
  /** Things that the run acquired and released at its end. */
  cleanup: z.object({
    /** Names of the things that were released. */
    done: z.array(z.string()),
    /** Things that could not be released; `safemigrate clean` removes what is left of them. */
    failed: z.array(
      z.object({
        /** Name of the thing, as in `done`. */
        name: z.string(),
        /** Message of the error. */
        reason: z.string(),
      }),
    ),
  }),
});

/** The report as `--format json` prints it: each hazard and each objection says all that a program acts on. */
export const printedReport = report.extend({
  /** Hazards that were found, also those that the policy accepts. */
  hazards: z.array(printedHazard),
  /** The judgement of the rehearsal by the policy. */
  verdict: verdictSection.extend({
    /** The same reasons as objects, in the same order. */
    objections: z.array(printedObjection),
  }),
});

/** An ending without a report, as `--format json` prints it: wrong options, no connection, a refusal, an interrupt. */
export const printedError = z.object({
  error: z.object({
    /** Code of the error: `USAGE`, `CONFIGURATION`, `CONNECTION`, … (docs/exit-codes-and-errors.md). */
    code: z.string(),
    /** The failure, in words. */
    message: z.string(),
    /** The next step; null: there is none to give. */
    hint: z.string().nullable(),
    /** SQLSTATE of the server; null: the failure did not come from a server. */
    sqlstate: z.string().nullable(),
    /** Exit code of safemigrate. */
    exitCode: z.int(),
  }),
});

export type Report = z.infer<typeof report>;
export type PrintedReport = z.infer<typeof printedReport>;
export type PrintedError = z.infer<typeof printedError>;

export type { AppCheck, AppRun } from './app-model.ts';
export type { ApplySection, DuringSection } from './apply-model.ts';
export type {
  AtOnceSection,
  CheckSection,
  FurtherRunSection,
  Hazard,
  Objection,
  PrintedHazard,
  PrintedObjection,
  QueriesSection,
} from './check-model.ts';
export type { ConvertedColumn, DataSection } from './data-model.ts';
export type { ForecastSection } from './forecast-model.ts';
export type { LoadedRunSection, LoadPhase, LoadSection } from './load-model.ts';
export type { ProposalMeasures, ProposalSection, ScriptSection } from './proposal-model.ts';
export type {
  Caveat,
  CloneSection,
  CommandAttempt,
  CommandIsolation,
  CommandSection,
  TargetConnection,
  TargetSection,
} from './run-model.ts';
export type { Rename, SchemaChange, SchemaObject, SchemaSection } from './schema-model.ts';
export type {
  ProductionTime,
  StatementNote,
  StatementSection,
  TransactionSection,
} from './statement-model.ts';
export type { OnlineSection, SwapSection } from './swap-model.ts';
