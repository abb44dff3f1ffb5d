import { CLONE_SETTINGS } from '../clone/clone-settings.ts';
import type { Interrupts } from '../command/run-command.ts';
import { DEFAULT_URL_VARIABLE } from '../database/target.ts';
import type { Emit } from '../events.ts';
import { POLICY_SETTINGS } from '../hazards/policy-settings.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { TOOL_FORMATS } from '../propose/formats/recorded-migration.ts';
import { flag, grouped, type OptionsOf, unflagged } from '../settings.ts';
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
} from '../value-types.ts';

// The types of the package follow from this file: it names nothing that a user does not get.

const DAY_MS = 24 * 3_600_000;

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

/**
 * Everything that a user can set for a rehearsal, by a flag, a variable or a config file as well as in a program. An apply and a
 * swap begin with a rehearsal, and take the same.
 */
export const REHEARSAL_SETTINGS = {
  target: grouped(
    { group: 'Target' },
    {
      url: flag('--url <url>', TEXT, {
        summary: 'the target, as postgresql://user@host:port/database',
        common: true,
      }),
      urlEnv: flag('--url-env <name>', TEXT, {
        summary: 'variable that holds its URL',
        default: DEFAULT_URL_VARIABLE,
      }),
      from: flag('--dump <file>', TEXT, {
        summary: 'no target: restore and rehearse on this dump',
        common: true,
        modes: ['rehearse'],
      }),
    },
  ),
  clone: CLONE_SETTINGS,
  profile: grouped(
    { group: 'Profile' },
    {
      file: flag('--profile <file>', TEXT, {
        summary: "judge by production's sizes and rates, as `safemigrate profile` wrote them down",
      }),
      maxAgeMs: flag('--limit profile-age=<duration>', AGE, {
        summary: 'oldest profile that is accepted',
        default: 30 * DAY_MS,
      }),
    },
  ),
  ...grouped(
    { group: 'Command' },
    {
      timeoutMs: flag('--timeout <duration>', TIME_LIMIT, {
        summary: 'end the command after this time',
        default: 0,
      }),
      proxy: {
        observe: unflagged('observe', choiceOf('exact', 'sampled', 'off'), {
          summary: 'how to observe statements: exact (locks of each), sampled (without delaying any), off',
          default: 'exact',
        }),
        allowClusterStatements: flag('--permit cluster', SWITCH, {
          summary: 'let statements pass that reach beyond the clone (roles, the server)',
          default: false,
          notInFile: true,
        }),
        listen: unflagged('proxyListen', TEXT, {
          summary: 'address that the command connects to, for one that runs in a container',
          default: '127.0.0.1',
        }),
      },
      sandbox: {
        mode: flag('--sandbox <how>', choiceOf('auto', 'required', 'off'), {
          summary:
            'auto: the command gets no network but the proxy, by the strictest way that works here; required: by a sandbox (Linux), or the run is refused; off: it is watched',
          default: 'auto',
          notInFile: ['off'],
        }),
        allow: flag('--permit <host:port>', listOf(TEXT), {
          summary:
            'host:port, postgres:host:port for clients of PostgreSQL, or path of a Unix socket that a sandboxed command may reach; none; repeatable',
          default: [],
          // Another database, and daemons, which may run anything.
          notInFile: ['postgres:*', '/*'],
        }),
      },
    },
  ),
  checks: grouped(
    { group: 'Checks' },
    {
      queries: flag('--queries <source>', TEXT, {
        summary:
          'application queries to check before and after: auto (pg_stat_statements if readable), pg_stat_statements, a file, off',
        default: 'auto',
      }),
      check: flag('--check <query>', listOf(TEXT), {
        summary: 'query, or file with one, that must return the same rows before and after; repeatable',
        default: [],
      }),
      checkEmpty: flag('--check-empty <query>', listOf(TEXT), {
        summary: 'query, or file with one, that must return no rows after the command; repeatable',
        default: [],
      }),
      rerun: flag('--rerun', SWITCH, {
        summary: 'run the command a second time on the clone: it must change nothing',
        default: false,
      }),
      rerunIgnore: unflagged('rerunIgnore', listOf(TEXT), {
        summary: 'table whose rows the second run may change, like an audit table; repeatable',
        default: [],
      }),
      atOnce: flag('--at-once <count>', COUNT, {
        summary:
          'start that many copies of the command at once on a second clone, as replicas do at boot; the result must equal that of one run',
        default: 0,
        modes: ['rehearse'],
      }),
      down: flag('--down <command>', TEXT, {
        summary: 'down migration (shell command), run on the clone last: it must restore schema and data',
        notInFile: true,
      }),
      app: flag('--app <command>', listOf(TEXT), {
        summary:
          "checks of the release that runs now (shell command, such as 'npm test'): they must work on the migrated clone, too; repeatable",
        default: [],
        notInFile: true,
      }),
      appNew: unflagged('appNew', listOf(TEXT), {
        summary:
          'checks of the new release (shell command): they must work on a clone that is not migrated, too',
        default: [],
        notInFile: true,
      }),
      appDir: unflagged('appDir', TEXT, {
        summary: 'folder of a checkout of the release that runs now, in which --app runs',
      }),
      appTimeoutMs: unflagged('appTimeout', TIME_LIMIT, {
        summary: 'end a run of the checks of a release after this time',
        default: 15 * 60_000,
      }),
    },
  ),
  ...grouped(
    { group: 'Checks', modes: ['rehearse'], notInFile: true },
    {
      propose: flag('--propose <file>', TEXT, {
        summary: 'write a safer form as SQL, if a second clone proves it',
        common: true,
      }),
      proposeFormat: unflagged('proposeFormat', choiceOf('plain', ...TOOL_FORMATS), {
        summary: `how --propose writes it: plain, or into a folder, as a migration of ${TOOL_FORMATS.join(', ')}`,
        notInFile: false,
        default: 'plain',
      }),
      proposeAll: flag('--propose-all', SWITCH, {
        summary: 'propose it for changes of type, too: the column becomes the last one of its table',
        default: false,
      }),
      script: flag('--script <file>', TEXT, {
        summary: 'write what the command sent as one script for psql, with its values',
      }),
    },
  ),
  load: grouped(
    { group: 'Load', modes: ['rehearse', 'apply'] },
    {
      what: flag('--load [what]', listOf(LOAD), {
        summary: 'run it once more under load: shapes, FILE.sql[@weight]',
        default: [],
        common: true,
      }),
      command: flag('--load-command <command>', TEXT, {
        summary: 'shell command that generates the load; it gets the connection of the clone',
        notInFile: true,
      }),
      rate: unflagged('loadRate', FACTOR, {
        summary: "times of the target's transactions a second; for scripts: transactions a second",
      }),
      clients: unflagged('loadClients', COUNT, {
        summary: "sessions of the load; without it, as many as the target's, 4 to 64",
      }),
      windowMs: unflagged('loadWindow', DURATION, {
        summary: "how long the target's transactions are watched",
        default: 10_000,
      }),
      warmupMs: unflagged('loadWarmup', DURATION, {
        summary: 'how long the load runs before the command',
        default: 3000,
      }),
      here: flag('--permit load-here', SWITCH, {
        summary: "permit load on a clone in the target's own server, which slows the target down",
        default: false,
        notInFile: true,
      }),
    },
  ),
  policy: POLICY_SETTINGS,
  ...grouped(
    { group: 'Report' },
    {
      redact: flag('--redact', SWITCH, {
        summary: 'no literals, row values or host names in any report',
        default: false,
        negation: 'leave them in every report; without either option .md, .html, .sarif and CI are redacted',
      }),
    },
  ),
  receipt: grouped(
    { group: 'Apply' },
    {
      file: flag('--receipt <file>', TEXT, {
        summary: 'what a rehearsal proved: a rehearsal writes it, `apply` takes it instead of one',
        modes: ['rehearse', 'apply'],
      }),
      key: flag('--receipt-key <key>', TEXT, {
        summary: 'sign the receipt, or verify its signature, and that of a profile',
        notInFile: true,
        refusesEmpty: true,
      }),
    },
  ),
};

/** Options of the library: all settings, and what only a program can give. */
export interface RehearseOptions extends OptionsOf<typeof REHEARSAL_SETTINGS> {
  /** The migration command, program first. */
  readonly command: readonly string[];
  /** Where the command runs and where `./.env` is looked for. Default: the current folder. */
  readonly folder?: string;
  /** Default: this process's. */
  readonly env?: NodeJS.ProcessEnv;
  /** Where the command's standard output goes. Default `inherit`. */
  readonly commandStdout?: 'inherit' | 'stderr';
  readonly emit?: Emit;
  /** Gets each statement that safemigrate itself sends. */
  readonly audit?: Audit;
  /** Ends the run; what it made is released before rehearse() settles. */
  readonly signal?: AbortSignal;
  /** Signals that a person sent, for the command to get. */
  readonly interrupts?: Interrupts;
}
