import type { DefinitionFacts } from '../model/hazard-facts.ts';
import { described } from './changes.ts';
import type { Delta, Fact, FactBase, StableId } from './pg-delta.ts';

/**
 * Reads the definitions that functions and column defaults had before, and have after, if they changed or were dropped; and the
 * columns that became NOT NULL.
 * @param after under the names of `before`.
 */
export function formerDefinitions(
  before: FactBase,
  after: FactBase,
  deltas: readonly Delta[],
): Pick<DefinitionFacts, 'functions' | 'defaults' | 'notNull'> {
  const functions = new Map<string, { before: string; after: string | null }>();
  const defaults = new Map<
    string,
    { before: string; after: string | null; notNull: boolean; generated: boolean }
  >();
  for (const id of deltas.flatMap(changedId)) {
    const then = before.get(id);
    if (!then) continue;
    const now = after.get(id);
    const { object } = described(id);
    if (id.kind === 'function')
      functions.set(object, { before: text(then, 'def'), after: now ? text(now, 'def') : null });
    const column = id.kind === 'default' && then.parent ? after.get(then.parent) : undefined;
    if (!column) continue;
    const { notNull, generatedExpr, identity } = column.payload;
    defaults.set(object, {
      before: text(then, 'expr'),
      after: now ? text(now, 'expr') : null,
      notNull: notNull === true,
      generated: generatedExpr != null || identity != null,
    });
  }
  return { functions, defaults, notNull: deltas.flatMap(becameNotNull) };
}

function becameNotNull(delta: Delta): string[] {
  const isSet = delta.verb === 'set' && delta.id.kind === 'column' && delta.attr === 'notNull' && delta.to;
  return isSet ? [described(delta.id).object] : [];
}

function changedId(delta: Delta): StableId[] {
  if (delta.verb === 'remove') return [delta.fact.id];
  return delta.verb === 'set' ? [delta.id] : [];
}

const text = ({ payload }: Fact, attribute: string) => String(payload[attribute]);
