import type {
  ApplySection,
  DuringSection,
  FurtherRunSection,
  LoadSection,
  QueriesSection,
  Report,
  SchemaSection,
  StatementSection,
} from '../model/report.ts';
import { loadParser } from '../postgres/sql/load-parser.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import {
  bothWithoutStrings,
  messageWithoutValues,
  redacted,
  withoutLiterals,
  withoutStrings,
} from './redact.ts';

const HIDDEN = '…';
const PLACEHOLDER = '?';
/** Shorter ones are found in every other word. */
const SHORTEST_TEXT = 4;
const SHORTEST_NUMBER = 5;
const NAME = /^[\p{L}_][\p{L}\d_$]*$/u;

/**
 * The report for outside the house: no literal of any statement, no value of a row, no name of a host. Statements are
 * redacted by PostgreSQL's own scanner; from all other texts, whichever quotes them (reasons, evidence, advice, changes of
 * the schema), what the statements hold as literals is taken out by its words.
 */
export async function redactReport(report: Report): Promise<Report> {
  // The statements of a proposal hold no literals but those of the command, and names of ours.
  const further = [report.rerun, report.down, report.load, report.load?.guarded].flatMap(
    (run) => run?.statements ?? [],
  );
  const originals = [...report.statements, ...further, ...(report.apply?.statements ?? [])];
  const {
    statements,
    rerun,
    down,
    checks,
    apply,
    schema,
    queries,
    targetConnections,
    load,
    proposal,
    ...rest
  } = report;
  const hidden = await wordsToHide(report, originals);
  const hideIn = <T>(value: T): T => walk(value, hidden) as T;
  const argv = wordsOf(report.command.argv, hideIn);
  const walked = hideIn(rest);
  const shown = async (list: readonly StatementSection[]) =>
    (await redacted(list)).map((each) => ({ ...each, error: hideIn(each.error) }));
  const ofFurther = async (run: FurtherRunSection | null, command: string) =>
    run && { ...hideIn({ ...run, statements: [] }), command, statements: await shown(run.statements) };
  return {
    ...walked,
    // What identifies a run or a database is no secret, and must not be hit by chance.
    run: { ...report.run, redacted: true },
    target: { ...walked.target, database: report.target.database },
    schema: schema && (await redactedSchema(schema, hideIn)),
    command: { ...walked.command, argv, undecided: walked.command.undecided.map(withoutQuotation) },
    statements: await shown(statements),
    queries: queries && (await redactedQueries(queries, hideIn)),
    targetConnections: hideIn(targetConnections).map((each) => ({
      ...each,
      query: each.query && normalizeSql(each.query),
    })),
    checks: await Promise.all(
      checks.map(async (check) => ({
        ...hideIn(check),
        name: hideIn(/\s/.test(check.name) ? await withoutLiterals(check.name) : check.name),
        missing: [],
        added: [],
      })),
    ),
    rerun: await ofFurther(rerun, argv.join(' ')),
    down: await ofFurther(down, /\s/.test(down?.command ?? '') ? HIDDEN : (down?.command ?? '')),
    apply: apply && (await redactedApply(apply, shown, hideIn)),
    load: load && (await redactedLoad(load, shown, hideIn)),
    ...(proposal && {
      proposal: {
        ...hideIn({ ...proposal, statements: [] }),
        statements: await shown(proposal.statements),
      },
    }),
  };
}

async function redactedLoad(load: LoadSection, shownOf: ShownOf, hideIn: HideIn): Promise<LoadSection> {
  const { guarded, statements, ...rest } = load;
  const during = guarded && hideIn(guarded.guardrails);
  return {
    ...hideIn(rest),
    statements: await shownOf(statements),
    guarded: guarded && {
      ...hideIn({ ...guarded, statements: [] }),
      statements: await shownOf(guarded.statements),
      guardrails: during && redactedDuring(during),
    },
  };
}

type HideIn = <T>(value: T) => T;
type ShownOf = (list: readonly StatementSection[]) => Promise<StatementSection[]>;

/** Leaves out what a server said, or which one could not be reached: it stands behind our own words. */
function withoutQuotation<T extends { reason: string }>(undecided: T): T {
  return { ...undecided, reason: undecided.reason.replace(/: [\s\S]*$/, '') };
}

/** Names of hosts in options, and words that may be SQL as a whole. */
function wordsOf(argv: readonly string[], hideIn: HideIn): string[] {
  return argv.map((word, index) =>
    /\s/.test(word) || HOST_OPTION.test(argv[index - 1] ?? '')
      ? HIDDEN
      : hideIn(word.replace(HOST_PAIR, `$1${HIDDEN}`).replace(HOST_IN_URL, `$1${HIDDEN}`)),
  );
}

const HOST_OPTION = /^(?:-h|--?[\w-]*host(?:name|addr)?)$/i;
const HOST_PAIR = /([\w.-]*host(?:name|addr)?=)[^\s&;]+/gi;
/** Up to the port. */
const HOST_IN_URL = /(:\/\/(?:[^\s/@]*@)?)(?:\[[^\]]*\]|[^\s/:?]+)/g;

async function redactedSchema(schema: SchemaSection, hideIn: HideIn): Promise<SchemaSection> {
  const { before, after, rollbackSql } = schema;
  const changes = schema.changes.map(async (change) => ({
    ...change,
    sql: await withoutStrings(change.sql),
  }));
  const objects = schema.objects?.map(async (object) => ({
    ...object,
    ...(await bothWithoutStrings(object.before, object.after)),
  }));
  return {
    ...hideIn({
      ...schema,
      changes: await Promise.all(changes),
      ...(objects ? { objects: await Promise.all(objects) } : {}),
      rollbackSql: rollbackSql && (await withoutStrings(rollbackSql)),
    }),
    before,
    after,
  };
}

/** Hides the contents of a file of queries, which are its owner's alone. */
async function redactedQueries(queries: QueriesSection, hideIn: HideIn): Promise<QueriesSection> {
  const shown = <T extends { sql: string }>(list: readonly T[]) =>
    Promise.all(list.map(async (each) => ({ ...hideIn(each), sql: await withoutLiterals(each.sql) })));
  return { ...hideIn(queries), broken: await shown(queries.broken), slower: await shown(queries.slower) };
}

/** Its lists quote its own statements, by their numbers. */
async function redactedApply(apply: ApplySection, shownOf: ShownOf, hideIn: HideIn): Promise<ApplySection> {
  const statements = await shownOf(apply.statements);
  const shown = new Map(statements.map(({ index, sql }) => [index, sql]));
  const wayBack = apply.wayBack && (await withoutStrings(apply.wayBack));
  const hidden = hideIn({ ...apply, wayBack, statements: [] });
  const { rehearsal, receipt, fingerprints } = apply;
  const during = hidden.during && redactedDuring(hidden.during);
  return {
    ...hidden,
    rehearsal,
    receipt,
    fingerprints,
    statements,
    during,
    committed: hidden.committed.map((each) => ({ ...each, sql: shown.get(each.statement) ?? each.sql })),
    rolledBack: hidden.rolledBack.map((each) => ({ ...each, sql: shown.get(each.statement) ?? each.sql })),
    comparedTimes: hidden.comparedTimes.map((each) => ({
      ...each,
      sql: shown.get(each.applied) ?? each.sql,
    })),
  };
}

/** Hides what others ran, and what was not let through: it is not among the statements whose literals are known. */
function redactedDuring(during: DuringSection): DuringSection {
  const shaped = <T extends { sql: string }>(list: readonly T[]) =>
    list.map((each) => ({ ...each, sql: normalizeSql(each.sql) }));
  return {
    ...during,
    retries: shaped(during.retries),
    cancelled: shaped(during.cancelled),
    diverged: shaped(during.diverged),
    blockers: during.blockers.map((each) => ({
      ...each,
      query: each.query && normalizeSql(each.query),
      blocked: normalizeSql(each.blocked),
    })),
  };
}

interface Hidden {
  /** Words that must not be shown, and what stands in their place. The longest first: a shorter one may be a part of it. */
  readonly words: readonly (readonly [word: string, instead: string])[];
  /** A host may be called `db`, as other things are: only as a word of its own. */
  readonly host: RegExp | null;
}

async function wordsToHide(
  { queries, checks, app = [], target: { host } }: Report,
  statements: readonly StatementSection[],
): Promise<Hidden> {
  const tried = [...(queries?.broken ?? []), ...(queries?.slower ?? [])].map(({ sql }) => sql);
  const asked = checks.map(({ name }) => name).filter((name) => /\s/.test(name));
  const words = new Map<string, string>();
  for (const sql of new Set([...statements.map((statement) => statement.sql), ...tried, ...asked]))
    for (const word of await wordsIn(sql)) words.set(word, PLACEHOLDER);
  for (const row of checks.flatMap(({ missing, added }) => [...missing, ...added])) words.set(row, HIDDEN);
  for (const { command } of app) if (/['"`=@]|:\/\/|\s-h\s/.test(command)) words.set(command, HIDDEN);
  for (const { error } of [...checks, ...(queries?.broken ?? [])])
    if (error && messageWithoutValues(error) !== error.message)
      words.set(error.message, messageWithoutValues(error));
  const shown = await redacted([...statements]);
  statements.forEach(({ error, warnings = [] }, index) => {
    for (const [at, warning] of warnings.entries()) {
      const instead = shown[index]?.warnings?.[at]?.message;
      if (instead !== undefined && instead !== warning.message) words.set(warning.message, instead);
    }
    const message = shown[index]?.error?.message;
    if (error && message !== undefined && message !== error.message) words.set(error.message, message);
    for (const text of [error?.detail, error?.where, error?.internalQuery]) if (text) words.set(text, HIDDEN);
  });
  return {
    words: [...words].filter(([word]) => word !== '').sort(([one], [other]) => other.length - one.length),
    host: host === '' ? null : new RegExp(`(?<![\\w.-])${escaped(host)}(?![\\w-])`, 'g'),
  };
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}

/** Literals, those within literals (bodies of functions, dynamic SQL) too, and comments. */
async function wordsIn(sql: string): Promise<string[]> {
  const { tokens } = await loadParser()
    .scan(sql)
    .catch(() => ({ tokens: [] }));
  const words: string[] = [];
  for (const { text } of tokens) {
    const content = contentOf(text);
    if (content === undefined) {
      if (/^\d/.test(text) && text.length >= SHORTEST_NUMBER) words.push(text);
      continue;
    }
    words.push(text);
    // A word that could be a name is left where it stands alone, or names of tables would be torn apart.
    if (content.length >= SHORTEST_TEXT && !NAME.test(content)) words.push(content);
    if (/['$]/.test(content)) words.push(...(await wordsIn(content)));
  }
  return words;
}

/** Returns the content of a literal or a comment; undefined for any other token. */
function contentOf(token: string): string | undefined {
  const quoted = /^(?:[BXEN]|U&)?'([\s\S]*)'$/i.exec(token)?.[1];
  if (quoted !== undefined) return quoted.replaceAll("''", "'");
  return (
    /^\$(\w*)\$([\s\S]*)\$\1\$$/.exec(token)?.[2] ??
    /^--\s*([\s\S]*?)\s*$/.exec(token)?.[1] ??
    /^\/\*\s*([\s\S]*?)\s*\*\/$/.exec(token)?.[1]
  );
}

function walk(value: unknown, hidden: Hidden): unknown {
  if (typeof value === 'string') return hide(value, hidden);
  if (Array.isArray(value)) return value.map((item) => walk(item, hidden));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, walk(item, hidden)]));
}

/** Times of the report's own, which a date in a statement must not hit. */
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)$/;

function hide(text: string, { words, host }: Hidden): string {
  if (TIME.test(text)) return text;
  const shown = words.reduce(
    (left, [word, instead]) => (left.includes(word) ? left.replaceAll(word, instead) : left),
    text,
  );
  return host === null ? shown : shown.replace(host, HIDDEN);
}
