import { flag, grouped, type PlanOf, unflagged } from '../settings.ts';
import { AGE, choiceOf, DURATION, listOf, MOMENT, SECONDS, SIZE, SWITCH, TEXT } from '../value-types.ts';
import { SERVICE_IDS, type ServiceId } from './services/service-list.ts';

/** The clone methods, as --clone names them. */
export const METHOD_IDS = ['cluster', 'template', 'external', 'dump', 'basebackup'] as const;
/** `archive` is that of --clone-at. */
export type MethodId = (typeof METHOD_IDS)[number] | ServiceId | 'archive';

const HOUR_MS = 3_600_000;
const GB = 2 ** 30;

/** Settings for the making of the clone, and for its end. */
export const CLONE_SETTINGS = grouped(
  { group: 'Clone' },
  {
    method: flag('--clone <method>', choiceOf('auto', ...METHOD_IDS, ...SERVICE_IDS), {
      summary: `way to clone: auto, ${METHOD_IDS.join(', ')}, a service`,
      default: 'auto',
      common: true,
    }),
    of: unflagged('cloneOf', TEXT, {
      summary: "for a hosted service: its name of the target, if the target's host does not contain it",
    }),
    maxAgeMs: flag('--limit clone-age=<duration>', AGE, {
      summary: 'oldest data of a clone by a hosted service',
    }),
    rehearsalUrl: flag('--clone-to <url>', TEXT, {
      summary:
        'another server for the clone: its copy of the target is cloned, or the target is dumped into it',
    }),
    source: flag('--clone-from <url>', TEXT, {
      summary: 'standby of the target to copy the cluster from',
    }),
    checkpoint: unflagged('checkpoint', choiceOf('fast', 'spread'), {
      summary: 'checkpoint before the cluster is copied: fast, spread',
      default: 'fast',
    }),
    folder: flag('--clone-dir <folder>', TEXT, {
      summary: "folder for a copy of the cluster; without it, one beside the target's",
    }),
    ttlMs: unflagged('cloneTtl', DURATION, {
      summary: 'lifetime of a clone that runs as its own server',
      default: 6 * HOUR_MS,
    }),
    maxCopyBytes: flag('--limit copy=<size>', SIZE, {
      summary: 'largest size that is copied in full, unless --clone names the method',
      default: 10 * GB,
    }),
    schemaOnly: flag('--schema-only', SWITCH, {
      summary: 'clone the tables without their rows (dump)',
      default: false,
    }),
    excludeTableData: unflagged('excludeTableData', listOf(TEXT), {
      summary: 'tables to clone without their rows (dump); repeatable',
      default: [],
    }),
    databases: flag('--database <name>', listOf(TEXT), {
      summary: 'another database of the server that the command uses; repeatable (cluster, basebackup)',
      default: [],
      modes: ['rehearse'],
    }),
    allowExternalAccess: flag('--permit external', SWITCH, {
      summary:
        'let a clone without a sandbox have foreign servers, dblink, untrusted languages, subscriptions',
      default: false,
      notInFile: true,
    }),
    at: grouped(
      { modes: ['rehearse'] },
      {
        time: flag('--clone-at <time>', MOMENT, {
          summary:
            'rehearse on the target as of this time (2026-11-22 10:00+00), or as of the archive: latest',
        }),
        baseBackup: flag('--base-backup <place>', TEXT, {
          summary:
            'with --clone-at: base backup, data directory in a snapshot, or dataset@snapshot of ZFS, to begin with',
          notInFile: true,
        }),
        restoreCommand: unflagged('restoreCommand', TEXT, {
          summary:
            "with --clone-at: shell command that fetches %f from the archive to %p; without it: the target's",
          notInFile: true,
        }),
      },
    ),
    external: {
      create: flag('--clone-create <command>', TEXT, {
        summary: 'shell command that makes a clone elsewhere and prints its URL (external)',
        notInFile: true,
      }),
      destroy: flag('--clone-destroy <command>', TEXT, {
        summary: 'shell command that removes that clone; SAFEMIGRATE_CLONE_URL holds its URL',
        notInFile: true,
      }),
    },
    afterClone: flag('--after-clone <sql>', listOf(TEXT), {
      summary: 'SQL, or a file of it, to run on the clone before the command, e.g. to mask data; repeatable',
      default: [],
      notInFile: true,
    }),
    disconnect: flag('--disconnect <whom>', choiceOf('never', 'idle', 'all'), {
      summary: 'sessions to terminate: never, idle, all',
      default: 'never',
      notInFile: true,
    }),
    waitMs: unflagged('wait', SECONDS, {
      summary: 'how long to wait for sessions to leave the target',
      default: 10_000,
    }),
    maxStallMs: flag('--limit stall=<duration>', DURATION, {
      summary: 'longest wait for new connections to a target in use',
      default: 5_000,
    }),
    keep: flag('--keep', SWITCH, {
      summary: 'keep the clone, and print how to connect to it',
      default: false,
    }),
  },
);

type Settings = PlanOf<typeof CLONE_SETTINGS>;

/** The sources of a clone as of another time: `restoreCommand` is the target's own if it is null. */
export interface PointInTime extends Pick<Settings['at'], 'restoreCommand'> {
  /** A text that PostgreSQL reads, with a time zone; `latest`: as far as the archive goes. */
  readonly time: string;
  /** The folder of a base backup, a data directory in a snapshot of a file system, or the name of a ZFS snapshot. */
  readonly baseBackup: string;
}

/** The user's wishes for a clone. */
export interface CloneOptions extends Omit<Settings, 'method' | 'at' | 'external'> {
  readonly method: 'auto' | MethodId;
  /** The time as of which the target is cloned, from a base backup and archived WAL; null: now. */
  readonly at: PointInTime | null;
  /** Shell commands that make a clone elsewhere and print its URL, and that remove it. */
  readonly external: { readonly create: string; readonly destroy: string } | null;
}
