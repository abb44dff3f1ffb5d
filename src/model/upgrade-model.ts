import { z } from 'zod';
import { checkSection, queriesSection } from './check-model.ts';
import { bytes, milliseconds, time } from './measures.ts';
import { caveat, cloneSection } from './run-model.ts';
import { schemaChange } from './schema-model.ts';
import { statementSection, transactionSection } from './statement-model.ts';
import { TRIED_MODES, UPGRADE_MODES } from './upgrade-mode.ts';

/** A version of PostgreSQL. */
const installation = z.object({
  /** Major version. */
  major: z.int(),
  /** `18.4` */
  version: z.string(),
  /** The folder of its programs; null: a hosted service has them. */
  programs: z.string().nullable(),
});

/** A part of an upgrade, in the order in which they run. */
const upgradePhase = z.object({
  /** Program or step that ran: `service` is the service's own upgrade, `command` the command that belongs to the upgrade. */
  name: z.enum(['initdb', 'pg_upgrade', 'service', 'start', 'first statistics', 'statistics', 'command']),
  /** Time that it took. */
  durationMs: milliseconds,
  /** Users cannot work during it. */
  down: z.boolean(),
  /** Its longest steps as the program names them, in their order. */
  steps: z.array(
    z.object({
      /** Name of the step. */
      name: z.string(),
      /** Time that the step took. */
      durationMs: milliseconds,
    }),
  ),
});

/** The upgrade in one mode, tried on a copy of the cluster. */
const modeSection = z.object({
  /** The mode of pg_upgrade; `service`: a hosted service upgraded the clone. */
  mode: z.enum(TRIED_MODES),
  /** `skipped`: it was not tried, because it is not possible here or was not needed. */
  outcome: z.enum(['passed', 'failed', 'skipped']),
  /** Reason why it failed or was skipped. */
  reason: z.string().nullable(),
  /** Phases that ran, in their order. */
  phases: z.array(upgradePhase),
  /** The phases in which users cannot work, together; an upper bound for `service`; null unless it passed. */
  downtimeMs: milliseconds.nullable(),
  /** Disk space that it takes beyond the old cluster; null if it could not be measured. */
  peakBytes: bytes.nullable(),
  /** The old cluster can be started again after the new one has run. */
  wayBack: z.boolean(),
});

/** Results of the checks on the old and on the new version. */
const applicationSection = z.object({
  /** The mode after which it was tried. */
  mode: z.enum(TRIED_MODES),
  /** null: there were none to be tried. */
  queries: queriesSection.nullable(),
  /** Results of the user's own checks on both versions. */
  checks: z.array(checkSection),
  /** Differences of the schema right after the upgrade, but for what the versions explain; null: it could not be compared. */
  schemaChanges: z.array(schemaChange).nullable(),
  /** Differences of kinds of objects whose changes are described in words only. */
  unmodeled: z
    .array(
      z.object({
        /** Kind of object, in words. */
        kind: z.string(),
        /** The difference, in words. */
        detail: z.string(),
      }),
    )
    .nullable(),
});

/** After the first mode whose server was started. */
const postUpgradeCommand = z.object({
  /** Program and arguments, with secrets removed. */
  argv: z.array(z.string()),
  /** null: a signal ended it. */
  exitCode: z.int().nullable(),
  /** Time from the start of the command to its end. */
  durationMs: milliseconds,
  /** Statements that it sent to the upgraded server, as in the report of a rehearsal. */
  statements: z.array(statementSection),
  /** Transactions of the command. */
  transactions: z.array(transactionSection),
});

/** Something that prevents or impairs the upgrade. */
const obstacle = z.object({
  /** Code of the obstacle; docs/upgrade.md lists all. */
  code: z.string(),
  /** `error`: pg_upgrade refuses, or the new server does not work. */
  severity: z.enum(['error', 'warning', 'notice']),
  /** The obstacle, in a sentence. */
  message: z.string(),
  /** Objects concerned, at most 100. */
  objects: z.array(z.string()),
  /** Number of objects concerned. */
  count: z.int(),
  /** Advice: a sentence that says what to do. */
  remedy: z.string(),
  /** Statements that apply the remedy, if it is SQL. */
  sql: z.array(z.string()),
});

/** The report of `safemigrate upgrade`. Durations are milliseconds, sizes bytes, times ISO 8601. */
export const upgradeReport = z.object({
  /** Version of the format. */
  version: z.literal(1),
  /** The run that made this report. */
  run: z.object({
    /** Run id: short, unique and sortable by time. */
    id: z.string(),
    /** Start of the run. */
    startedAt: time,
    /** End of the run, after everything was released. */
    finishedAt: time,
    /** Always `upgrade`. */
    mode: z.literal('upgrade'),
    /** The program that made the report. */
    tool: z.object({
      /** Name of the program. */
      name: z.literal('safemigrate'),
      /** Version of the program. */
      version: z.string(),
    }),
  }),
  /** The cluster to upgrade, and the database that was connected to. */
  target: z.object({
    /** Host name, address, or folder of the Unix socket. */
    host: z.string(),
    /** Port of the server. */
    port: z.int(),
    /** Name of the database. */
    database: z.string(),
    /** Where the connection came from: `--url`, `DATABASE_URL`, … */
    source: z.string(),
    /** All databases that are upgraded. */
    databases: z.int(),
    /** Size of all databases; at a service, of those that the role may enter. */
    sizeBytes: bytes,
    /** Work of safemigrate itself on the target, beyond reading catalogues. */
    touched: z.array(z.string()),
  }),
  /** The copy of the cluster that the upgrade was tried on. */
  clone: z.object({
    /** The way in which the copy was made, such as `reflink` or `copy`. */
    strategy: z.string(),
    /** Isolation of the copy's server from others, as `clone.containment` of a rehearsal's report. */
    containment: z.enum(['sandbox', 'offline', 'own-server', 'target-server', 'other-server']),
    /** Until the copy had recovered and was shut down, or the clone of a service could be used. */
    durationMs: milliseconds,
    /** Reason why it was made in this way. */
    reason: z.string(),
    /** The hosted service that made the clone and upgraded it; left out or null for a copy of the files. */
    service: cloneSection.shape.service,
  }),
  /** The version that the target has. */
  from: installation,
  /** The version to upgrade to. */
  to: installation,
  /** Result of `pg_upgrade --check`, before any mode was tried; null if initdb could not make a cluster to upgrade to, or a service upgrades. */
  check: z
    .object({
      /** pg_upgrade found no obstacle. */
      passed: z.boolean(),
      /** Time that the check took. */
      durationMs: milliseconds,
      /** Lines that pg_upgrade wrote. */
      output: z.array(z.string()),
    })
    .nullable(),
  /** Obstacles that were found, also those that prevent nothing. */
  obstacles: z.array(obstacle),
  /** Empty unless the check passed. */
  modes: z.array(modeSection),
  /** The command that belongs to the upgrade, on the upgraded server; null: there was none, or no mode got that far. */
  command: postUpgradeCommand.nullable(),
  /** null: no mode passed. */
  application: applicationSection.nullable(),
  /** null: no mode passed, or a service upgrades, which has one mode. */
  recommendation: z
    .object({
      /** The mode to use. */
      mode: z.enum(UPGRADE_MODES),
      /** Reason for this one. */
      reason: z.string(),
    })
    .nullable(),
  /** true: pg_upgrade carries the planner's statistics over. */
  carriesStatistics: z.boolean(),
  /** Values that are estimates or could not be measured. */
  caveats: z.array(caveat),
  /** The judgement of the rehearsal. */
  verdict: z.object({
    /** The upgrade succeeded in at least one mode, and nothing that is an error was found. */
    pass: z.boolean(),
    /** Reasons why it did not pass, in sentences; empty if it passed. */
    reasons: z.array(z.string()),
  }),
  /** Things that the run acquired and released at its end. */
  cleanup: z.object({
    /** Names of the things that were released. */
    done: z.array(z.string()),
    /** Things that could not be released. */
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

export type UpgradeReport = z.infer<typeof upgradeReport>;
/** The sections that a rehearsal returns, with the run's id. */
export type UpgradeSections = Omit<UpgradeReport, 'version' | 'run' | 'cleanup'> & { readonly run: string };
export type ApplicationSection = z.infer<typeof applicationSection>;
export type PostUpgradeCommand = z.infer<typeof postUpgradeCommand>;
export type UpgradePhase = z.infer<typeof upgradePhase>;
export type ModeSection = z.infer<typeof modeSection>;
export type UpgradeObstacle = z.infer<typeof obstacle>;
