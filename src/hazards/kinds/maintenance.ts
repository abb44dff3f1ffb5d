import { formatCount, listed } from '../../format.ts';
import type { Unanalyzed } from '../../model/effect-facts.ts';
import { displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import { isNamed } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { weighBreakage } from '../severity.ts';
import { MANY_ROWS, WARNING } from '../thresholds.ts';
import { ofKind } from './redefined.ts';

/** Work in the background that no longer happens, or not soon enough: statistics for the planner, VACUUM. */
export const MAINTENANCE: readonly HazardRecord[] = [
  {
    code: 'STATISTICS_MISSING',
    title: 'the planner has no statistics of a column or an index of a large table',
    condition: `After the command a column that an index or a foreign key uses (of another type, or new with a stored value) or a new index on an expression has no statistics, on a table of ${formatCount(WARNING.rows)} rows or 100 MB or more, and the command did not ANALYZE it.`,
    effect:
      'Neither ALTER TABLE nor CREATE INDEX makes autovacuum analyze a table: until a tenth of its rows has changed, queries are planned with defaults, and a join or a sort may take a thousand times as long.',
    safer:
      'ANALYZE the table at the end of the migration, outside of its transaction; it blocks neither reads nor writes (https://www.postgresql.org/docs/current/sql-analyze.html, https://www.postgresql.org/docs/current/sql-altertable.html, SET DATA TYPE).',
    find: notAnalyzed,
  },
  {
    code: 'STATISTICS_OFF',
    title: 'ANALYZE no longer gathers statistics of a large table',
    condition: `On a table of ${formatCount(WARNING.rows)} rows or 100 MB or more, the command sets the statistics target of a column to 0, but for binary and JSON, or sets that of extended statistics to 0, or drops extended statistics whose columns stay.`,
    effect:
      'The planner estimates the column, or the columns together, with defaults: a join or a sort may take a thousand times as long. With a target of 0 the old statistics stay and get stale, so the plans change only later.',
    safer:
      'Leave the target at -1, the default of the server, and keep CREATE STATISTICS while queries filter by those columns together (https://www.postgresql.org/docs/current/planner-stats.html).',
    find: noLongerGathered,
  },
  {
    code: 'AUTOVACUUM_OFF',
    title: 'autovacuum no longer maintains a table',
    condition: `A table that existed before has the storage parameter autovacuum_enabled = false after the command, and had not before. A warning if an application may write the table, or it has ${formatCount(MANY_ROWS)} rows.`,
    effect:
      'Dead rows stay in the table, which grows with each UPDATE and DELETE, and its statistics get old: queries get slower for weeks. Only the VACUUM that prevents wraparound still comes.',
    safer:
      'Leave it on, and let it come more often: autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay. If it is off for a bulk load, switch it on again at the end (https://www.postgresql.org/docs/current/routine-vacuuming.html).',
    find: (context) =>
      ofKind(context, 'autovacuum off')
        .filter(({ relation, before }) => before === null && context.relation(relation))
        .map(({ relation, after }) => ({
          statement: saying(context, relation, /\bautovacuum_enabled\b/i),
          relation,
          severity: weighBreakage(context, relation),
          message: `autovacuum no longer cleans up and analyzes ${relation}`,
          evidence: `${after}; ${relationEvidence(context, relation)}`,
          advice: sqlAdvice(
            'At the end of the work that it was switched off for:',
            `ALTER TABLE ${relation} RESET (autovacuum_enabled)`,
          ),
        })),
  },
];

export function isLarge(context: HazardContext, relation: string): boolean {
  const { rows, sizeBytes } = context.relation(relation) ?? {};
  return (rows ?? 0) >= WARNING.rows || (sizeBytes ?? 0) >= WARNING.sizeBytes;
}

/** The statement that locked a relation and has these words, if it was not hidden in a function. */
function saying({ facts }: HazardContext, relation: string, words: RegExp): number | null {
  const found = facts.statements.findLast(
    ({ error, sql, locks }) =>
      error === null && words.test(sql) && locks?.some((lock) => lock.relation === relation),
  );
  return found?.index ?? null;
}

function notAnalyzed(context: HazardContext): Finding[] {
  const { unanalyzed } = context.facts.catalogue.effects;
  return [...new Set(unanalyzed.map(({ relation }) => relation))].flatMap((relation): Finding[] => {
    const missing = unanalyzed.filter((each) => each.relation === relation);
    if (!isLarge(context, relation)) return [];
    const columns = missing.flatMap(({ column }) => column ?? []);
    const isWhole = missing.some(({ index }) => index !== null);
    return [
      {
        statement: missing.map((each) => maker(context, each)).findLast((index) => index !== null) ?? null,
        relation,
        severity: 'warning',
        message: `the planner has no statistics of ${listed(missing.map(({ column, index }) => index ?? `${relation}.${column}`))}`,
        evidence: `pg_stats has no row for it after the command; ${relationEvidence(context, relation)}`,
        advice: sqlAdvice(
          'At the end of the migration, outside of its transaction:',
          `ANALYZE ${relation}${isWhole ? '' : ` (${columns.join(', ')})`}`,
        ),
      },
    ];
  });
}

/** Columns whose target is 0, and pairs of columns whose statistics are no longer gathered although both columns are there. */
function noLongerGathered(context: HazardContext): Finding[] {
  const columns = ofKind(context, 'no statistics').filter(({ before }) => before === null);
  const pairs = ofKind(context, 'statistics').filter(
    ({ relation, before, after }) => after === null && !isCollateral(context, relation, before ?? ''),
  );
  const relations = new Set([...columns, ...pairs].map(({ relation }) => relation));
  return [...relations].flatMap((relation): Finding[] => {
    if (!isLarge(context, relation)) return [];
    const own = columns.filter((each) => each.relation === relation);
    const together = pairs.filter((each) => each.relation === relation);
    const { off, dropped } = statisticsObjects(context, relation, together.length > 0);
    const known = [
      ...off.map(({ after }) => `ALTER STATISTICS ${after} SET STATISTICS -1`),
      ...dropped.map(({ before }) => before ?? ''),
    ];
    const again =
      known.length > 0
        ? known
        : together.map(({ before }) => `CREATE STATISTICS … ON ${before} FROM ${relation}`);
    const subjects = [
      ...own.map(({ name }) => `${relation}.${displayName(name)}`),
      ...together.map(({ before }) => `(${before}) of ${relation}`),
    ];
    const isTarget = own.length + off.length > 0;
    const isGone = together.length > 0 && (dropped.length > 0 || off.length === 0);
    const seen = [
      ...(isTarget ? ['the statistics target is 0 after the command'] : []),
      ...(isGone ? ['pg_statistic_ext has no such object after the command'] : []),
    ];
    return [
      {
        statement:
          saying(context, relation, SAYS_STATISTICS) ??
          naming(
            context,
            [...off, ...dropped].map(({ name }) => name),
          ),
        relation,
        severity: 'warning',
        message: `ANALYZE gathers no statistics of ${listed(subjects)} any more`,
        evidence: `${seen.join(', or ')}; ${relationEvidence(context, relation)}`,
        advice: sqlAdvice(
          'Gather them again, with an ANALYZE of the table afterwards:',
          ...own.map(
            ({ name }) => `ALTER TABLE ${relation} ALTER COLUMN ${displayName(name)} SET STATISTICS -1`,
          ),
          ...again,
        ),
      },
    ];
  });
}

const SAYS_STATISTICS = /\b(?:SET|DROP)\s+STATISTICS\b/i;

/** Extended statistics that the command switches off, or drops although their columns stay. @param isAsked else none are looked for. */
function statisticsObjects(context: HazardContext, relation: string, isAsked: boolean) {
  if (!isAsked) return { off: [], dropped: [] };
  const off = ofKind(context, 'statistics off').filter((each) => each.relation === relation);
  const dropped = ofKind(context, 'statistics object').filter(
    (each) =>
      each.relation === relation &&
      each.after === null &&
      !off.some(({ name }) => name === each.name) &&
      !isCollateral(context, relation, each.before ?? ''),
  );
  return { off, dropped };
}

/** The last statement that switches off or drops statistics by name, which locks no table in the first case. */
function naming({ facts }: HazardContext, names: readonly string[]): number | null {
  const found = facts.statements.findLast(
    ({ error, sql }) =>
      error === null && SAYS_STATISTICS.test(sql) && names.some((name) => isNamed(sql, name)),
  );
  return found?.index ?? null;
}

/** Statistics go with their table, and with each of their columns. */
function isCollateral(context: HazardContext, relation: string, items: string): boolean {
  return (
    context.changed('drop', relation) ||
    context
      .changes('drop', 'column')
      .some(({ object }) => withoutLastPart(object) === relation && isNamed(items, lastPart(object)))
  );
}

function maker(context: HazardContext, { relation, column, index }: Unanalyzed): number | null {
  const changes =
    index === null
      ? [...context.actionsOn('alter type'), ...context.actionsOn('add column')]
      : context.actionsOn('create index');
  const part = `${relation}.${index === null ? column : lastPart(index)}`;
  return changes.find((each) => each.part === part)?.statement.index ?? null;
}
