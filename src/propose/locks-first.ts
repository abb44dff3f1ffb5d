import type { HazardContext } from '../hazards/hazard-context.ts';
import { LOCK_MODES, type LockMode } from '../postgres/lock-modes.ts';
import type { Unit } from './kept-statements.ts';

interface Needed {
  /** By its name before the command. */
  readonly relation: string;
  readonly mode: LockMode;
}

/**
 * Returns the statements that take all locks of a transaction at its beginning, in the order in which the application was seen to take
 * them, or else in that of the transaction. null: it locks fewer than two tables, or something that LOCK TABLE does not take.
 */
export function locksFirst(context: HazardContext, unit: Unit): string[] | null {
  const needed = new Map<string, LockMode>();
  for (const { section } of unit)
    for (const { relation, mode } of context.taken(section, 'writes')) {
      if (context.relation(relation)?.kind === 'materialized view') return null;
      const name = context.former(relation);
      needed.set(name, stronger(needed.get(name), mode));
    }
  if (needed.size < 2) return null;
  const ordered = inApplicationsOrder(
    context,
    [...needed].map(([relation, mode]) => ({ relation, mode })),
  );
  return inFewStatements(ordered).map(
    ({ mode, relations }) =>
      `LOCK TABLE ${relations.map((name) => `ONLY ${name}`).join(', ')} IN ${mode} MODE`,
  );
}

function stronger(one: LockMode | undefined, other: LockMode): LockMode {
  return one === undefined || LOCK_MODES.indexOf(other) > LOCK_MODES.indexOf(one) ? other : one;
}

/** Takes next the first table before which the application takes none of the rest. */
function inApplicationsOrder(
  { facts: { recorded = [] } }: HazardContext,
  given: readonly Needed[],
): Needed[] {
  const isBefore = (one: Needed, other: Needed) =>
    recorded.some(({ relations, unordered }) => {
      const [at, otherAt] = [relations.indexOf(one.relation), relations.indexOf(other.relation)];
      const isSeen = !unordered.some((pair) => pair.includes(one.relation) && pair.includes(other.relation));
      return at >= 0 && otherAt >= 0 && at < otherAt && isSeen;
    });
  const rest = [...given];
  const ordered: Needed[] = [];
  while (rest.length > 0) {
    const at = rest.findIndex((one) => !rest.some((other) => other !== one && isBefore(other, one)));
    ordered.push(...rest.splice(Math.max(at, 0), 1));
  }
  return ordered;
}

/** Groups neighbours of one mode. Several ACCESS EXCLUSIVE locks are taken by one statement, with all that are between them. */
function inFewStatements(ordered: readonly Needed[]): { mode: LockMode; relations: string[] }[] {
  const modes = ordered.map(({ mode }) => mode);
  const [from, to] = [modes.indexOf('ACCESS EXCLUSIVE'), modes.lastIndexOf('ACCESS EXCLUSIVE')];
  const groups: { mode: LockMode; relations: string[] }[] = [];
  for (const [at, { relation, mode }] of ordered.entries()) {
    const own = at >= from && at <= to ? 'ACCESS EXCLUSIVE' : mode;
    const last = groups.at(-1);
    if (last?.mode === own) last.relations.push(relation);
    else groups.push({ mode: own, relations: [relation] });
  }
  return groups;
}
