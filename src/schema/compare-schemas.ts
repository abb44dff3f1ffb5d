import { createHash } from 'node:crypto';
import { messageOf, sqlstateOf } from '../errors.ts';
import type { DroppedFacts } from '../model/hazard-facts.ts';
import type { Caveat, SchemaChange, SchemaSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { changesOf, described, planBetween } from './changes.ts';
import { dropped } from './dropped.ts';
import type { CatalogueIdentity, Identified } from './identity.ts';
import { dropsOfKept, inPlace } from './in-place.ts';
import { label, path } from './object-names.ts';
import { changedObjects } from './objects.ts';
import { encodeId, type FactBase, type Plan, type StableId } from './pg-delta.ts';
import { leftovers } from './probe-leftovers.ts';
import { without } from './reduce.ts';
import { keptObjects, type Step } from './renames.ts';
import { type Retyped, retypedColumns } from './retyped.ts';
import { losses, wayBack } from './rollback-sql.ts';
import { type Snapshot, snapshotAfter, takeSnapshot } from './schema-facts.ts';
import { compareUnmodeled, unmodeledContent } from './unmodeled.ts';

export interface Comparison {
  readonly section: SchemaSection;
  /** By kind and name, as the section's changes have them. */
  readonly dropped: ReadonlyMap<string, DroppedFacts>;
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
  const { steps, common, unrenamed } = inspect(before, await takeSnapshot(session), owner);
  if (unrenamed) return compareBy(before, unrenamed, { steps, common, owner });
  if (inUse) return compareByNames(before, await takeSnapshot(session), common, owner, OTHERS_WORK_HERE);
  try {
    const after = await snapshotAfter(
      session,
      steps.map(({ undo }) => undo),
    );
    return compareBy(before, after, { steps, common, owner });
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return compareByNames(before, await takeSnapshot(session), common, owner, messageOf(error));
  }
}

const OTHERS_WORK_HERE = 'others would have waited for its locks';

/** The part of the section that describes the schema under its present names. */
type Common = Omit<SchemaSection, 'changes' | 'unmodeled' | 'rollbackSql' | 'rollbackLoses'>;

interface Inspection {
  readonly steps: readonly Step[];
  readonly common: Common;
  /** The schema after the command, if nothing was renamed: otherwise it is read again, and this reading need not be kept in memory. */
  readonly unrenamed: Snapshot | null;
}

function inspect(before: Snapshot, after: Snapshot, owner: string): Inspection {
  const { steps, renames } = keptObjects(before.identity, after.identity);
  const common = {
    before: fingerprint(before),
    after: fingerprint(after),
    renames,
    leftovers: leftovers(before.identity, after.identity),
    ...changedObjects(before, after, owner),
  };
  return { steps, common, unrenamed: steps.length === 0 ? after : null };
}

/** @param after under the names of before. */
function compareBy(
  before: Snapshot,
  after: Snapshot,
  { steps, common, owner }: { steps: readonly Step[]; common: Common; owner: string },
): Comparison {
  const again = recreated(before.identity, after.identity);
  const forward = forwardPlan(before.facts, after.facts, again);
  const changes = inPlace(
    forwardChanges(before.facts, forward, again, steps, owner),
    forward,
    before.identity,
    after.identity,
  );
  const back = planBetween(after.facts, before.facts);
  const wrong = dropsOfKept(back, after.identity, before.identity).join(', ');
  const statements = [...steps.map(({ undo }) => undo), ...wayBack(back, after.facts, before.facts)];
  return {
    section: {
      ...common,
      changes,
      unmodeled: compareUnmodeled(before.unmodeled, after.unmodeled),
      rollbackSql: wrong === '' ? statements.map((sql) => `${sql};\n`).join('') : null,
      rollbackLoses: losses(before, after, back.deltas),
    },
    dropped: dropped(before.facts, after.facts, forward.deltas),
    retyped: retypedIn(forward),
    caveats: wrong === '' ? [] : caveatsOf(wrong),
  };
}

function retypedIn({ deltas }: Plan): Retyped[] {
  return retypedColumns(deltas, (id) => described(id).object);
}

function caveatsOf(wrong: string): Caveat[] {
  const reason = `it would have to drop ${wrong}, which the command changed in place`;
  const shownAs = `${wrong}: changed in place, and shown by the statements that would make it anew`;
  return [
    { path: 'schema.rollbackSql', kind: 'unmeasured', reason },
    { path: 'schema.changes', kind: 'estimate', reason: shownAs },
  ];
}

function compareByNames(
  before: Snapshot,
  after: Snapshot,
  common: Common,
  owner: string,
  why: string,
): Comparison {
  const reason = `renames were not taken back for it (${why}), so the comparison goes by names`;
  const forward = planBetween(before.facts, after.facts);
  return {
    section: {
      ...common,
      changes: changesOf(forward, owner),
      unmodeled: compareUnmodeled(before.unmodeled, after.unmodeled),
      rollbackSql: null,
      rollbackLoses: losses(before, after, []),
    },
    dropped: dropped(before.facts, after.facts, forward.deltas),
    retyped: retypedIn(forward),
    caveats: [
      { path: 'schema.changes', kind: 'estimate', reason },
      { path: 'schema.rollbackSql', kind: 'unmeasured', reason },
    ],
  };
}

/** The changes from one schema to that of another database, by names alone. */
export function changesBetween(before: Snapshot, other: Snapshot): SchemaChange[] {
  return changesOf(planBetween(before.facts, other.facts), '');
}

interface Recreated {
  readonly object: Identified;
  readonly id: Extract<StableId, { schema: string; name: string }>;
}

/** Same name, another OID: a comparison by names finds no difference, and yet every row or value is gone. */
function recreated(before: CatalogueIdentity, base: CatalogueIdentity): Recreated[] {
  const made = [...base.values()].filter(
    ({ kind, key }) => (kind === 'table' || kind === 'column') && !before.has(key),
  );
  // The paths of everything would take longer than the comparison itself.
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

/** What was made anew under its old name counts as new. */
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
