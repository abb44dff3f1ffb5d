import { identifier } from '../postgres/sql/quote.ts';
import { without } from './affected-facts.ts';
import { described, planBetween, statementsOf } from './changes.ts';
import type { CatalogueIdentity, Identified } from './identity.ts';
import { label, path } from './object-names.ts';
import type { Delta, FactBase, Plan, StableId } from './pg-delta.ts';
import { retypedColumns, valuesAsTheyWere } from './retyped.ts';
import type { Snapshot } from './schema-facts.ts';
import { mayLose, takesAll } from './type-changes.ts';
import { compareUnmodeled } from './unmodeled.ts';

/** Returns the plan's statements with two additions that PostgreSQL needs and the plan lacks. */
export function rollbackStatements(plan: Plan, now: FactBase, before: FactBase): string[] {
  return [...detaching(plan, now, before), ...statementsOf(plan), ...grantedOnColumns(plan, before)];
}

/** PostgreSQL does not drop a partition of a table that foreign keys refer to before it is detached. */
function detaching({ actions }: Plan, now: FactBase, before: FactBase): string[] {
  return actions.flatMap(({ verb, destroys: [id] }) => {
    if (verb !== 'drop' || id?.kind !== 'table') return [];
    const parent = now.get(id)?.payload.parentTable as Place | null | undefined;
    if (!parent || !before.has({ kind: 'table', ...parent })) return [];
    return [`ALTER TABLE ${quoted(parent)} DETACH PARTITION ${quoted(id)}`];
  });
}

interface Place {
  readonly schema: string;
  readonly name: string;
}

const quoted = ({ schema, name }: Place) => `${identifier(schema)}.${identifier(name)}`;

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
  for (const { object, from: now, to: then } of retypedColumns(rollback, (id) => described(id).object)) {
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
