import { createHash } from 'node:crypto';
import { messageOf, sqlstateOf } from '../errors.ts';
import { plural } from '../format.ts';
import type { DefinitionFacts, DroppedFacts } from '../model/hazard-facts.ts';
import type { Caveat, SchemaChange, SchemaSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { affectedFacts, without } from './affected-facts.ts';
import { changesOf, planBetween, retypedColumns } from './changes.ts';
import { dropped, formerDefinitions } from './former-objects.ts';
import { type CatalogueIdentity, type Identified, label, leftovers, path } from './identity.ts';
import { dropsOfKept, inPlace } from './in-place.ts';
import { changedObjects } from './objects.ts';
import { encodeId, type FactBase, type Plan, type StableId } from './pg-delta.ts';
import { keptObjects, type Step } from './renames.ts';
import { losses, planBack, rollbackStatements } from './rollback-sql.ts';
import { tablesWithRows } from './runnable.ts';
import { type Snapshot, snapshotAfter, takeSnapshot } from './schema-facts.ts';
import type { Retyped } from './type-changes.ts';
import { changedProperties, compareUnmodeled, unknownColumnOptions, unmodeledContent } from './unmodeled.ts';

export interface Comparison {
  readonly section: SchemaSection;
  /** By kind and name, as the section's changes have them. */
  readonly dropped: ReadonlyMap<string, DroppedFacts>;
  readonly definitions: DefinitionFacts;
  readonly retyped: readonly Retyped[];
  readonly caveats: Caveat[];
}

/** Equal for two databases that hold the same schema, whatever their OIDs are. */
export function fingerprint({ facts, unmodeled, identity }: Snapshot): string {
  // Roles belong to the cluster: another database's migration may create one.
  const roots = facts.roots().filter(({ id }) => id.kind !== 'role' && id.kind !== 'membership');
  const invalid = [...identity.values()].filter(({ valid }) => !valid);
  const hash = createHash('sha256');
  for (const content of [
    roots.map(({ id }) => `${encodeId(id)}=${facts.rollupOf(id)}`).sort(),
    unmodeledContent(unmodeled),
    invalid.map((object) => `not valid: ${label(object, identity)}`).sort(),
  ])
    hash.update(content.map((line) => `${line}\n`).join(''));
  return hash.digest('hex');
}

/**
 * Compares the session's database, as it is now, with what it was.
 * It takes renames back in a transaction that it rolls back. If that fails, the comparison goes by names alone, has no
 * rollback SQL, and its caveats give the reason.
 * @param options.inUse others work in the database: they would wait for the locks of taking renames back, so that is not tried.
 */
export async function compareWith(
  before: Snapshot,
  session: Session,
  { inUse = false }: { readonly inUse?: boolean } = {},
): Promise<Comparison> {
  const [who] = await session.query<{ owner: string }>('select current_user::text as owner');
  const owner = who?.owner ?? '';
  const { steps, common, pair } = inspect(before, await takeSnapshot(session), owner);
  if (steps.length === 0) return await compareBy(pair, { steps, common }, owner, inUse ? null : session);
  if (inUse) return compareByNames(pair, common, owner, 'others would have waited for its locks');
  try {
    const undo = steps.map((step) => step.undo);
    const unrenamed = affectedPair(before, await snapshotAfter(session, undo));
    return await compareBy(unrenamed, { steps, common }, owner, session);
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return compareByNames(pair, common, owner, messageOf(error));
  }
}

/** The part of the section that describes the schema under its present names. */
type Common = Omit<SchemaSection, 'changes' | 'unmodeled' | 'rollbackSql' | 'rollbackLoses'>;

/** A function of its own, so that the facts after the command are freed before they are read under the names of before. */
function inspect(before: Snapshot, after: Snapshot, owner: string) {
  const { steps, renames } = keptObjects(before.identity, after.identity);
  const pair = affectedPair(before, after);
  const common: Common = {
    before: fingerprint(before),
    after: fingerprint(after),
    renames,
    leftovers: leftovers(before.identity, after.identity),
    ...changedObjects(pair.before, pair.after, owner),
  };
  return { steps, common, pair };
}

type Pair = ReturnType<typeof affectedPair>;

/** Cuts two schemas down to those facts that their difference can affect. */
function affectedPair(before: Snapshot, after: Snapshot) {
  const again = recreated(before.identity, after.identity);
  const { a, b } = affectedFacts(
    before.facts,
    after.facts,
    again.map(({ id }) => id),
  );
  return { before: { ...before, facts: a }, after: { ...after, facts: b }, again };
}

/**
 * Compares two schemas that have the names of before on both sides.
 * @param steps take renames back.
 * @param session null: others work in the database, which is not to be asked for rows.
 */
async function compareBy(
  { before, after, again }: Pair,
  { steps, common }: Pick<ReturnType<typeof inspect>, 'steps' | 'common'>,
  owner: string,
  session: Session | null,
): Promise<Comparison> {
  const forward = forwardPlan(before.facts, after.facts, again);
  const changes = inPlace(
    forwardChanges(before.facts, forward, again, steps, owner),
    forward,
    before.identity,
    after.identity,
  );
  const back = planBack(after, before);
  const hasRows = await tablesWithRows(session, back.plan, before.facts, after.identity);
  const wrong = dropsOfKept(back.plan, after.identity, before.identity).join(', ');
  const { statements, leftOut } = rollbackStatements(back.plan, after.facts, before.facts, hasRows);
  const script = [...steps.map(({ undo }) => undo), ...statements];
  const partial = back.leftAsIs.join(', ');
  return {
    section: {
      ...common,
      changes,
      unmodeled: compareUnmodeled(before.unmodeled, after.unmodeled),
      rollbackSql:
        wrong === '' && (partial === '' || script.length > 0)
          ? script.map((sql) => `${sql};\n`).join('')
          : null,
      rollbackLoses: [
        ...back.leftAsIs.map((name) => `${name}: changed in place by a statement that has no opposite`),
        ...leftOut,
        ...losses(before, after, back.plan.deltas),
      ],
    },
    dropped: dropped(before.facts, after.facts, forward.deltas),
    definitions: definitionsBetween(before, after, forward),
    retyped: retypedColumns(forward.deltas, after.facts),
    caveats: [...(partial === '' ? [] : caveatsOf(partial)), ...notCompared(after)],
  };
}

function definitionsBetween(before: Snapshot, after: Snapshot, { deltas }: Plan): DefinitionFacts {
  const definitions = formerDefinitions(before.facts, after.facts, deltas);
  const properties = changedProperties(before.unmodeled, after.unmodeled);
  return { ...definitions, ...properties, retyped: retypedColumns(deltas, after.facts) };
}

function caveatsOf(wrong: string): Caveat[] {
  const reason = `it leaves ${wrong} as changed, since it would have to drop what the command changed in place`;
  const shownAs = `${wrong}: changed in place, and shown as the statements that would re-create it`;
  return [
    { path: 'schema.rollbackSql', kind: 'estimate', reason },
    { path: 'schema.changes', kind: 'estimate', reason: shownAs },
  ];
}

function compareByNames({ before, after }: Pair, common: Common, owner: string, why: string): Comparison {
  const reason = `renames were not taken back for it (${why}), so the comparison goes by names`;
  const forward = planBetween(before.facts, after.facts);
  return {
    section: {
      ...common,
      changes: inPlace(changesOf(forward, owner), forward, before.identity, after.identity),
      unmodeled: compareUnmodeled(before.unmodeled, after.unmodeled),
      rollbackSql: null,
      rollbackLoses: losses(before, after, []),
    },
    dropped: dropped(before.facts, after.facts, forward.deltas),
    definitions: definitionsBetween(before, after, forward),
    retyped: retypedColumns(forward.deltas, after.facts),
    caveats: [
      { path: 'schema.changes', kind: 'estimate', reason },
      { path: 'schema.rollbackSql', kind: 'unmeasured', reason },
      ...notCompared(after),
    ],
  };
}

function notCompared({ unmodeled }: Snapshot): Caveat[] {
  const options = unknownColumnOptions(unmodeled);
  if (options.length === 0) return [];
  const reason = `${plural(options.length, 'column option')} that safemigrate does not know (${options.join(', ')}): not compared`;
  return [{ path: 'schema.unmodeled', kind: 'unmeasured', reason }];
}

/** The changes from one schema to that of another database, by names alone. */
export function changesBetween(before: Snapshot, other: Snapshot): SchemaChange[] {
  const pair = affectedPair(before, other);
  return changesOf(planBetween(pair.before.facts, pair.after.facts), '');
}

interface Recreated {
  readonly object: Identified;
  readonly id: Extract<StableId, { schema: string; name: string }>;
}

/** Objects with the same name and another OID: a comparison by names finds no difference, and yet every row or value is gone. */
function recreated(before: CatalogueIdentity, base: CatalogueIdentity): Recreated[] {
  const made = [...base.values()].filter(
    ({ kind, key }) => (kind === 'table' || kind === 'column') && !before.has(key),
  );
  // To build the paths of all objects would take longer than the comparison itself.
  const names = new Set(made.map(({ name }) => name));
  const placeOf = (object: Identified, identity: CatalogueIdentity) =>
    JSON.stringify([object.kind, path(object, identity)]);
  const were = new Set(
    [...before.values()].filter(({ name }) => names.has(name)).map((object) => placeOf(object, before)),
  );
  const found = made.filter((object) => were.has(placeOf(object, base)));
  const tables = new Set(found.filter(({ kind }) => kind === 'table').map(({ key }) => key));
  return found
    .filter((object) => !(object.within && tables.has(object.within)))
    .map((object): Recreated => {
      const [schema = '', table = '', column] = path(object, base);
      if (column === undefined) return { object, id: { kind: 'table', schema, name: table } };
      return { object, id: { kind: 'column', schema, table, name: column } };
    });
}

/** Counts an object that was dropped and created again under its name as new. */
function forwardPlan(before: FactBase, base: FactBase, again: readonly Recreated[]): Plan {
  const ids = again.map(({ id }) => id);
  return planBetween(ids.length === 0 ? before : without(before, ids), base);
}

function forwardChanges(
  before: FactBase,
  forward: Plan,
  again: readonly Recreated[],
  steps: readonly Step[],
  owner: string,
): SchemaChange[] {
  const drops = again.flatMap(({ id }) => changesOf(planBetween(before, without(before, [id])), owner));
  const changes = changesOf(forward, owner);
  const renames = steps.toReversed().map(
    ({ kind, object, redo }): SchemaChange => ({
      verb: redoVerb(redo),
      kind,
      object,
      sql: redo,
      dataLoss: false,
    }),
  );
  return [...drops.filter(({ dataLoss }) => dataLoss), ...changes, ...renames];
}

const redoVerb = (sql: string) => (/ (ATTACH|DETACH) PARTITION /.test(sql) ? 'alter' : 'rename');
