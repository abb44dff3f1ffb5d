import type { Session } from '../../postgres/connection/session.ts';
import { readOnlineCatalogue } from './online-catalogue.ts';
import type { OnlinePlan, WayBackPlan } from './online-plan.ts';
import { planForeignKeys } from './plan-foreign-keys.ts';
import { planSequences, relationName } from './plan-online-swap.ts';
import { planWayBack } from './plan-way-back.ts';

const PUBLISHED = `
SELECT r.prrelid::int8 AS oid FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = ANY ($1)`;

/**
 * Plans the cut-over back: the original follows the newer database as a clone follows its target.
 * @param publications by which it follows.
 */
export async function planReturn(
  newer: Session,
  original: Session,
  publications: readonly string[],
): Promise<OnlinePlan & Pick<WayBackPlan, 'limits'>> {
  const rows = await newer.query<{ oid: string }>(PUBLISHED, [publications]);
  const followed = new Set(rows.map(({ oid }) => Number(oid)));
  const target = await readOnlineCatalogue(newer, 'target');
  const clone = await readOnlineCatalogue(original, 'clone');
  const { tables, limits } = planWayBack({ original: clone, newer: target }, followed);
  const facts = {
    birth: { target, clone },
    derivesRows: false,
    convertsByExpression: false,
    catchesUp: false,
  };
  const comparison = { target, clone, facts };
  const sequences = planSequences(comparison, followed);
  return {
    tables,
    limits,
    leftOut: [],
    sequences: sequences.copied,
    raise: sequences.raise,
    refresh: clone.materializedViews.flatMap(({ oid }) => relationName(comparison, oid)),
    notCompared: [],
    newForeignKeys: planForeignKeys(comparison, followed).found,
    before: [],
    after: [],
  };
}
