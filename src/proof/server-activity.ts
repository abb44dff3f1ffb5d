import type { DatabaseAccount, Visitor } from '../database/read-accounts.ts';
import { parseOwnedName } from '../ownership/mark.ts';
import type { SeenCommand, TargetStates } from './attribute-changes.ts';
import type { TargetState } from './target-state.ts';

export type SeenSessions = Pick<
  SeenCommand,
  'targetConnections' | 'others' | 'relayed' | 'doubtful' | 'walsenders' | 'ownDatabases' | 'confined'
>;

/** No session but ours was seen in any database that lasts, and no session came to one before the command ran. */
export function isServerQuiet({ before, start, after }: TargetStates, seen: SeenSessions): boolean {
  if (seen.others.length + seen.relayed.length > 0) return false;
  const passing = passingDatabases([before, start, after], seen);
  const isListed = [start, after].some(({ accounts }) =>
    visitorsOf(accounts).some(({ database }) => !passing.has(database)),
  );
  return !isListed && (unexplainedSessions(before, start, passing) ?? 0) === 0;
}

/** Tells if sessions that may be the command's came to a lasting database while it could have connected; null: not known. */
export function hasNewSessions(states: TargetStates, seen: SeenSessions, target: number): boolean | null {
  if (seen.confined) return false;
  const { start, after } = states;
  const passing = passingDatabases([start, after], seen);
  const came = unexplainedSessions(start, after, passing.add(target));
  return came === null ? null : came > 0;
}

/** Sessions that we did not open, in all databases but some; null if the counters do not say. */
function unexplainedSessions(
  one: TargetState,
  other: TargetState,
  without: ReadonlySet<number>,
): number | null {
  const [first, last] = [one.accounts, other.accounts];
  if ('unmeasured' in first || 'unmeasured' in last || !first.isCurrent || !last.isCurrent) return null;
  let sum = 0;
  for (const [oid, then] of first.databases) {
    const now = last.databases.get(oid);
    if (!now || without.has(oid)) continue;
    const came = newSessions(then, now);
    if (came < 0 || then.resetAt !== now.resetAt) return null;
    sum += came;
  }
  return sum;
}

/** Counts the sessions between two readings that we did not open. */
export function newSessions(first: DatabaseAccount, last: DatabaseAccount): number {
  return last.sessions - first.sessions - (last.ownSessions - first.ownSessions);
}

/** Databases of this run or of another one, which end with it. */
export function passingDatabases(
  states: readonly TargetState[],
  { ownDatabases }: Pick<SeenSessions, 'ownDatabases'>,
): Set<number> {
  const all = states.flatMap(({ accounts }) => ('unmeasured' in accounts ? [] : [...accounts.databases]));
  const passing = all.filter(
    ([, { name }]) => parseOwnedName(name) !== undefined || ownDatabases.includes(name),
  );
  return new Set(passing.map(([oid]) => oid));
}

/** `pid start`: the exact time of the beginning tells a process id from a later one. */
export function keyOfVisitor({ pid, startedAt }: Visitor): string {
  return `${pid} ${startedAt}`;
}

export function visitorsOf(accounts: TargetState['accounts']): readonly Visitor[] {
  return 'unmeasured' in accounts ? [] : accounts.visitors;
}
