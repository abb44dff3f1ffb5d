import { METHOD_IDS } from '../../clone/method-id.ts';
import type { RehearsalSettings } from '../../rehearsal/run-options.ts';
import type { OptionsFor } from './option-spec.ts';
import { choiceOf, DURATION, listOf, MOMENT, SECONDS, SIZE, SWITCH, TEXT } from './value-types.ts';

/** How the clone is made, and what becomes of it: a part of the rehearsal's table. */
export const CLONING_OPTIONS = {
  clone: {
    flag: '--clone <method>',
    summary: `how to make the clone: auto, ${METHOD_IDS.join(', ')}`,
    group: 'Clone',
    type: choiceOf('auto', ...METHOD_IDS),
    common: true,
  },
  rehearsalUrl: {
    flag: '--rehearsal-url <url>',
    summary:
      'another server for the clone: its copy of the target is cloned, or the target is dumped into it',
    group: 'Clone',
    type: TEXT,
  },
  source: {
    flag: '--source <url>',
    summary: 'standby of the target to copy the cluster from',
    group: 'Clone',
    type: TEXT,
  },
  checkpoint: {
    flag: '--checkpoint <how>',
    summary: 'checkpoint before the cluster is copied: fast, spread',
    group: 'Clone',
    type: choiceOf('fast', 'spread'),
  },
  cloneDir: {
    flag: '--clone-dir <folder>',
    summary: "folder for a copy of the cluster; without it, one beside the target's",
    group: 'Clone',
    type: TEXT,
  },
  cloneTtlMs: {
    flag: '--clone-ttl <duration>',
    summary: 'lifetime of a clone that runs as its own server',
    group: 'Clone',
    type: DURATION,
  },
  maxCopyBytes: {
    flag: '--max-copy <size>',
    summary: 'largest size that is copied in full, unless --clone names the method',
    group: 'Clone',
    type: SIZE,
  },
  schemaOnly: {
    flag: '--schema-only',
    summary: 'clone the tables without their rows (dump)',
    group: 'Clone',
    type: SWITCH,
  },
  excludeTableData: {
    flag: '--exclude-table-data <pattern>',
    summary: 'tables to clone without their rows (dump); repeatable',
    group: 'Clone',
    type: listOf(TEXT),
  },
  databases: {
    flag: '--database <name>',
    summary: 'another database of the server that the command uses; repeatable (cluster, basebackup)',
    group: 'Clone',
    type: listOf(TEXT),
    modes: ['rehearse'],
  },
  allowExternalAccess: {
    flag: '--allow-external-access',
    summary: 'let a clone without a sandbox have foreign servers, dblink, untrusted languages, subscriptions',
    group: 'Clone',
    type: SWITCH,
    notInFile: true,
  },
  cloneAt: {
    flag: '--clone-at <time>',
    summary: 'rehearse on the target as of this time (2026-11-22 10:00+00), or as of the archive: latest',
    group: 'Clone',
    type: MOMENT,
    modes: ['rehearse'],
  },
  baseBackup: {
    flag: '--base-backup <place>',
    summary:
      'with --clone-at: base backup, data directory in a snapshot, or dataset@snapshot of ZFS, to begin with',
    group: 'Clone',
    type: TEXT,
    modes: ['rehearse'],
    notInFile: true,
  },
  restoreCommand: {
    flag: '--restore-command <command>',
    summary:
      "with --clone-at: shell command that fetches %f from the archive to %p; without it: the target's",
    group: 'Clone',
    type: TEXT,
    modes: ['rehearse'],
    notInFile: true,
  },
  cloneCreate: {
    flag: '--clone-create <command>',
    summary: 'shell command that makes a clone elsewhere and prints its URL (external)',
    group: 'Clone',
    type: TEXT,
    notInFile: true,
  },
  cloneDestroy: {
    flag: '--clone-destroy <command>',
    summary: 'shell command that removes that clone; SAFEMIGRATE_CLONE_URL holds its URL',
    group: 'Clone',
    type: TEXT,
    notInFile: true,
  },
  afterClone: {
    flag: '--after-clone <sql>',
    summary: 'SQL, or a file of it, to run on the clone before the command, e.g. to mask data; repeatable',
    group: 'Clone',
    type: listOf(TEXT),
    notInFile: true,
  },
  disconnect: {
    flag: '--disconnect <whom>',
    summary: 'sessions to terminate: never, idle, all',
    group: 'Clone',
    type: choiceOf('never', 'idle', 'all'),
    notInFile: true,
  },
  waitMs: {
    flag: '--wait <seconds>',
    summary: 'how long to wait for sessions to leave the target',
    group: 'Clone',
    type: SECONDS,
  },
  maxStallMs: {
    flag: '--max-stall <duration>',
    summary:
      'longest wait for new connections to a target in use; given with --swap: longest time it is closed',
    group: 'Clone',
    type: DURATION,
  },
  keep: {
    flag: '--keep',
    summary: 'keep the clone, and print how to connect to it',
    group: 'Clone',
    type: SWITCH,
  },
} satisfies Partial<OptionsFor<RehearsalSettings>>;
