import { METHOD_IDS } from '../clone/method-id.ts';
import { SafemigrateError } from '../errors.ts';
import { formatEndings, formatOfFile } from '../report/formats.ts';
import { DURING_OPTIONS } from './guardrail-options-table.ts';
import { POLICY_OPTIONS } from './policy-options.ts';
import {
  flag,
  listOption,
  type OptionSpec,
  oneOfValues,
  option,
  parseAge,
  parseDuration,
  parseSeconds,
  parseSize,
  textValue,
} from './values.ts';

function parseReportFile(value: string): string {
  if (formatOfFile(value) === undefined)
    throw new Error(`is "${value}", and must end in ${formatEndings().join(' or ')}.`);
  return value;
}

export const TARGET_OPTIONS = {
  url: option('--url <url>', 'the target: postgresql://user:password@host:port/database', textValue),
  urlEnv: option('--url-env <name>', 'the variable that holds the target', textValue, {
    default: 'DATABASE_URL',
  }),
};

export const RUN_OPTIONS = {
  ...TARGET_OPTIONS,
  from: option(
    '--from <dump>',
    'no target: restore this dump (SQL, custom, tar or directory) on a PostgreSQL of its own, and rehearse there',
    textValue,
  ),
  clone: option(
    '--clone <method>',
    `how to make the clone: auto, ${METHOD_IDS.join(', ')}`,
    oneOfValues('auto', ...METHOD_IDS),
    { default: 'auto' },
  ),
  rehearsalUrl: option(
    '--rehearsal-url <url>',
    'another server for the clone: its copy of the target is cloned, or the target is dumped into it',
    textValue,
  ),
  source: option('--source <url>', 'a standby of the target to copy the cluster from', textValue),
  checkpoint: option(
    '--checkpoint <how>',
    'the checkpoint before a copy of the cluster: fast, spread',
    oneOfValues('fast', 'spread'),
    { default: 'fast' },
  ),
  cloneDir: option(
    '--clone-dir <folder>',
    "where a copy of the cluster is put; default: beside the target's",
    textValue,
  ),
  cloneTtl: option(
    '--clone-ttl <duration>',
    'after this time a clone that is a server of its own ends by itself',
    parseDuration,
    { default: '6h' },
  ),
  maxCopy: option(
    '--max-copy <size>',
    'above this size nothing is copied in full, unless --clone says so',
    parseSize,
    { default: '10GB' },
  ),
  schemaOnly: option('--schema-only', 'clone the tables without their rows (dump)', flag),
  excludeTableData: listOption(
    '--exclude-table-data <pattern>',
    'tables to clone without their rows (dump); repeatable',
    textValue,
  ),
  allowExternalAccess: option(
    '--allow-external-access',
    'clone although foreign servers or untrusted languages in it could reach other systems',
    flag,
  ),
  cloneCreate: option(
    '--clone-create <command>',
    'a shell command that makes a clone elsewhere and prints its URL (external)',
    textValue,
  ),
  cloneDestroy: option(
    '--clone-destroy <command>',
    'a shell command that removes that clone; SAFEMIGRATE_CLONE_URL holds its URL',
    textValue,
  ),
  afterClone: listOption(
    '--after-clone <sql>',
    'SQL, or a file of it, to run on the clone before the command, as to mask personal data; repeatable',
    textValue,
  ),
  disconnect: option(
    '--disconnect <whom>',
    'sessions on the target that may be ended for the clone: never, idle, all',
    oneOfValues('never', 'idle', 'all'),
    { default: 'never' },
  ),
  wait: option('--wait <seconds>', 'how long to wait for sessions on the target to go', parseSeconds, {
    default: '10',
  }),
  maxStall: option(
    '--max-stall <duration>',
    'how long new connections to a target in use may have to wait',
    parseDuration,
    { default: '5s' },
  ),
  timeout: option('--timeout <duration>', 'end the command after this time', parseDuration),
  keep: option('--keep', 'keep the clone afterwards, and say how to connect to it', flag),
  queries: option(
    '--queries <source>',
    'queries of the running application to try before and after: pg_stat_statements, a file, off',
    textValue,
    { default: 'pg_stat_statements' },
  ),
  check: listOption(
    '--check <query>',
    'a query, or a file that holds one, that must return the same before and after; repeatable',
    textValue,
  ),
  checkEmpty: listOption(
    '--check-empty <query>',
    'a query, or a file that holds one, that must return no row after the command; repeatable',
    textValue,
  ),
  rerun: option('--rerun', 'run the command once more on the clone: it must change nothing', flag),
  down: option(
    '--down <command>',
    'a shell command that leads back, run on the clone at the end: all must be as it was',
    textValue,
  ),
  format: option(
    '--format <format>',
    'print the report on standard output: text, json, markdown',
    oneOfValues('text', 'json', 'markdown'),
  ),
  report: listOption(
    '--report <file>',
    'write the report, by its ending (.json, .txt, .html, .md, .xml for JUnit, .sarif, .prom for OpenMetrics); repeatable',
    parseReportFile,
  ),
  observe: option(
    '--observe <how>',
    'how to look at statements: exact (locks of each), sampled (let all pass as it comes), off',
    oneOfValues('exact', 'sampled', 'off'),
    { default: 'exact' },
  ),
  ...POLICY_OPTIONS,
  redact: option(
    '--redact',
    'leave literals, values of rows and host names out of every report; --no-redact: out of none (default: out of .md and .html, and in CI)',
    flag,
    { negation: 'leave nothing out of any report' },
  ),
  allowClusterStatements: option(
    '--allow-cluster-statements',
    'let statements through that reach beyond the clone (roles, the server)',
    flag,
  ),
  proxyListen: option(
    '--proxy-listen <address>',
    'where the command connects to, for one that runs in a container',
    textValue,
    { default: '127.0.0.1' },
  ),
  swap: option(
    '--swap',
    'migrate a clone and make it the target by an atomic rename; the original is kept',
    flag,
  ),
  apply: option('--apply', 'run the command on the target itself, once the rehearsal has passed', flag),
  force: option(
    '--force <reason>',
    'apply although the rehearsal did not pass; the reason is reported',
    textValue,
  ),
  receipt: option(
    '--receipt <file>',
    'write what the rehearsal proved; with --apply: take it in the place of a rehearsal',
    textValue,
  ),
  receiptKey: option('--receipt-key <key>', 'sign the receipt, or prove its signature', textValue),
  maxAge: option('--max-age <duration>', 'how old a receipt may be', parseDuration, { default: '24h' }),
  ...DURING_OPTIONS,
  yes: option('--yes', 'go on without asking, once the rehearsal has passed', flag),
  pgbouncer: listOption(
    '--pgbouncer <url>',
    'console of a PgBouncer whose clients are to wait during a swap; repeatable',
    textValue,
  ),
  verify: option(
    '--verify <sql or command>',
    'must agree to the migrated clone before it becomes the target: SQL whose rows begin with true, or a command',
    textValue,
  ),
  keepOriginal: option(
    '--keep-original <duration>',
    'swap: how long the original is meant to be kept; after that `clean --originals` drops it',
    parseAge,
  ),
  allowStandbys: option(
    '--allow-standbys',
    'swap although standbys stream: their sessions are taken care of',
    flag,
  ),
  plan: option('--plan', 'print every statement that would touch the target, and stop', flag),
  audit: option(
    '--audit <file>',
    'record every statement that safemigrate itself sends to the server',
    textValue,
  ),
};

export const CLEAN_OPTIONS = {
  ...TARGET_OPTIONS,
  kept: option('--kept', 'also drop clones that were kept with --keep', flag),
  originals: option(
    '--originals',
    'also drop originals that swaps have left, for good: those whose --keep-original is over',
    flag,
  ),
  olderThan: option(
    '--older-than <duration>',
    'with --originals: those of swaps before that instead, however long they were to be kept',
    parseAge,
  ),
  pgbouncer: listOption(
    '--pgbouncer <url>',
    'console of a PgBouncer whose clients a swap that was cut off may have left waiting: they go on; repeatable',
    textValue,
  ),
};

export const LIST_OPTIONS = {
  ...TARGET_OPTIONS,
  format: option('--format <format>', 'text or json', oneOfValues('text', 'json'), { default: 'text' }),
};

export const ROLLBACK_OPTIONS = {
  ...TARGET_OPTIONS,
  discardWrites: option(
    '--discard-writes',
    'give up what was written since the swap: it stays in the database that is kept',
    flag,
  ),
  yes: RUN_OPTIONS.yes,
  pgbouncer: RUN_OPTIONS.pgbouncer,
  maxStall: RUN_OPTIONS.maxStall,
  allowStandbys: RUN_OPTIONS.allowStandbys,
  audit: RUN_OPTIONS.audit,
};

export const COMMENT_OPTIONS = {
  name: option('--name <name>', 'tells the comments of several reports on one pull request apart', textValue),
};

export const SHOW_OPTIONS = {
  format: RUN_OPTIONS.format,
  report: RUN_OPTIONS.report,
  redact: RUN_OPTIONS.redact,
  compare: option('--compare <run>', 'say how the run differs from this earlier one', textValue),
};

export const DEMO_OPTIONS = { report: RUN_OPTIONS.report, redact: RUN_OPTIONS.redact };

/** What decides how a clone is made, for looking at it without making one. */
export const DOCTOR_OPTIONS = {
  ...TARGET_OPTIONS,
  clone: RUN_OPTIONS.clone,
  rehearsalUrl: RUN_OPTIONS.rehearsalUrl,
  source: RUN_OPTIONS.source,
  cloneDir: RUN_OPTIONS.cloneDir,
  maxCopy: RUN_OPTIONS.maxCopy,
  schemaOnly: RUN_OPTIONS.schemaOnly,
  allowExternalAccess: RUN_OPTIONS.allowExternalAccess,
  cloneCreate: RUN_OPTIONS.cloneCreate,
  cloneDestroy: RUN_OPTIONS.cloneDestroy,
  audit: RUN_OPTIONS.audit,
  format: LIST_OPTIONS.format,
};

export type OptionTable = Readonly<Record<string, OptionSpec<unknown>>>;
export type Values<T extends OptionTable> = { [K in keyof T]?: ReturnType<T[K]['parse']> };

/** One source of values: what the user wrote, and how to name it in a mistake. */
export interface Source {
  /** Whether it must hold nothing but known keys. */
  readonly strict: boolean;
  readonly values: Readonly<Record<string, unknown>>;
  readonly nameOf: (key: string) => string;
}

export const variableOf = (key: string): string =>
  `SAFEMIGRATE_${key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;

export const flagOf = (key: string): string =>
  `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/**
 * Reads the sources in order of precedence, the first that names a key wins.
 * @throws SafemigrateError `CONFIGURATION` with every mistake of all sources at once.
 */
export function readOptions<T extends OptionTable>(
  table: T,
  known: OptionTable,
  sources: Source[],
): Values<T> {
  const mistakes: string[] = [];
  const values: Record<string, unknown> = {};
  for (const source of sources) {
    for (const [key, value] of Object.entries(source.values)) {
      if (value === undefined) continue;
      const spec = Object.hasOwn(table, key) ? table[key] : undefined;
      if (spec === undefined) {
        if (source.strict && !Object.hasOwn(known, key))
          mistakes.push(`${source.nameOf(key)} is no option of safemigrate.`);
        continue;
      }
      try {
        const parsed = parseValue(spec, value);
        values[key] ??= parsed;
      } catch (error) {
        mistakes.push(`${source.nameOf(key)} ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  }
  if (mistakes.length > 0) {
    throw new SafemigrateError('CONFIGURATION', listed(mistakes), {
      hint: 'Nothing was touched. All options: safemigrate --help',
    });
  }
  return values as Values<T>;
}

function listed(mistakes: readonly string[]): string {
  const [only = ''] = mistakes;
  return mistakes.length === 1
    ? only
    : `${mistakes.length} options are wrong:\n${mistakes.map((mistake) => `  ${mistake}`).join('\n')}`;
}

function parseValue(spec: OptionSpec<unknown>, value: unknown): unknown {
  const items = Array.isArray(value) ? value : [value];
  if (items.length > 1 && !spec.repeatable) throw new Error('can be given only once.');
  const parsed = items.map((item) => {
    if (['string', 'number', 'boolean'].includes(typeof item)) return spec.parse(String(item));
    const isObject = typeof item === 'object' && item !== null && !Array.isArray(item);
    if (isObject && spec.parseObject) return spec.parseObject({ ...item });
    throw new Error(`is ${JSON.stringify(item)}, and must be a plain value.`);
  });
  return spec.repeatable ? parsed.flat() : parsed[0];
}
