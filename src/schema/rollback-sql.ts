import { displayName } from '../postgres/sql/quote.ts';
import { without } from './affected-facts.ts';
import { described, planBetween, retypedColumns, statementsOf } from './changes.ts';
import { type CatalogueIdentity, type Identified, label, path } from './identity.ts';
import { idsOfKept } from './in-place.ts';
import { type Delta, encodeId, type FactBase, type Plan, type StableId } from './pg-delta.ts';
import { fitToRows, type HasRows, quoted, type TableName } from './runnable.ts';
import type { Snapshot } from './schema-facts.ts';
import { mayLose, takesAll, valuesAsTheyWere } from './type-changes.ts';
import { compareUnmodeled } from './unmodeled.ts';

/**
 * Returns the plan's statements, as far as they run on the rows that are there, with two additions that PostgreSQL needs and the plan
 * lacks; and what they leave out because of the rows, in sentences.
 */
export function rollbackStatements(
  plan: Plan,
  now: FactBase,
  before: FactBase,
  hasRows: HasRows,
): { statements: string[]; leftOut: string[] } {
  const { actions, leftOut } = fitToRows(plan, before, hasRows);
  const fitted = { ...plan, actions };
  const statements = [
    ...detaching(fitted, now, before),
    ...statementsOf(fitted),
    ...grantedOnColumns(fitted, before),
  ];
  return { statements, leftOut };
}

/**
 * Plans the way back without objects that it would have to drop and re-create although they still exist: `leftAsIs` has their names.
 * The command changed them in place, and no statement changes them back.
 */
export function planBack(now: Sides, before: Sides): { plan: Plan; leftAsIs: string[] } {
  const plan = planBetween(now.facts, before.facts);
  const kept = idsOfKept(plan, now.identity, before.identity);
  if (kept.size === 0) return { plan, leftAsIs: [] };
  const left = withNewParents([...kept.values()], now.facts, before.facts);
  return {
    plan: planBetween(without(now.facts, left), without(before.facts, left)),
    // Columns are left with their table.
    leftAsIs: [...kept].flatMap(([name, id]) =>
      'table' in id && kept.has(`table ${displayName(id.schema, id.table)}`) ? [] : [name],
    ),
  };
}

type Sides = Pick<Snapshot, 'facts' | 'identity'>;

/** Adds what these objects, as they are now, depend on and what did not exist before: a table that they inherit from. */
function withNewParents(ids: readonly StableId[], now: FactBase, before: FactBase): StableId[] {
  const found = new Map(ids.map((id) => [encodeId(id), id]));
  const waiting = [...ids];
  for (let id = waiting.pop(); id; id = waiting.pop()) {
    waiting.push(...now.childrenOf(id).map((child) => child.id));
    for (const { to } of now.outgoingEdges(id)) {
      if (before.has(to) || found.has(encodeId(to))) continue;
      found.set(encodeId(to), to);
      waiting.push(to);
    }
  }
  return [...found.values()];
}

/** PostgreSQL does not drop a partition of a table that foreign keys refer to before it is detached. */
function detaching({ actions }: Plan, now: FactBase, before: FactBase): string[] {
  return actions.flatMap(({ verb, destroys: [id] }) => {
    if (verb !== 'drop' || id?.kind !== 'table') return [];
    const parent = now.get(id)?.payload.parentTable as TableName | null | undefined;
    if (!parent || !before.has({ kind: 'table', ...parent })) return [];
    return [`ALTER TABLE ${quoted(parent)} DETACH PARTITION ${quoted(id)}`];
  });
}

/** A plan begins each change of a relation's privileges with REVOKE ALL, which also revokes those on its columns. */
function grantedOnColumns(plan: Plan, before: FactBase): string[] {
  const keyOf = ({ target, grantee }: Acl) => JSON.stringify([described(target), grantee]);
  const touched = plan.actions.flatMap(({ produces, destroys }) => [...produces, ...destroys]).filter(isAcl);
  const revoked = new Set(touched.filter(({ column }) => column === undefined).map(keyOf));
  if (revoked.size === 0) return [];
  const lost = before
    .facts()
    .map(({ id }) => id)
    .filter((id) => isAcl(id) && id.column !== undefined && revoked.has(keyOf(id)));
  return lost.length === 0 ? [] : statementsOf(planBetween(without(before, lost), before));
}

type Acl = Extract<StableId, { kind: 'acl' }>;
const isAcl = (id: StableId): id is Acl => id.kind === 'acl';

const LOST: Partial<Record<Identified['kind'], (name: string) => string>> = {
  table: (name) => `the rows of ${name}`,
  column: (name) => `the values of ${name}`,
  sequence: (name) => `the value of sequence ${name}`,
};

/** Describes the content that the rollback SQL cannot restore. @param now under the names of before. */
export function losses(
  before: Pick<Snapshot, 'identity' | 'unmodeled'>,
  now: Pick<Snapshot, 'identity' | 'unmodeled'>,
  rollback: readonly Delta[],
): string[] {
  const lost: string[] = [];
  for (const object of before.identity.values()) {
    const words = LOST[object.kind];
    if (!words || now.identity.has(object.key) || !isStored(object, before.identity)) continue;
    // The rows of a dropped table are named once, not again for each of its columns.
    if (object.within !== null && object.kind === 'column' && !now.identity.has(object.within)) continue;
    lost.push(words(label(object, before.identity)));
  }
  for (const { object, from: now, to: then } of retypedColumns(rollback)) {
    if (mayLose(then, now, 'expression')) lost.push(valuesAsTheyWere({ object, from: then, to: now }));
    if (!takesAll(now, then))
      lost.push(`values of ${object} that ${then} cannot hold: going back to it may fail or shorten them`);
  }
  for (const object of now.identity.values()) {
    if (object.kind !== 'enum value' || before.identity.has(object.key)) continue;
    const type = object.within === null ? undefined : before.identity.get(object.within);
    if (!type) continue;
    const value = path(object, now.identity).at(-1);
    lost.push(
      `rows that hold '${value}' of ${label(type, before.identity)}: going back fails while there are any`,
    );
  }
  for (const { kind, detail } of compareUnmodeled(before.unmodeled, now.unmodeled))
    if (kind !== 'sequence value') lost.push(`${kind}: ${detail} (not undone)`);
  return lost;
}

function isStored(object: Identified, identity: CatalogueIdentity): boolean {
  if (object.kind !== 'column' || object.within === null) return true;
  const relation = identity.get(object.within);
  return relation?.kind === 'table' && object.follows === null;
}
