import { createHash } from 'node:crypto';
import type { FactBase, StableId } from '@supabase/pg-delta/core';
import type { Plan } from '@supabase/pg-delta/plan';
import { messageOf, sqlstateOf } from '../errors.ts';
import type { DroppedFacts } from '../judge/facts.ts';
import type { Limit, SchemaChange, SchemaSection } from '../report/model.ts';
import type { Session } from '../target/session.ts';
import { changesOf, described, planBetween, statementsOf } from './changes.ts';
import { dropped } from './dropped.ts';
import { type Helper, rootsOf, type Snapshot, snapshotAfter, takeSnapshot } from './facts.ts';
import type { Identified, Identity } from './identity.ts';
import { leftovers } from './leftovers.ts';
import { label, path } from './names.ts';
import { changedObjects } from './objects.ts';
import { without } from './reduce.ts';
import { keptObjects, type Step } from './renames.ts';
import { type Retyped, retypedColumns } from './retyped.ts';
import { compareUnmodeled, unmodeledContent } from './unmodeled.ts';
import { dropsOfKept, losses } from './way-back.ts';

export interface Comparison {
  readonly section: SchemaSection;
  /** By kind and name, as the section's changes have them. */
  readonly dropped: ReadonlyMap<string, DroppedFacts>;
  readonly retyped: readonly Retyped[];
  readonly limits: Limit[];
}

const fingerprints = new WeakMap<Snapshot, string>();

/** Equal for two databases that hold the same schema, whatever their OIDs are. Computed once for each snapshot. */
export function fingerprint(snapshot: Snapshot): string {
  const known = fingerprints.get(snapshot) ?? computeFingerprint(snapshot);
  fingerprints.set(snapshot, known);
  return known;
}

function computeFingerprint({ facts, unmodeled, identity }: Snapshot): string {
  const invalid = [...identity.values()]
    .filter(({ valid }) => !valid)
    .map((object) => label(object, identity));
  const content = [
    ...rootsOf(facts).map(({ id, hash }) => `${id}=${hash}`),
    ...unmodeledContent(unmodeled),
    ...invalid.map((name) => `not valid: ${name}`),
  ];
  return createHash('sha256').update(content.sort().join('\n')).digest('hex');
}

/**
 * Compares the session's database, as it is now, with what it was.
 * Renames are taken back in a transaction that is rolled back; where that fails the comparison goes by names alone,
 * has no way back, and says so in its limits.
 * @param inUse renames are not taken back: others would wait for the locks of that.
 */
export async function compareWith(
  earlier: Snapshot | LateSnapshot,
  session: Session,
  helper?: Helper,
  inUse = false,
): Promise<Comparison> {
  const [who] = await session.query<{ owner: string }>('select current_user::text as owner');
  const owner = who?.owner ?? '';
  const { before, steps, seen, unchanged } = await look(earlier, session, owner, helper);
  if (unchanged) return compareBy({ before, base: unchanged, steps, seen, owner });
  if (inUse) return compareByNames(before, await takeSnapshot(session), seen, owner, OTHERS_WORK_HERE);
  const undo = steps.map((step) => step.undo);
  try {
    return compareBy({ before, base: await snapshotAfter(session, undo), steps, seen, owner });
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return compareByNames(before, await takeSnapshot(session), seen, owner, messageOf(error));
  }
}

/** One that is still to be worked up, which stalls the thread. */
export interface LateSnapshot {
  /** Begins with it. Idempotent. */
  readonly begin: () => void;
  readonly snapshot: Promise<Snapshot>;
}

const OTHERS_WORK_HERE = 'others would have waited for its locks';

interface Seen {
  readonly before: string;
  readonly after: string;
  readonly renames: SchemaSection['renames'];
  readonly objects: SchemaSection['objects'];
  readonly objectsLeftOut: SchemaSection['objectsLeftOut'];
  readonly leftovers: SchemaSection['leftovers'];
}

/** A function of its own, so that the facts are free again when they are to be read a third time. */
async function look(
  earlier: Snapshot | LateSnapshot,
  session: Session,
  owner: string,
  helper: Helper | undefined,
): Promise<{ before: Snapshot; steps: Step[]; seen: Seen; unchanged: Snapshot | undefined }> {
  const late = 'begin' in earlier ? earlier : undefined;
  const after = await takeSnapshot(session, helper, late?.begin);
  const before = 'begin' in earlier ? await earlier.snapshot : earlier;
  const { steps, renames } = keptObjects(before.identity, after.identity);
  const seen = {
    before: fingerprint(before),
    after: fingerprint(after),
    renames,
    ...changedObjects(before, after, owner),
    leftovers: leftovers(before.identity, after.identity),
  };
  return { before, steps, seen, unchanged: steps.length === 0 ? after : undefined };
}

interface Sides {
  readonly before: Snapshot;
  /** The schema after, under the names of before. */
  readonly base: Snapshot;
  readonly steps: readonly Step[];
  readonly seen: Seen;
  readonly owner: string;
}

function compareBy({ before, base, steps, seen, owner }: Sides): Comparison {
  const again = recreated(before.identity, base.identity);
  const forward = forwardPlan(before.facts, base.facts, again);
  const changes = forwardChanges(before.facts, forward, again, steps, owner);
  const back = planBetween(base.facts, before.facts);
  const wrong = dropsOfKept(back, base.identity, before.identity).join(', ');
  const statements = [...steps.map(({ undo }) => undo), ...statementsOf(back)];
  return {
    section: {
      ...seen,
      changes,
      unmodeled: compareUnmodeled(before.unmodeled, base.unmodeled),
      rollbackSql: wrong === '' ? statements.map((sql) => `${sql};\n`).join('') : null,
      rollbackLoses: losses(before, base, back.deltas),
    },
    dropped: dropped(before.facts, base.facts, forward.deltas),
    retyped: retypedIn(forward),
    limits: wrong === '' ? [] : limitsOf(wrong),
  };
}

function retypedIn({ deltas }: Plan): Retyped[] {
  return retypedColumns(deltas, (id) => described(id).object);
}

function limitsOf(wrong: string): Limit[] {
  const reason = `it would have to drop ${wrong}, which the command changed in place`;
  const shownAs = `${wrong}: changed in place, and shown as dropped and created`;
  return [
    { path: 'schema.rollbackSql', kind: 'unmeasured', reason },
    { path: 'schema.changes', kind: 'estimate', reason: shownAs },
  ];
}

function compareByNames(
  before: Snapshot,
  after: Snapshot,
  seen: Seen,
  owner: string,
  why: string,
): Comparison {
  const reason = `renames were not taken back for it (${why}), so the comparison goes by names`;
  const forward = planBetween(before.facts, after.facts);
  return {
    section: {
      ...seen,
      changes: changesOf(forward, owner),
      unmodeled: compareUnmodeled(before.unmodeled, after.unmodeled),
      rollbackSql: null,
      rollbackLoses: losses(before, after, []),
    },
    dropped: dropped(before.facts, after.facts, forward.deltas),
    retyped: retypedIn(forward),
    limits: [
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
  readonly id: StableId;
}

/** Same name, another OID: a comparison by names finds no difference, and yet every row or value is gone. */
function recreated(before: Identity, base: Identity): Recreated[] {
  const holders = new Map<string, string>();
  const holdsRows = ({ kind }: Identified) => kind === 'table' || kind === 'column';
  for (const object of before.values())
    if (holdsRows(object)) holders.set(JSON.stringify([object.kind, path(object, before)]), object.key);
  const found = [...base.values()].filter((object) => {
    if (!holdsRows(object) || before.has(object.key)) return false;
    return holders.has(JSON.stringify([object.kind, path(object, base)]));
  });
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
