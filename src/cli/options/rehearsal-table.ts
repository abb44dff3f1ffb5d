import { METHOD_IDS } from '../../clone/method-id.ts';
import { PROPOSAL_FORMATS } from '../../propose/formats/proposal-format.ts';
import { REHEARSAL_DEFAULTS, type RehearsalSettings } from '../../rehearsal/run-options.ts';
import { declareOptions } from './option-spec.ts';
import {
  AGE,
  COUNT,
  choiceOf,
  DURATION,
  FACTOR,
  listOf,
  MOMENT,
  SECONDS,
  SIZE,
  SWITCH,
  TEXT,
  TIME_LIMIT,
  type ValueType,
} from './value-types.ts';

/** `shapes`, which is meant if nothing is said, or a script of pgbench's. */
const LOAD: ValueType<string> = {
  parse: (text) => {
    const what = text === 'true' ? 'shapes' : text;
    if (what !== 'shapes' && !/\.sql(@\d+)?$/.test(what))
      throw new Error(
        `is "${text}", and can be shapes or a script FILE.sql, with @weight if there are several.`,
      );
    return what;
  },
  format: (what) => what,
};

/** How a rehearsal is made. */
export const REHEARSAL_TABLE = declareOptions<RehearsalSettings>(REHEARSAL_DEFAULTS, {
  url: {
    flag: '--url <url>',
    summary: 'the target, as postgresql://user@host:port/database',
    group: 'Target',
    type: TEXT,
    common: true,
  },
  urlEnv: {
    flag: '--url-env <name>',
    summary: 'variable that holds its URL',
    group: 'Target',
    type: TEXT,
  },
  from: {
    flag: '--from <dump>',
    summary: 'no target: restore and rehearse on this dump',
    group: 'Target',
    type: TEXT,
    common: true,
  },
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
  profile: {
    flag: '--profile <file>',
    summary: "judge by production's sizes and rates, as `safemigrate profile` wrote them down",
    group: 'Profile',
    type: TEXT,
  },
  profileMaxAgeMs: {
    flag: '--profile-max-age <duration>',
    summary: 'oldest profile that is accepted',
    group: 'Profile',
    type: AGE,
  },
  timeoutMs: {
    flag: '--timeout <duration>',
    summary: 'end the command after this time',
    group: 'Command',
    type: TIME_LIMIT,
  },
  observe: {
    flag: '--observe <how>',
    summary: 'how to observe statements: exact (locks of each), sampled (without delaying any), off',
    group: 'Command',
    type: choiceOf('exact', 'sampled', 'off'),
  },
  allowClusterStatements: {
    flag: '--allow-cluster-statements',
    summary: 'let statements pass that reach beyond the clone (roles, the server)',
    group: 'Command',
    type: SWITCH,
    notInFile: true,
  },
  proxyListen: {
    flag: '--proxy-listen <address>',
    summary: 'address that the command connects to, for one that runs in a container',
    group: 'Command',
    type: TEXT,
  },
  sandbox: {
    flag: '--sandbox <how>',
    summary:
      'required: the command gets no network but the proxy (Linux), or the run is refused; auto: what costs nothing; off',
    group: 'Command',
    type: choiceOf('auto', 'required', 'off'),
    notInFile: ['off'],
  },
  sandboxAllow: {
    flag: '--sandbox-allow <place>',
    summary: 'host:port, or path of a Unix socket, that a sandboxed command may reach; repeatable',
    group: 'Command',
    type: listOf(TEXT),
    notInFile: true,
  },
  queries: {
    flag: '--queries <source>',
    summary:
      'application queries to check before and after: auto (pg_stat_statements if readable), pg_stat_statements, a file, off',
    group: 'Checks',
    type: TEXT,
  },
  check: {
    flag: '--check <query>',
    summary: 'query, or file with one, that must return the same rows before and after; repeatable',
    group: 'Checks',
    type: listOf(TEXT),
  },
  checkEmpty: {
    flag: '--check-empty <query>',
    summary: 'query, or file with one, that must return no rows after the command; repeatable',
    group: 'Checks',
    type: listOf(TEXT),
  },
  rerun: {
    flag: '--rerun',
    summary: 'run the command a second time on the clone: it must change nothing',
    group: 'Checks',
    type: SWITCH,
  },
  rerunIgnore: {
    flag: '--rerun-ignore <table>',
    summary: 'table whose rows the second run may change, like an audit table; repeatable',
    group: 'Checks',
    type: listOf(TEXT),
  },
  atOnce: {
    flag: '--at-once <count>',
    summary:
      'start the command so many times together on a second clone, as replicas do at boot: they must leave what one leaves',
    group: 'Checks',
    type: COUNT,
    modes: ['rehearse'],
  },
  propose: {
    flag: '--propose <file>',
    summary: 'write a safer form as SQL, if a second clone proves it',
    group: 'Checks',
    type: TEXT,
    common: true,
    modes: ['rehearse'],
    notInFile: true,
  },
  proposeFormat: {
    flag: '--propose-format <format>',
    summary: `how it is written: plain, or in the folder that --propose names, as a migration of ${PROPOSAL_FORMATS.slice(1).join(', ')}`,
    group: 'Checks',
    type: choiceOf(...PROPOSAL_FORMATS),
    modes: ['rehearse'],
    notInFile: true,
  },
  script: {
    flag: '--script <file>',
    summary: 'write what the command sent as one script for psql, with its values',
    group: 'Checks',
    type: TEXT,
    modes: ['rehearse'],
    notInFile: true,
  },
  down: {
    flag: '--down <command>',
    summary: 'down migration (shell command), run on the clone last: it must restore schema and data',
    group: 'Checks',
    type: TEXT,
    notInFile: true,
  },
  load: {
    flag: '--load [what]',
    summary: 'run it once more under load: shapes, FILE.sql[@weight]',
    group: 'Load',
    type: listOf(LOAD),
    common: true,
    modes: ['rehearse', 'apply'],
  },
  loadCommand: {
    flag: '--load-command <command>',
    summary: 'the same with a shell command that makes the load, connected to the clone as the command is',
    group: 'Load',
    type: TEXT,
    modes: ['rehearse', 'apply'],
    notInFile: true,
  },
  loadRate: {
    flag: '--load-rate <factor>',
    summary: "times of the target's transactions a second; for scripts: transactions a second",
    group: 'Load',
    type: FACTOR,
    modes: ['rehearse', 'apply'],
  },
  loadClients: {
    flag: '--load-clients <count>',
    summary: "sessions of the load; without it, as many as the target's, 4 to 64",
    group: 'Load',
    type: COUNT,
    modes: ['rehearse', 'apply'],
  },
  loadWindowMs: {
    flag: '--load-window <duration>',
    summary: "how long the target's transactions are watched",
    group: 'Load',
    type: DURATION,
    modes: ['rehearse', 'apply'],
  },
  loadWarmupMs: {
    flag: '--load-warmup <duration>',
    summary: 'how long the load runs before the command',
    group: 'Load',
    type: DURATION,
    modes: ['rehearse', 'apply'],
  },
  loadHere: {
    flag: '--load-here',
    summary: "permit load on a clone in the target's own server, which slows the target down",
    group: 'Load',
    type: SWITCH,
    modes: ['rehearse', 'apply'],
    notInFile: true,
  },
  redact: {
    flag: '--redact',
    summary: 'no literals, row values or host names in any report',
    group: 'Report',
    type: SWITCH,
    negation: 'leave them in every report; without either option .md, .html, .sarif and CI are redacted',
  },
  receipt: {
    flag: '--receipt <file>',
    summary: 'write what the rehearsal proved; with --apply: use it instead of a rehearsal',
    group: 'Apply',
    type: TEXT,
    modes: ['rehearse', 'apply'],
  },
  receiptKey: {
    flag: '--receipt-key <key>',
    summary: 'sign the receipt, or verify its signature, and that of a profile',
    group: 'Apply',
    type: TEXT,
    notInFile: true,
    refusesEmpty: true,
  },
});
