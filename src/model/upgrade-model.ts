import { z } from 'zod';
import { checkSection, queriesSection } from './check-model.ts';
import { bytes, milliseconds, time } from './measures.ts';
import { caveat } from './run-model.ts';
import { schemaChange } from './schema-model.ts';
import { statementSection, transactionSection } from './statement-model.ts';
import { UPGRADE_MODES } from './upgrade-mode.ts';

const installation = z.object({
  major: z.int(),
  /** `18.4` */
  version: z.string(),
  /** The folder of its programs. */
  programs: z.string(),
});

/** A part of an upgrade, in the order in which they run. */
const upgradePhase = z.object({
  name: z.enum(['initdb', 'pg_upgrade', 'start', 'first statistics', 'statistics', 'command']),
  durationMs: milliseconds,
  /** Users cannot work during it. */
  down: z.boolean(),
  /** Its longest steps as the program names them, in their order. */
  steps: z.array(z.object({ name: z.string(), durationMs: milliseconds })),
});

const modeSection = z.object({
  mode: z.enum(UPGRADE_MODES),
  outcome: z.enum(['passed', 'failed', 'skipped']),
  /** Why it failed or was skipped. */
  reason: z.string().nullable(),
  phases: z.array(upgradePhase),
  /** The phases in which users cannot work, together; null unless it passed. */
  downtimeMs: milliseconds.nullable(),
  /** Disk space that it takes beyond the old cluster; null if it could not be measured. */
  peakBytes: bytes.nullable(),
  /** The old cluster can be started again after the new one has run. */
  wayBack: z.boolean(),
});

/** What the target's database and its application are on both versions. */
const applicationSection = z.object({
  /** The mode after which it was tried. */
  mode: z.enum(UPGRADE_MODES),
  /** null: there were none to be tried. */
  queries: queriesSection.nullable(),
  checks: z.array(checkSection),
  /** Differences of the schema right after the upgrade, but for what the versions explain; null: it could not be compared. */
  schemaChanges: z.array(schemaChange).nullable(),
  /** Differences of kinds of objects whose changes are described in words only. */
  unmodeled: z.array(z.object({ kind: z.string(), detail: z.string() })).nullable(),
});

/** After the first mode whose server was started. */
const postUpgradeCommand = z.object({
  argv: z.array(z.string()),
  /** null: a signal ended it. */
  exitCode: z.int().nullable(),
  durationMs: milliseconds,
  /** What it sent to the upgraded server, as in the report of a rehearsal. */
  statements: z.array(statementSection),
  transactions: z.array(transactionSection),
});

const obstacle = z.object({
  code: z.string(),
  /** `error`: pg_upgrade refuses, or the new server does not work. */
  severity: z.enum(['error', 'warning', 'notice']),
  message: z.string(),
  /** What it concerns: at most 100. */
  objects: z.array(z.string()),
  /** How many it concerns. */
  count: z.int(),
  remedy: z.string(),
  /** Statements that apply the remedy, if it is SQL. */
  sql: z.array(z.string()),
});

/** The report of `safemigrate upgrade`. Durations are milliseconds, sizes bytes, times ISO 8601. */
export const upgradeReport = z.object({
  version: z.literal(1),
  run: z.object({
    id: z.string(),
    startedAt: time,
    finishedAt: time,
    mode: z.literal('upgrade'),
    tool: z.object({ name: z.literal('safemigrate'), version: z.string() }),
  }),
  target: z.object({
    host: z.string(),
    port: z.int(),
    database: z.string(),
    source: z.string(),
    /** All databases that pg_upgrade moves. */
    databases: z.int(),
    sizeBytes: bytes,
    /** What safemigrate itself did on the target, beyond reading catalogues. */
    touched: z.array(z.string()),
  }),
  clone: z.object({
    strategy: z.string(),
    containment: z.enum(['sandbox', 'offline', 'own-server', 'target-server', 'other-server']),
    /** Until the copy had recovered and was shut down. */
    durationMs: milliseconds,
    reason: z.string(),
  }),
  from: installation,
  to: installation,
  /** What `pg_upgrade --check` said, before any mode was tried; null if initdb could not make a cluster to upgrade to. */
  check: z.object({ passed: z.boolean(), durationMs: milliseconds, output: z.array(z.string()) }).nullable(),
  obstacles: z.array(obstacle),
  /** Empty unless the check passed. */
  modes: z.array(modeSection),
  /** The command that belongs to the upgrade, on the upgraded server; null: there was none, or no mode got that far. */
  command: postUpgradeCommand.nullable(),
  /** null: no mode passed. */
  application: applicationSection.nullable(),
  /** null: no mode passed. */
  recommendation: z.object({ mode: z.enum(UPGRADE_MODES), reason: z.string() }).nullable(),
  /** Whether pg_upgrade carries the planner's statistics over. */
  carriesStatistics: z.boolean(),
  caveats: z.array(caveat),
  verdict: z.object({ pass: z.boolean(), reasons: z.array(z.string()) }),
  cleanup: z.object({
    done: z.array(z.string()),
    failed: z.array(z.object({ name: z.string(), reason: z.string() })),
  }),
});

export type UpgradeReport = z.infer<typeof upgradeReport>;
export type Installation = z.infer<typeof installation>;
export type ApplicationSection = z.infer<typeof applicationSection>;
export type PostUpgradeCommand = z.infer<typeof postUpgradeCommand>;
export type UpgradePhase = z.infer<typeof upgradePhase>;
export type ModeSection = z.infer<typeof modeSection>;
export type UpgradeObstacle = z.infer<typeof obstacle>;
