import { buildFactBase, type Delta, encodeId, type FactBase, type StableId } from './pg-delta.ts';

/** Kinds that nearly everything refers to: what refers to an unchanged one of these is not looked at. */
export const HUBS: ReadonlySet<string> = new Set(['schema', 'role', 'extension']);
/** What an expression that uses one of these may evaluate hangs below it, not beside it. */
const WHOLE = new Set(['domain', 'type', 'publication', 'server', 'fdw', 'subscription']);

/**
 * Cuts two fact bases down to what their difference can touch: the objects that differ, whatever depends on these
 * (transitively), and what all of them refer to. Planning visits every fact several times, and at 10,000 tables that
 * costs seconds and hundreds of megabytes for a difference of one column.
 */
export function reduce(a: FactBase, b: FactBase, deltas: readonly Delta[]): { a: FactBase; b: FactBase } {
  const kept = new Set<string>();
  const full = new Set<string>();
  const changed: StableId[] = [];
  for (const delta of deltas) {
    if (delta.verb === 'set') changed.push(delta.id);
    else if ('fact' in delta) changed.push(delta.fact.id);
    else changed.push(delta.edge.from);
  }
  for (const base of [a, b]) {
    for (const fact of base.roots()) {
      support(fact.id);
      for (const child of base.childrenOf(fact.id)) if ('target' in child.id) support(child.id);
    }
  }
  for (const id of changed) touch(id, true);
  return { a: part(a), b: part(b) };

  function touch(first: StableId, isChanged: boolean): void {
    const waiting = [{ id: first, isChanged }];
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      const { id } = next;
      const key = encodeId(id);
      if (full.has(key)) continue;
      support(id);
      if (HUBS.has(id.kind) && !next.isChanged) continue;
      full.add(key);
      for (const base of [a, b]) {
        const parent = base.get(id)?.parent;
        if (parent) waiting.push({ id: parent, isChanged: false });
        if (id.kind !== 'schema')
          for (const child of base.childrenOf(id)) waiting.push({ id: child.id, isChanged: false });
        if (id.kind !== 'role')
          for (const { from } of base.incomingEdges(id)) waiting.push({ id: from, isChanged: false });
      }
    }
  }

  function support(first: StableId): void {
    const waiting = [first];
    for (let id = waiting.pop(); id; id = waiting.pop()) {
      const key = encodeId(id);
      if (kept.has(key)) continue;
      kept.add(key);
      for (const base of [a, b]) {
        const fact = base.getByEncoded(key);
        if (!fact) continue;
        if (fact.parent) waiting.push(fact.parent);
        for (const { to } of base.outgoingEdges(id)) waiting.push(to);
        if (WHOLE.has(id.kind)) for (const child of base.childrenOf(id)) waiting.push(child.id);
      }
    }
  }

  function part(base: FactBase): FactBase {
    const facts = base.facts().filter(({ id }) => kept.has(encodeId(id)));
    const present = new Set(facts.map(({ id }) => encodeId(id)));
    const edges = facts.flatMap(({ id }) =>
      base.outgoingEdges(id).filter(({ to }) => present.has(encodeId(to))),
    );
    return buildFactBase(facts, edges, base.source);
  }
}

/** A fact base without some facts and all that hangs below them. */
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
