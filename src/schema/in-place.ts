import type { SchemaChange } from '../model/report.ts';
import { described } from './changes.ts';
import { type CatalogueIdentity, type Identified, label } from './identity.ts';
import type { Plan, StableId } from './pg-delta.ts';

const HOLDS_DATA: Partial<Record<StableId['kind'], Identified['kind']>> = {
  schema: 'schema',
  table: 'table',
  column: 'column',
  sequence: 'sequence',
  materializedView: 'materialized view',
  foreignTable: 'foreign table',
};

/** The names of objects that a plan drops although they exist on both sides: a rollback must not run such a plan. */
export function dropsOfKept(plan: Plan, from: CatalogueIdentity, to: CatalogueIdentity): string[] {
  return [...idsOfKept(plan, from, to).keys()];
}

/** The same, with the ids that the plan has for them. */
export function idsOfKept(
  plan: Plan,
  from: CatalogueIdentity,
  to: CatalogueIdentity,
): ReadonlyMap<string, StableId> {
  const destroyed = plan.actions.flatMap(({ destroys }) => destroys).filter(({ kind }) => HOLDS_DATA[kind]);
  if (destroyed.length === 0) return new Map();
  const ids = new Map(destroyed.map((id) => [`${HOLDS_DATA[id.kind]} ${described(id).object}`, id]));
  // To build the labels of all objects would take longer than the comparison itself.
  const ownNames = new Set(destroyed.map((id) => ('name' in id ? id.name : '')));
  const names = [...from.values()]
    .filter(({ key, name }) => ownNames.has(name) && to.has(key))
    .map((object) => `${object.kind} ${label(object, from)}`);
  return new Map(
    names.flatMap((name) => {
      const id = ids.get(name);
      return id ? [[name, id] as const] : [];
    }),
  );
}

/**
 * Corrects the changes of objects that a plan drops and re-creates, because it has no statement to change them in place (INHERIT,
 * DROP EXPRESSION). The command changed them in place, so they and their parts still exist.
 */
export function inPlace(
  changes: SchemaChange[],
  plan: Plan,
  before: CatalogueIdentity,
  after: CatalogueIdentity,
): SchemaChange[] {
  const kept = dropsOfKept(plan, before, after);
  if (kept.length === 0) return changes;
  const stayed = new Set(
    [...before.values()]
      .filter(({ key }) => after.has(key))
      .map((object) => `${object.kind} ${label(object, before)}`),
  );
  const within = kept.map((name) => `${name.slice(name.lastIndexOf(' ') + 1)}.`);
  const differing = new Set(
    plan.deltas
      .flatMap((delta) => ('id' in delta ? [nameOf(delta.id)] : []))
      .filter((name) => !kept.includes(name)),
  );
  return changes.flatMap((change) => {
    const name = `${change.kind} ${change.object}`;
    // An object elsewhere that is re-created because it differs, as a policy is, has nothing to do with them.
    const isOther = differing.has(name) && !within.some((part) => change.object.startsWith(part));
    if (!stayed.has(name) || isOther || (change.verb !== 'drop' && change.verb !== 'create')) return [change];
    return change.verb === 'create' && kept.includes(name)
      ? [{ ...change, verb: 'alter' as const, dataLoss: false }]
      : [];
  });
}

function nameOf(id: StableId): string {
  const { kind, object } = described(id);
  return `${kind} ${object}`;
}
