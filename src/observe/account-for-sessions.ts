import type { ServerAccounts, Visitor } from '../database/read-accounts.ts';
import type { TrafficReading } from '../database/traffic.ts';
import { formatCount, plural } from '../format.ts';
import type { TargetConnection, TargetSection } from '../model/report.ts';
import type { TargetChange, TargetStates } from './attribute-changes.ts';
import { isServerQuiet, type SeenSessions, visitorsOf } from './server-activity.ts';
import type { TargetState } from './target-state.ts';

/**
 * Accounts for every session that came to the target while the command could have connected. A connection that lives shorter
 * than the interval at which sessions are listed is not seen, but the server counts it. Each session is ours, the command's
 * or somebody else's because it was seen; the rest is unexplained, and then the target is not proved to be unchanged.
 */
export interface Account {
  /** null if the server's counters say nothing; `unproved` gives the reason. */
  readonly sessions: TargetSection['sessions'];
  /** Rows on the target that only the command can have written, or whose author is not known. */
  readonly changes: readonly TargetChange[];
  /** Why it is not proved that the command left the target alone; none if it is. */
  readonly unproved: readonly string[];
}

export function accountForSessions(states: TargetStates, seen: SeenSessions, target: number): Account {
  const { start, after } = states;
  const counted = countSessions(start, after, seen, target);
  if (typeof counted === 'string') {
    if (seen.confined) return { sessions: null, unproved: [], changes: [] };
    const unproved = [`whose sessions came to the target while the command ran is not known: ${counted}`];
    return { sessions: null, unproved, changes: contactChanges('not known', seen, false) };
  }
  const rows = writtenRows(start, after);
  const wasAlone = counted.others + counted.unexplained === 0 && !hasOthers(states, seen, target);
  const changes = contactChanges(rows, seen, wasAlone);
  if (counted.unexplained === 0) return { sessions: counted, changes, unproved: [] };
  const came =
    `${plural(counted.unexplained, 'session')} came to the target while the command ran and ended before ` +
    `${counted.unexplained === 1 ? 'it was' : 'they were'} seen`;
  if (seen.targetConnections.length === 0 && isWritten(rows) && isServerQuiet(states, seen))
    return {
      sessions: counted,
      changes: [
        { what: wordsOf(rows), madeBy: 'unknown', evidence: `${came}, and no other session was connected` },
      ],
      unproved: [],
    };
  return { sessions: counted, changes, unproved: [`${came}: ${consequence(rows)}`] };
}

function consequence(rows: Written): string {
  if (rows === 'not known') return 'whether they wrote rows is not known';
  return isWritten(rows)
    ? `${wordsOf(rows)}, perhaps by others`
    : "the target's counters show no written row, but not whose they were";
}

type Counted = NonNullable<TargetSection['sessions']>;

/** @returns the reason if the counters say nothing. */
function countSessions(
  start: TargetState,
  after: TargetState,
  seen: SeenSessions,
  target: number,
): Counted | string {
  const [one, other] = [start.accounts, after.accounts];
  if ('unmeasured' in one) return one.unmeasured;
  if ('unmeasured' in other) return other.unmeasured;
  const [first, last] = [one.databases.get(target), other.databases.get(target)];
  if (!first || !last) return 'the target has no statistics';
  if (!one.isCurrent || !other.isCurrent) return 'the server published no current statistics within 2 s';
  if (first.resetAt !== last.resetAt || start.server?.startedAt !== after.server?.startedAt)
    return "the server's statistics were reset";
  const came = last.sessions - first.sessions;
  if (came < 0) return "the server's statistics were reset";
  const ours = last.ownSessions - first.ownSessions;
  const command = seen.targetConnections.length;
  const others = seen.confined
    ? Math.max(0, came - ours - command)
    : new Set([...seen.others, ...newcomers(one, other, target)]).size;
  return { ours, command, others, unexplained: Math.max(0, came - ours - command - others) };
}

/** Those who are still there at the end, with an address of their own. */
function newcomers(start: ServerAccounts, after: ServerAccounts, target: number): string[] {
  return after.visitors
    .filter(({ database, client }) => database === target && client !== null)
    .filter(({ startedAt }) => startedAt !== null && Date.parse(startedAt) > Date.parse(start.at))
    .map(keyOfVisitor);
}

function keyOfVisitor({ pid, startedAt }: Visitor): string {
  return `${pid} ${startedAt}`;
}

/** Whether somebody else was in the target before or after the command ran; sessions of the command's own do not count. */
function hasOthers(
  { start, after }: TargetStates,
  { targetConnections }: SeenSessions,
  target: number,
): boolean {
  return [start, after].some(({ accounts }) =>
    visitorsOf(accounts).some(
      ({ database, startedAt }) =>
        database === target && targetConnections.every(({ connectedAt }) => connectedAt !== startedAt),
    ),
  );
}

interface TableRows {
  readonly relation: string;
  readonly rows: number;
}

/** What was written in the target between two readings by everybody who has left since. */
type Written = 'not known' | { readonly tables: readonly TableRows[]; readonly more: readonly string[] };

function writtenRows(start: TargetState, after: TargetState): Written {
  const [one, other] = [start.accounts, after.accounts];
  if ('unmeasured' in one || 'unmeasured' in other || !one.countsRows || !other.countsRows)
    return 'not known';
  if ('unmeasured' in start.traffic || 'unmeasured' in after.traffic) return 'not known';
  // Their rows are counted when they are committed.
  if (other.prepared > one.prepared) return 'not known';
  return {
    tables: rowsBetween(start.traffic, after.traffic),
    more: [
      ...(other.largeObjectRows > one.largeObjectRows ? ['large objects were written'] : []),
      ...(other.sequenceAccesses > one.sequenceAccesses ? ['sequences were used'] : []),
    ],
  };
}

function rowsBetween(
  { relations: before }: TrafficReading,
  { relations: after }: TrafficReading,
): TableRows[] {
  return [...after].flatMap(([relation, now]) => {
    const then = before.get(relation);
    const rows = (['inserted', 'updated', 'deleted'] as const).reduce(
      (sum, kind) => sum + Math.max(0, now[kind] - (then?.[kind] ?? 0)),
      0,
    );
    return rows > 0 ? [{ relation, rows }] : [];
  });
}

function isWritten(rows: Written): boolean {
  return rows !== 'not known' && rows.tables.length + rows.more.length > 0;
}

const LISTED = 3;

function wordsOf(rows: Written): string {
  if (rows === 'not known') return 'rows may have been written: whether they were is not known';
  const { tables, more } = rows;
  const shown = tables.toSorted((one, other) => other.rows - one.rows).slice(0, LISTED);
  const rest = tables.length > LISTED ? [`some of ${formatCount(tables.length - LISTED)} other tables`] : [];
  const counts = [...shown.map(({ relation, rows }) => `${formatCount(rows)} of ${relation}`), ...rest];
  return [...(counts.length === 0 ? [] : [`rows were written (${counts.join(', ')})`]), ...more].join('; ');
}

/** A session of the command's on the target changed it unless its counters show that nothing was written. */
function contactChanges(
  rows: Written,
  { targetConnections: [first] }: { readonly targetConnections: readonly TargetConnection[] },
  wasAlone: boolean,
): TargetChange[] {
  if (!first || (rows !== 'not known' && !isWritten(rows))) return [];
  const who = `${first.process.command} connected to the target as ${first.user ?? 'an unknown user'}`;
  const isProved = wasAlone && rows !== 'not known';
  const evidence = isProved
    ? `${who}, and no other session was there`
    : `${who}; others may have written them too`;
  return [{ what: wordsOf(rows), madeBy: isProved ? 'command' : 'unknown', evidence }];
}
