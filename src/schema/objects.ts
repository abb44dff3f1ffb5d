import { plural } from '../format.ts';
import type { SchemaObject, SchemaSection } from '../model/report.ts';
import { described } from './changes.ts';
import { definition } from './definition.ts';
import { path } from './identity.ts';
import { ownerOf } from './metadata.ts';
import { type Delta, diff, encodeId, type Fact, type FactBase, type StableId } from './pg-delta.ts';
import type { Snapshot } from './schema-facts.ts';

/** Kinds that are shown as part of the object that contains them. */
const PARTS: ReadonlySet<StableId['kind']> = new Set([
  ...(['column', 'default', 'constraint', 'index', 'trigger', 'rule', 'policy', 'typeAttribute'] as const),
  ...(['publicationRel', 'publicationSchema', 'comment', 'acl', 'securityLabel'] as const),
]);
/** Kinds that belong to the cluster. */
const SHARED: ReadonlySet<StableId['kind']> = new Set(['role', 'membership']);

const MOST_OBJECTS = 500;
/** The limits of one definition; a longer one says how much it leaves out. */
const MOST_LINES = 1_000;
const MOST_CHARACTERS = 100_000;
const MOST_CHARACTERS_IN_ALL = 2_000_000;

interface Pair {
  readonly before: Fact | undefined;
  readonly after: Fact | undefined;
}

/**
 * Shows every object that the command changed, completely, as it was and as it is, each time under its name at that moment:
 * renames are not taken back here.
 * @param owner the role that owns new objects unless a statement names another.
 */
export function changedObjects(
  before: Snapshot,
  after: Snapshot,
  owner: string,
): Required<Pick<SchemaSection, 'objects' | 'objectsLeftOut'>> {
  const objects: SchemaObject[] = [];
  let [characters, leftOut] = [0, 0];
  for (const pair of pairs(before, after).toSorted(byName)) {
    if (objects.length === MOST_OBJECTS || characters > MOST_CHARACTERS_IN_ALL) {
      leftOut += 1;
      continue;
    }
    const object = objectOf(pair, before.facts, after.facts, owner);
    if (object.before === object.after) continue;
    objects.push(object);
    characters += (object.before?.length ?? 0) + (object.after?.length ?? 0);
  }
  return { objects, objectsLeftOut: leftOut };
}

const HASH_CHARACTERS = 12;

/** A hash of each object, by its kind and name: those of two databases show which objects differ. */
export function objectHashes({ facts }: Pick<Snapshot, 'facts'>): Record<string, string> {
  const whole = facts.facts().filter(({ id }) => !PARTS.has(id.kind) && !SHARED.has(id.kind));
  return Object.fromEntries(
    whole.map(({ id }) => {
      const { kind, object } = described(id);
      // A schema's own hash would cover all that is in it.
      const hash = id.kind === 'schema' ? '' : facts.rollupOf(id).slice(0, HASH_CHARACTERS);
      return [`${kind} ${object}`, hash];
    }),
  );
}

function objectOf({ before, after }: Pair, then: FactBase, now: FactBase, owner: string): SchemaObject {
  const [ownerThen, ownerNow] = [before && ownerOf(then, before.id), after && ownerOf(now, after.id)];
  // The owner is shown on both sides if it changed.
  const implied = before && after ? (ownerThen === ownerNow ? ownerNow : undefined) : owner;
  const formerly = before && after ? described(before.id).object : null;
  const { kind, object } = described((after ?? before)?.id ?? NOTHING);
  return {
    verb: before === undefined ? 'create' : after === undefined ? 'drop' : 'alter',
    kind,
    object,
    formerly: formerly === object ? null : formerly,
    before: before ? bounded(definition(then, before, implied)) : null,
    after: after ? bounded(definition(now, after, implied, before)) : null,
  };
}

const NOTHING: StableId = { kind: 'schema', name: '' };

function byName(one: Pair, other: Pair): number {
  const nameOf = ({ before, after }: Pair) => {
    const { kind, object } = described((after ?? before)?.id ?? NOTHING);
    return `${object} ${kind}`;
  };
  const [first, second] = [nameOf(one), nameOf(other)];
  return first < second ? -1 : Number(first > second);
}

function pairs(before: Snapshot, after: Snapshot): Pair[] {
  const [then, now] = [new Map<string, Fact>(), new Map<string, Fact>()];
  for (const delta of diff(before.facts, after.facts)) {
    const id = subjectOf(delta);
    if (!id) continue;
    for (const [base, found] of [[before.facts, then] as const, [after.facts, now] as const]) {
      const whole = wholeOf(id, base);
      if (whole && !SHARED.has(whole.id.kind)) found.set(encodeId(whole.id), whole);
    }
  }
  const former = formerNames(before, after, [...now.values()]);
  const taken = new Set([...former.values()].map(({ id }) => encodeId(id)));
  const made = [...now].map(([key, fact]): Pair => {
    const renamed = former.get(key);
    return { after: fact, before: renamed ?? (taken.has(key) ? undefined : before.facts.get(fact.id)) };
  });
  const kept = new Set(made.flatMap((pair) => (pair.before ? [encodeId(pair.before.id)] : [])));
  const gone = [...then].filter(([key]) => !kept.has(key));
  return [...made, ...gone.map(([, fact]): Pair => ({ before: fact, after: undefined }))].filter(
    (pair) => !comesWithExtension(pair, before.facts, after.facts),
  );
}

/** undefined for a dependency, which is not part of a definition. */
function subjectOf(delta: Delta): StableId | undefined {
  if (delta.verb === 'set') return delta.id;
  if (delta.verb === 'add' || delta.verb === 'remove') return delta.fact.id;
  return delta.edge.kind === 'owner' ? delta.edge.from : undefined;
}

function wholeOf(id: StableId, base: FactBase): Fact | undefined {
  let fact = base.get(id);
  while (fact && PARTS.has(fact.id.kind)) fact = fact.parent && base.get(fact.parent);
  return fact;
}

/** The former facts of renamed and moved objects, by the encoded id that these have now. */
function formerNames(before: Snapshot, after: Snapshot, changed: readonly Fact[]): Map<string, Fact> {
  const former = new Map<string, Fact>();
  const byPath = new Map<string, Fact[]>();
  for (const fact of changed) {
    const place = placeOf(described(fact.id).kind, namesOf(fact.id));
    byPath.set(place, [...(byPath.get(place) ?? []), fact]);
  }
  // To build the paths of all objects would take longer than the rest of this function.
  const names = new Set(changed.map(({ id }) => namesOf(id).at(-1)));
  for (const object of after.identity.values()) {
    const known = names.has(object.name) ? before.identity.get(object.key) : undefined;
    if (!known) continue;
    const facts = byPath.get(placeOf(object.kind, path(object, after.identity)));
    if (!facts) continue;
    const [first = '', second] = path(known, before.identity);
    for (const { id } of facts) {
      const name = second === undefined ? { name: first } : { schema: first, name: second };
      const then = before.facts.get({ ...id, ...name } as StableId);
      if (then && encodeId(then.id) !== encodeId(id)) former.set(encodeId(id), then);
    }
  }
  return former;
}

const placeOf = (kind: string, names: readonly string[]) => JSON.stringify([kind, ...names]);

function namesOf(id: StableId): string[] {
  const name = 'name' in id ? id.name : '';
  return 'schema' in id && id.schema !== null ? [id.schema, name] : [name];
}

function comesWithExtension({ before, after }: Pair, then: FactBase, now: FactBase): boolean {
  if (before && after) return false;
  const [base, fact] = after ? [now, after] : [then, before];
  return fact !== undefined && base.outgoingEdges(fact.id).some(({ kind }) => kind === 'memberOfExtension');
}

/** Keeps or drops whole clauses: redaction would not recognise half a literal. */
function bounded(clauses: readonly string[]): string {
  const kept: string[] = [];
  let [lines, characters, hidden] = [0, 0, 0];
  for (const clause of clauses) {
    const count = clause.split('\n').length;
    if (lines + count > MOST_LINES || characters + clause.length > MOST_CHARACTERS) hidden += count;
    else {
      kept.push(clause);
      lines += count;
      characters += clause.length;
    }
  }
  return [...kept, ...(hidden === 0 ? [] : [`-- not shown: ${plural(hidden, 'more line')}`])].join('\n');
}
