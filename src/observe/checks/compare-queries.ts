import type { QueriesSection } from '../../model/report.ts';
import { HAS_ROWS, RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, identifier } from '../../postgres/sql/quote.ts';
import type { TableName } from '../../schema/runnable.ts';
import type { ApplicationQueries, ApplicationQuery } from './query-source.ts';
import type { RefusedWrite } from './refused-writes.ts';
import { changedNode, type Plan, type QueryTrial, relationsIn } from './try-queries.ts';

/** A query whose cost grew by this factor is slower. */
const SLOWER_FACTOR = 10;
/** Below this cost after the command no session waits, whatever the factor: about six pages read by an index. */
const SLOWER_FROM_COST = 50;

type Broken = QueriesSection['broken'][number];
type Refused = NonNullable<QueriesSection['refused']>[number];
type Slower = QueriesSection['slower'][number];

/** Compares the queries before the command and after it; the most often called first, as they came. */
export function compareQueries(
  source: ApplicationQueries,
  before: readonly QueryTrial[],
  after: readonly QueryTrial[],
  refusals: readonly (RefusedWrite | null)[] = [],
): QueriesSection {
  const broken: Broken[] = [];
  const refused: Refused[] = [];
  const changedRow: ApplicationQuery[] = [];
  const slower: Slower[] = [];
  let checked = 0;
  for (const [index, query] of source.queries.entries()) {
    const [then, now] = [before[index], after[index]];
    if (!then || !now || then.error) continue;
    checked++;
    const error = now.error ?? (then.plan && now.planError);
    const refusal = refusals[index];
    if (!error && refusal) refused.push({ ...query, ...refusal, columns: [...refusal.columns] });
    if (!error && then.row !== now.row) changedRow.push(query);
    if (error) broken.push({ ...query, error });
    else {
      const found = slowerPlan(then, now);
      if (found) slower.push({ ...query, ...found });
    }
  }
  return {
    source: source.source,
    countedSince: source.countedSince,
    checked,
    skipped: {
      utility: source.utility,
      failedBefore: source.queries.length - checked,
      hidden: source.hidden,
      ...(source.others === undefined ? {} : { others: source.others }),
    },
    planned: before.some(({ plan }) => plan !== null),
    broken,
    slower,
    refused,
    changedRow,
  };
}

/** By production's plans where both are known. */
function slowerPlan(then: QueryTrial, now: QueryTrial): Omit<Slower, keyof ApplicationQuery> | null {
  const isSized = then.productionPlan != null && now.productionPlan != null;
  const [before, after] = isSized ? [then.productionPlan, now.productionPlan] : [then.plan, now.plan];
  if (!before || !after) return null;
  const { totalCost: costBefore } = before;
  const { totalCost: costAfter } = after;
  if (costAfter < SLOWER_FROM_COST || costAfter < costBefore * SLOWER_FACTOR) return null;
  const node = changedNode(before, after);
  return {
    costBefore,
    costAfter,
    nodeBefore: node?.before ?? null,
    nodeAfter: node?.after ?? null,
    ...(isSized && { atProductionSize: true as const }),
  };
}

/** Trials before and after the command, query by query. */
export interface QueryTrials {
  readonly source: ApplicationQueries;
  readonly before: readonly QueryTrial[];
  readonly after: readonly QueryTrial[];
  /** Tables that would lack statistics in production, where they may have had none here. */
  readonly lost?: readonly TableName[];
}

// A plan names relations without their schemas. A column without any row of statistics was made, retyped or rewritten since the
// last ANALYZE; so was an expression of an index.
const WITHOUT_STATISTICS = `
select distinct n.nspname as schema, c.relname as name
from ${RELATIONS_AND_SCHEMAS}
where c.relname = any ($1) and ${HAS_ROWS} and ${USER_SCHEMA}
  and (c.relkind = 'p' or c.relpages > 0 or c.reltuples < 0)
  and (exists (
      select from pg_catalog.pg_attribute a
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attstattarget is distinct from 0
        and not exists (select from pg_catalog.pg_statistic s where s.starelid = c.oid and s.staattnum = a.attnum))
    or exists (
      select from pg_catalog.pg_index i join pg_catalog.pg_attribute a on a.attrelid = i.indexrelid
      where i.indrelid = c.oid and i.indexprs is not null and i.indkey[a.attnum - 1] = 0
        and not exists (select from pg_catalog.pg_statistic s where s.starelid = i.indexrelid and s.staattnum = a.attnum)))`;

/**
 * Finds the slower queries whose plans are only worse because their tables have no statistics: analyzes those tables on the clone,
 * plans the queries again, and names the tables at the queries that are no longer slower.
 * @param session in the clone; it may write.
 * @param tryAgain tries some of the queries as they were tried after the command.
 */
export async function withoutStatistics(
  session: Session,
  section: QueriesSection,
  { source, before, after, lost = [] }: QueryTrials,
  tryAgain: (queries: ApplicationQueries) => Promise<{ readonly trials: readonly QueryTrial[] }>,
): Promise<QueriesSection> {
  const slower = new Set(section.slower.map(({ sql }) => sql));
  const places = source.queries.flatMap(({ sql }, place) => (slower.has(sql) ? [place] : []));
  const plans = places.map((place) => after[place]?.plan).filter((plan): plan is Plan => plan != null);
  const names = [...new Set(plans.flatMap(relationsIn))];
  const found = await session.query<TableName>(WITHOUT_STATISTICS, [names]);
  const isNew = ({ schema, name }: TableName) =>
    names.includes(name) && !found.some((each) => each.schema === schema && each.name === name);
  const tables = [...found, ...lost.filter(isNew)];
  if (tables.length === 0) return section;
  for (const { schema, name } of tables)
    await session.query(`ANALYZE ${identifier(schema)}.${identifier(name)}`);
  const of = <T>(list: readonly T[]) => places.flatMap((place) => list[place] ?? []);
  const queries = { ...source, queries: of(source.queries) };
  const { trials } = await tryAgain(queries);
  const { slower: stillSlower } = compareQueries(queries, of(before), trials);
  const still = new Set(stillSlower.map(({ sql }) => sql));
  const analyzed = tables.map(({ schema, name }) => displayName(schema, name));
  return {
    ...section,
    slower: section.slower.map((query) =>
      still.has(query.sql) ? query : { ...query, untilAnalyzed: analyzed },
    ),
  };
}
