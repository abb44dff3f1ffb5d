import { PROPOSAL_FORMATS } from '../../propose/formats/proposal-format.ts';
import { REHEARSAL_DEFAULTS, type RehearsalSettings } from '../../rehearsal/run-options.ts';
import { CLONING_OPTIONS } from './cloning-options.ts';
import { declareOptions } from './option-spec.ts';
import {
  AGE,
  COUNT,
  choiceOf,
  DURATION,
  FACTOR,
  listOf,
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
  ...CLONING_OPTIONS,
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
      'auto: the command gets no network but the proxy, by the strictest way that works here; required: by a sandbox (Linux), or the run is refused; off: it is watched',
    group: 'Command',
    type: choiceOf('auto', 'required', 'off'),
    notInFile: ['off'],
  },
  sandboxAllow: {
    flag: '--sandbox-allow <place>',
    summary:
      'host:port, postgres:host:port for clients of PostgreSQL, or path of a Unix socket that a sandboxed command may reach; none; repeatable',
    group: 'Command',
    type: listOf(TEXT),
    // Another database, and daemons, which may run anything.
    notInFile: ['postgres:*', '/*'],
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
  proposeAll: {
    flag: '--propose-all',
    summary: 'propose it for changes of type, too: the column becomes the last one of its table',
    group: 'Checks',
    type: SWITCH,
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
