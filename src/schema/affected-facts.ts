import { buildFactBase, type Delta, diff, encodeId, type FactBase, type StableId } from './pg-delta.ts';

/** Kinds that nearly every object refers to. An unchanged one does not affect what refers to it. */
const HUBS: ReadonlySet<StableId['kind']> = new Set(['schema', 'role', 'extension']);
/** Kinds whose parts are needed with them: an expression that uses a domain, for example, evaluates its constraints. */
const NEEDED_WHOLE: ReadonlySet<StableId['kind']> = new Set([
  ...(['domain', 'type', 'publication', 'server', 'fdw', 'subscription'] as const),
]);

/**
 * Cuts two fact bases down to what their difference can affect: the objects that differ, whatever depends on these
 * (transitively), and what all of them refer to. pg-delta visits every fact several times to plan a difference: for one column
 * among 10,000 tables it takes 0.1 s of processor time with this function, and 4.2 s and 130 MB more without it.
 * @param also objects that count as different although their facts are equal.
 */
export function affectedFacts(
  a: FactBase,
  b: FactBase,
  also: readonly StableId[] = [],
): { a: FactBase; b: FactBase } {
  const bases = [a, b];
  const affected = dependents(bases, [...diff(a, b).map(subjectOf), ...also]);
  const kept = withRequirements(bases, [...affected, ...bases.flatMap(rootsOf)]);
  return { a: part(a, kept), b: part(b, kept) };
}

function subjectOf(delta: Delta): StableId {
  if (delta.verb === 'set') return delta.id;
  return 'fact' in delta ? delta.fact.id : delta.edge.from;
}

/** The changed objects, what contains them, and what depends on any of these. */
function dependents(bases: readonly FactBase[], changed: readonly StableId[]): StableId[] {
  const isChanged = new Set(changed.map(encodeId));
  const found = new Map<string, StableId>();
  const waiting = [...changed];
  for (let id = waiting.pop(); id; id = waiting.pop()) {
    const key = encodeId(id);
    if (found.has(key)) continue;
    found.set(key, id);
    if (HUBS.has(id.kind) && !isChanged.has(key)) continue;
    for (const base of bases) {
      const parent = base.get(id)?.parent;
      if (parent) waiting.push(parent);
      if (id.kind !== 'schema') for (const child of base.childrenOf(id)) waiting.push(child.id);
      if (id.kind !== 'role') for (const { from } of base.incomingEdges(id)) waiting.push(from);
    }
  }
  return [...found.values()];
}

/** Schemas, roles and the like with their comments and privileges: a plan may name any of them. */
function rootsOf(base: FactBase): StableId[] {
  return base
    .roots()
    .flatMap(({ id }) => [
      id,
      ...base.childrenOf(id).flatMap((child) => ('target' in child.id ? [child.id] : [])),
    ]);
}

/** The encoded ids of these objects, of what contains them and of what they refer to. */
function withRequirements(bases: readonly FactBase[], ids: readonly StableId[]): Set<string> {
  const kept = new Set<string>();
  const waiting = [...ids];
  for (let id = waiting.pop(); id; id = waiting.pop()) {
    const key = encodeId(id);
    if (kept.has(key)) continue;
    kept.add(key);
    for (const base of bases) {
      const fact = base.getByEncoded(key);
      if (!fact) continue;
      if (fact.parent) waiting.push(fact.parent);
      for (const { to } of base.outgoingEdges(id)) waiting.push(to);
      if (NEEDED_WHOLE.has(id.kind)) for (const child of base.childrenOf(id)) waiting.push(child.id);
    }
  }
  return kept;
}

function part(base: FactBase, kept: ReadonlySet<string>): FactBase {
  const facts = base.facts().filter(({ id }) => kept.has(encodeId(id)));
  const edges = facts.flatMap(({ id }) =>
    base.outgoingEdges(id).filter(({ to }) => kept.has(encodeId(to)) && base.has(to)),
  );
  return buildFactBase(facts, edges, base.source);
}

/** A fact base without some facts and their parts. */
export function without(base: FactBase, ids: readonly StableId[]): FactBase {
  const gone = new Set<string>();
  const waiting = [...ids];
  for (let id = waiting.pop(); id; id = waiting.pop()) {
    gone.add(encodeId(id));
    for (const child of base.childrenOf(id)) waiting.push(child.id);
  }
  const stays = (id: StableId) => !gone.has(encodeId(id));
  return buildFactBase(
    base.facts().filter(({ id }) => stays(id)),
    base.edges.filter(({ from, to }) => stays(from) && stays(to)),
    base.source,
  );
}
