import { z } from 'zod';
import { applySection } from './apply-model.ts';
import { atOnceSection } from './at-once-model.ts';
import { checkSection, furtherRunSection, hazard, queriesSection } from './check-model.ts';
import { dataSection } from './data-model.ts';
import { forecastSection } from './forecast-model.ts';
import { loadSection } from './load-model.ts';
import { proposalSection } from './proposal-model.ts';
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
import { scriptSection } from './script-model.ts';
import { statementSection, transactionSection } from './statement-model.ts';
import { swapSection } from './swap-model.ts';

/**
 * The report: what every renderer reads and `--format json` prints. Each module of the program returns its section. Durations are
 * milliseconds, sizes bytes, times ISO 8601. Paths are stable from version 1 on; more may be added. A value that could not
 * be measured is null, and `caveats` says why (promise P7).
 */
export const report = z.object({
  version: z.literal(1),
  run: runSection,
  target: targetSection,
  clone: cloneSection,
  command: commandSection,
  /** Absent: judged by the sizes and rates of this database. */
  profile: profileSection.optional(),
  statements: z.array(statementSection),
  transactions: z.array(transactionSection),
  schema: schemaSection.nullable(),
  data: dataSection.nullable(),
  hazards: z.array(hazard),
  caveats: z.array(caveat),
  forecast: forecastSection.nullable(),
  /** null: `--queries off`, or no queries can be read. */
  queries: queriesSection.nullable(),
  checks: z.array(checkSection),
  /** null: not requested (`--rerun`, `--down`), or not run; `caveats` says why. */
  rerun: furtherRunSection.nullable(),
  down: furtherRunSection.nullable(),
  /** null: not requested (`--at-once`), or not run; `caveats` says why. */
  atOnce: atOnceSection.nullable(),
  /** null: not requested (`--load`), or not run; `caveats` says why. */
  load: loadSection.nullable(),
  /** Absent: not requested (`--propose`). */
  proposal: proposalSection.optional(),
  /** Absent: not requested (`--script`). */
  script: scriptSection.optional(),
  targetConnections: z.array(targetConnection),
  verdict: z.object({ pass: z.boolean(), reasons: z.array(z.string()) }),
  /** null: not requested (`--apply`). */
  apply: applySection.nullable(),
  /** null: not requested (`--swap`). */
  swap: swapSection.nullable(),
  cleanup: z.object({
    done: z.array(z.string()),
    failed: z.array(z.object({ name: z.string(), reason: z.string() })),
  }),
});

export type Report = z.infer<typeof report>;

export type { ApplySection, DuringSection } from './apply-model.ts';
export type { AtOnceSection } from './at-once-model.ts';
export type { CheckSection, FurtherRunSection, Hazard, QueriesSection } from './check-model.ts';
export type { ConvertedColumn, DataSection } from './data-model.ts';
export type { ForecastSection } from './forecast-model.ts';
export type { LoadedRunSection, LoadPhase, LoadSection } from './load-model.ts';
export type { ProposalMeasures, ProposalSection } from './proposal-model.ts';
export type {
  Caveat,
  CloneSection,
  CommandAttempt,
  CommandIsolation,
  CommandSection,
  ProfileSection,
  TargetConnection,
  TargetSection,
} from './run-model.ts';
export type { Rename, SchemaChange, SchemaObject, SchemaSection } from './schema-model.ts';
export type { ScriptSection } from './script-model.ts';
export type {
  ProductionTime,
  StatementNote,
  StatementSection,
  TransactionSection,
} from './statement-model.ts';
export type { SwapSection } from './swap-model.ts';
