import { createHash } from 'node:crypto';
import { encodeId, type FactBase, type StableId } from '@supabase/pg-delta/core';
import type { Plan } from '@supabase/pg-delta/plan';
import { messageOf, sqlstateOf } from '../errors.ts';
import type { DroppedFacts } from '../model/hazard-facts.ts';
import type { Caveat, SchemaChange, SchemaSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { contentOfRelations, narrowed, withoutRelations } from './affected-relations.ts';
import { changesOf, described, planBetween } from './changes.ts';
import { dropped } from './dropped.ts';
import { factsFrom } from './extraction.ts';
import type { CatalogueIdentity, Identified } from './identity.ts';
import { dropsOfKept, inPlace } from './in-place.ts';
import { label, path } from './object-names.ts';
import { changedObjects } from './objects.ts';
import { leftovers } from './probe-leftovers.ts';
import { without } from './reduce.ts';
import { keptObjects, type Step } from './renames.ts';
import { type Retyped, retypedColumns } from './retyped.ts';
import { losses, wayBack } from './rollback-sql.ts';
import { type Helper, type Side, type Snapshot, snapshotAfter, takeSnapshot } from './schema-facts.ts';
import { compareUnmodeled, unmodeledContent } from './unmodeled.ts';

export interface Comparison {
  readonly section: SchemaSection;
  /** By kind and name, as the section's changes have them. */
  readonly dropped: ReadonlyMap<string, DroppedFacts>;
  readonly retyped: readonly Retyped[];
  readonly caveats: Caveat[];
}

const fingerprints = new WeakMap<Snapshot, Promise<string>>();

/** Equal for two databases that hold the same schema, whatever their OIDs are. Computed once for each snapshot. */
export function fingerprint(snapshot: Snapshot): Promise<string> {
  const known = fingerprints.get(snapshot) ?? computeFingerprint(snapshot);
  fingerprints.set(snapshot, known);
  return known;
}

async function computeFingerprint({ answers, unmodeled, identity }: Snapshot): Promise<string> {
  const facts = await factsFrom(withoutRelations(answers));
  // Roles belong to the cluster: another database's migration may make one.
  const roots = facts.roots().filter(({ id }) => id.kind !== 'role' && id.kind !== 'membership');
  const invalid = [...identity.values()].filter(({ valid }) => !valid);
  const hash = createHash('sha256');
  for (const content of [
    roots.map(({ id }) => `${encodeId(id)}=${facts.rollupOf(id)}`).sort(),
    contentOfRelations(answers),
    unmodeledContent(unmodeled),
    invalid.map((object) => `not valid: ${label(object, identity)}`).sort(),
  ])
    hash.update(content.map((line) => `${line}\n`).join(''));
  return hash.digest('hex');
}

export interface CompareOptions {
  readonly helper?: Helper;
  /** Renames are not taken back: others would wait for the locks of that. */
  readonly inUse?: boolean;
  /** Called when the schema has been read; renames, if there are any, are still to be taken back. */
  readonly onRead?: () => void;
  /** Called when the session is not needed any more, before what takes long without it. */
  readonly leave?: () => Promise<void>;
}

/**
 * Compares the session's database, as it is now, with what it was.
 * Renames are taken back in a transaction that is rolled back; where that fails the comparison goes by names alone,
 * has no way back, and says so in its limits.
 */
export async function compareWith(
  before: Snapshot,
  session: Session,
  options: CompareOptions = {},
): Promise<Comparison> {
  const [who] = await session.query<{ owner: string }>('select current_user::text as owner');
  const owner = who?.owner ?? '';
  const seen = await look(before, session, owner, options);
  if ('comparison' in seen) return seen.comparison;
  const byNames = async (why: string) => {
    const after = await takeSnapshot(session);
    await options.leave?.();
    return compareByNames(before, after, seen.section, owner, why);
  };
  if (options.inUse) return await byNames(OTHERS_WORK_HERE);
  const { steps, section } = seen;
  try {
    const undo = steps.map((step) => step.undo);
    const base = await snapshotAfter(session, undo, before);
    await options.leave?.();
    return await ofPair(before, base, (pair) => compareBy(pair, { steps, section, owner }));
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return await byNames(messageOf(error));
  }
}

const OTHERS_WORK_HERE = 'others would have waited for its locks';

/** What is told of the schema as it is, under the names that it has now. */
type Seen = Omit<SchemaSection, 'changes' | 'unmodeled' | 'rollbackSql' | 'rollbackLoses'>;

/** Without renames that is all: then what was read is compared at once. */
async function look(
  before: Snapshot,
  session: Session,
  owner: string,
  { helper, onRead, leave }: CompareOptions,
): Promise<{ comparison: Comparison } | { steps: Step[]; section: Seen }> {
  const after = await takeSnapshot(session, {
    helper,
    since: before,
    meanwhile: () => {
      // Whether it fails is seen when it is needed.
      fingerprint(before).catch(() => {});
    },
  });
  onRead?.();
  const { steps, renames } = keptObjects(before.identity, after.identity);
  if (steps.length === 0) await leave?.();
  const known = {
    before: await fingerprint(before),
    after: await fingerprint(after),
    renames,
    leftovers: leftovers(before.identity, after.identity),
  };
  const seen = (pair: Pair) => ({ ...known, ...changedObjects(pair.before, pair.after, owner) });
  if (steps.length > 0) return { steps, section: await ofPair(before, after, seen) };
  const compare = (pair: Pair) => compareBy(pair, { steps, section: seen(pair), owner });
  return { comparison: await ofPair(before, after, compare) };
}

interface Pair {
  readonly before: Side;
  /** Under the names of before, where they are compared by them. */
  readonly after: Side;
  readonly again: readonly Recreated[];
}

/** Both, with the facts of what their difference can touch. */
async function ofPair<T>(before: Snapshot, after: Snapshot, compare: (pair: Pair) => T): Promise<T> {
  const again = recreated(before.identity, after.identity);
  const withFacts = async (answers: ReturnType<typeof narrowed>): Promise<Pair> => ({
    before: { ...before, facts: await factsFrom(answers.before) },
    after: { ...after, facts: await factsFrom(answers.after) },
    again,
  });
  const ids = again.map(({ id }) => id);
  try {
    return compare(await withFacts(narrowed(before.answers, after.answers, ids)));
  } catch {
    // These facts miss a requirement of the plan: the whole ones have it, or fail for a reason of their own.
    return compare(await withFacts({ before: before.answers, after: after.answers }));
  }
}

interface Told {
  readonly steps: readonly Step[];
  readonly section: Seen;
  readonly owner: string;
}

function compareBy({ before, after, again }: Pair, { steps, section, owner }: Told): Comparison {
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
      ...section,
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
  section: Seen,
  owner: string,
  why: string,
): Promise<Comparison> {
  const reason = `renames were not taken back for it (${why}), so the comparison goes by names`;
  return ofPair(before, after, (pair) => {
    const forward = planBetween(pair.before.facts, pair.after.facts);
    return {
      section: {
        ...section,
        changes: changesOf(forward, owner),
        unmodeled: compareUnmodeled(before.unmodeled, after.unmodeled),
        rollbackSql: null,
        rollbackLoses: losses(before, after, []),
      },
      dropped: dropped(pair.before.facts, pair.after.facts, forward.deltas),
      retyped: retypedIn(forward),
      caveats: [
        { path: 'schema.changes', kind: 'estimate', reason },
        { path: 'schema.rollbackSql', kind: 'unmeasured', reason },
      ],
    };
  });
}

/** The changes from one schema to that of another database, by names alone. */
export function changesBetween(before: Snapshot, other: Snapshot): Promise<SchemaChange[]> {
  return ofPair(before, other, (pair) => changesOf(planBetween(pair.before.facts, pair.after.facts), ''));
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
