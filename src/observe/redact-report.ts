import type { ApplySection, FurtherRunSection, Report, StatementSection } from '../report/model.ts';
import { shapeOf } from '../wire/shape.ts';
import { redacted } from './redact.ts';

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
  const further = [report.rerun, report.down].flatMap((run) => run?.statements ?? []);
  const originals = [...report.statements, ...further, ...(report.apply?.statements ?? [])];
  const { statements, rerun, down, checks, apply, ...rest } = report;
  const hidden = await wordsToHide(originals, report.target.host);
  const walked = walk(rest, hidden) as typeof rest;
  const ofFurther = async (run: FurtherRunSection | null) =>
    run && {
      ...(walk({ ...run, statements: [] }, hidden) as FurtherRunSection),
      statements: await redacted(run.statements),
    };
  const { schema } = walked;
  return {
    ...walked,
    // What identifies a run or a schema is nobody's secret, and must not be hit by chance.
    run: report.run,
    schema: schema &&
      report.schema && { ...schema, before: report.schema.before, after: report.schema.after },
    command: {
      ...walked.command,
      argv: report.command.argv.map((word) => (/\s/.test(word) ? HIDDEN : hide(word, hidden))),
    },
    statements: await redacted(statements),
    checks: checks.map((check) => ({ ...(walk(check, hidden) as typeof check), missing: [], added: [] })),
    rerun: await ofFurther(rerun),
    down: await ofFurther(down),
    apply: apply && (await redactedApply(apply, (value) => walk(value, hidden) as typeof value)),
  };
}

/** Its lists quote its own statements, by their numbers. */
async function redactedApply(
  apply: ApplySection,
  hideIn: (value: ApplySection) => ApplySection,
): Promise<ApplySection> {
  const statements = await redacted(apply.statements);
  const shown = new Map(statements.map(({ index, sql }) => [index, sql]));
  const hidden = hideIn({ ...apply, statements: [] });
  const { rehearsal, receipt, fingerprints } = apply;
  // What others ran is not among the statements whose literals are known.
  const during = hidden.during && {
    ...hidden.during,
    blockers: hidden.during.blockers.map((each) => ({ ...each, query: each.query && shapeOf(each.query) })),
  };
  return {
    ...{ ...hidden, rehearsal, receipt, fingerprints, statements, during },
    committed: hidden.committed.map((each) => ({ ...each, sql: shown.get(each.statement) ?? each.sql })),
    rolledBack: hidden.rolledBack.map((each) => ({ ...each, sql: shown.get(each.statement) ?? each.sql })),
    comparedTimes: hidden.comparedTimes.map((each) => ({
      ...each,
      sql: shown.get(each.applied) ?? each.sql,
    })),
  };
}

/** The longest first: a shorter one may be a part of it. */
async function wordsToHide(
  statements: readonly StatementSection[],
  host: string,
): Promise<readonly (readonly [string, string])[]> {
  const words = new Map<string, string>([[host, HIDDEN]]);
  const { scan } = await import('libpg-query');
  for (const sql of new Set(statements.map((statement) => statement.sql))) {
    const { tokens } = await scan(sql).catch(() => ({ tokens: [] }));
    for (const { text } of tokens) for (const word of literalOf(text)) words.set(word, PLACEHOLDER);
  }
  const shown = await redacted([...statements]);
  statements.forEach(({ error }, index) => {
    const message = shown[index]?.error?.message;
    if (error && message !== undefined && message !== error.message) words.set(error.message, message);
    for (const text of [error?.detail, error?.where, error?.internalQuery]) if (text) words.set(text, HIDDEN);
  });
  return [...words].filter(([word]) => word !== '').sort(([one], [other]) => other.length - one.length);
}

function literalOf(token: string): string[] {
  if (/^\d/.test(token)) return token.length < SHORTEST_NUMBER ? [] : [token];
  const quoted =
    /^(?:[BXEN]|U&)?'([\s\S]*)'$/i.exec(token)?.[1] ?? /^\$(\w*)\$([\s\S]*)\$\1\$$/.exec(token)?.[2];
  if (quoted === undefined) return [];
  const content = quoted.replaceAll("''", "'");
  // A word that could be a name is left where it stands alone, or names of tables would be torn apart.
  return [token, ...(content.length < SHORTEST_TEXT || NAME.test(content) ? [] : [content])];
}

function walk(value: unknown, hidden: readonly (readonly [string, string])[]): unknown {
  if (typeof value === 'string') return hide(value, hidden);
  if (Array.isArray(value)) return value.map((item) => walk(item, hidden));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, walk(item, hidden)]));
}

function hide(text: string, hidden: readonly (readonly [string, string])[]): string {
  return hidden.reduce(
    (shown, [word, instead]) => (shown.includes(word) ? shown.replaceAll(word, instead) : shown),
    text,
  );
}
