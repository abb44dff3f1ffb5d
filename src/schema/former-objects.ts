import type { DefinitionFacts, DroppedFacts } from '../model/hazard-facts.ts';
import { identifier } from '../postgres/sql/quote.ts';
import { described, ownersOf } from './changes.ts';
import { text } from './metadata.ts';
import type { Delta, Fact, FactBase, StableId } from './pg-delta.ts';

/**
 * Finds out why each dropped object is gone, by kind and name as the changes have them: `index public.orders_customer_idx`.
 * @param after under the names of `before`.
 */
export function dropped(
  before: FactBase,
  after: FactBase,
  deltas: readonly Delta[],
): Map<string, DroppedFacts> {
  const found = new Map<string, DroppedFacts>();
  for (const delta of deltas) {
    if (delta.verb !== 'remove') continue;
    const { kind, object } = described(delta.fact.id);
    const whole = wholes(delta.fact, before).find((id) => before.has(id) && !after.has(id));
    found.set(`${kind} ${object}`, {
      goneWith: whole ? described(whole).object : null,
      keptAs: delta.fact.id.kind === 'constraint' ? equalConstraint(delta.fact, after) : null,
    });
  }
  return found;
}

/** The objects that an object is part of: if one of these is dropped, it is dropped too, without CASCADE. */
function wholes(fact: Fact, before: FactBase): StableId[] {
  const { id, parent, payload } = fact;
  const found = parent ? [parent] : [];
  if (id.kind === 'constraint' || id.kind === 'index') found.push(...ownColumns(fact, before));
  found.push(...ownersOf(fact));
  // A child that only inherits would block DROP TABLE.
  if (id.kind === 'table' && payload.partitionBound !== null)
    found.push(...dependsOn(id, before).filter(({ kind }) => kind === 'table'));
  if (id.kind === 'publicationRel') found.push({ kind: 'table', schema: id.schema, name: id.table });
  return found;
}

/** The columns of its own table that a constraint or an index uses. */
function ownColumns({ id, parent, payload }: Fact, before: FactBase): StableId[] {
  const columns = dependsOn(id, before).filter(
    (to) =>
      to.kind === 'column' &&
      parent &&
      'name' in parent &&
      'schema' in parent &&
      to.schema === parent.schema &&
      to.table === parent.name,
  );
  if (payload.type !== 'f') return columns;
  // If a table refers to itself, the columns that it refers to block their drop, as those of any other table would.
  const [key = ''] = String(payload.def).split(') REFERENCES ');
  const names = key.replace('FOREIGN KEY (', '').split(', ');
  return columns.filter(
    (column) => 'name' in column && (names.includes(column.name) || names.includes(identifier(column.name))),
  );
}

function dependsOn(id: StableId, base: FactBase): StableId[] {
  return base
    .outgoingEdges(id)
    .filter(({ kind }) => kind === 'depends')
    .map(({ to }) => to);
}

/** Finds a constraint with another name and the same definition, which does not contain the name. */
function equalConstraint({ id, parent, payload }: Fact, after: FactBase): string | null {
  const equal = (parent ? after.childrenOf(parent) : []).find(
    (other) =>
      other.id.kind === id.kind &&
      other.payload.type === payload.type &&
      other.payload.def === payload.def &&
      other.payload.validated === payload.validated,
  );
  return equal ? described(equal.id).object : null;
}

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
