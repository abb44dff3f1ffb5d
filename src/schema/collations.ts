import { identifier } from '../postgres/sql/quote.ts';
import {
  type Action,
  buildFactBase,
  type Delta,
  encodeId,
  type FactBase,
  type Payload,
  type StableId,
} from './pg-delta.ts';

type PayloadValue = Payload[string];
type Column = Extract<StableId, { table: string; schema: string; name: string }>;

/**
 * PostgreSQL changes a column's collation in place and keeps its values; pg-delta would drop the column and add it.
 * So the collations stay out of its plan, and these statements follow it.
 */
export function collationsApart(deltas: readonly Delta[], to: FactBase): { to: FactBase; actions: Action[] } {
  const kept = new Map<string, PayloadValue>();
  const actions: Action[] = [];
  for (const delta of deltas) {
    if (delta.verb !== 'set' || delta.id.kind !== 'column' || delta.attr !== 'collation') continue;
    kept.set(encodeId(delta.id), delta.from);
    const type = String(to.get(delta.id)?.payload.type);
    actions.push(alteration(delta.id as Column, `${type} COLLATE ${delta.to ?? 'pg_catalog."default"'}`));
  }
  if (actions.length === 0) return { to, actions };
  const facts = to.facts().map((fact) => {
    const key = encodeId(fact.id);
    if (!kept.has(key)) return fact;
    return { ...fact, payload: { ...fact.payload, collation: kept.get(key) } };
  });
  return { to: buildFactBase(facts, [...to.edges], to.source), actions };
}

function alteration(id: Column, type: string): Action {
  const table = `${identifier(id.schema)}.${identifier(id.table)}`;
  return {
    sql: `ALTER TABLE ${table} ALTER COLUMN ${identifier(id.name)} TYPE ${type}`,
    verb: 'alter',
    produces: [],
    consumes: [id],
    destroys: [],
    releases: [],
    transactionality: 'transactional',
    lockClass: 'accessExclusive',
    newSegmentBefore: false,
    dataLoss: 'none',
    rewriteRisk: false,
  };
}
