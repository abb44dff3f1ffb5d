import type { QueriesSection } from '../../model/report.ts';
import { changedNode } from './plans.ts';
import type { ApplicationQueries, ApplicationQuery } from './query-source.ts';
import type { RefusedWrite } from './refused-writes.ts';
import type { QueryTrial } from './try-queries.ts';

/** A query whose cost grew by this factor is slower. */
const SLOWER_FACTOR = 10;
/** Below this cost after the command no session waits, whatever the factor: about six pages read by an index. */
const SLOWER_FROM_COST = 50;

type Broken = QueriesSection['broken'][number];
type Refused = NonNullable<QueriesSection['refused']>[number];
type Slower = QueriesSection['slower'][number];

/** What the command did to the queries; the most often called first, as they came. */
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
