import type { ServerAccounts, Visitor } from '../database/read-accounts.ts';
import type { TrafficReading } from '../database/traffic.ts';
import { formatCount, listed, plural } from '../format.ts';
import type { TargetConnection, TargetSection } from '../model/report.ts';
import type { TargetChange, TargetStates } from './attribute-changes.ts';
import { isServerQuiet, keyOfVisitor, type SeenSessions, visitorsOf } from './server-activity.ts';
import { type TargetState, writtenCatalogues } from './target-state.ts';

/**
 * Accounts for every session that came to the target while the command could have connected. A connection that lives shorter
 * than the interval at which sessions are listed is not seen, but the server counts it. Each session is ours, the command's
 * or somebody else's because it was seen; the rest is unexplained, and then the target is not proved to be unchanged.
 *
 * The server does not count connections for replication, and a session that was there before may serve the command (a pooler's). So
 * the rows that were written are compared as well: somebody must have been there who can have written them.
 * @returns `sessions`: null if the server's counters say nothing; `changes`: rows on the target that only the command can have written,
 * or whose author is not known; `unproved`: why it is not proved that the command left the target alone; `othersInTarget`: others had a
 * session there, and none of those who were there may have worked for the command.
 */
export function accountForSessions(states: TargetStates, seen: SeenSessions, target: number) {
  const { start, after } = states;
  const counted = countSessions(states, seen, target);
  if (seen.confined) {
    const sessions = typeof counted === 'string' ? null : counted;
    return { sessions, changes: [], unproved: [], othersInTarget: true };
  }
  if (typeof counted === 'string') {
    const reason = `whose sessions came to the target while the command ran is not known: ${counted}`;
    const changes = contactChanges('not known', seen, false);
    return { sessions: null, changes, unproved: [reason], othersInTarget: false };
  }
  const rows = writtenRows(start, after);
  const relays = suspectRelays(states, seen);
  const present = hasOthers(states, seen, target);
  const isExplained = counted.unexplained === 0 && relays.length === 0;
  const wasAlone = counted.others + counted.unexplained === 0 && !present;
  const found = {
    sessions: counted,
    changes: contactChanges(rows, seen, wasAlone),
    othersInTarget: present && isExplained,
  };
  if (seen.targetConnections.length === 0 && isWritten(rows) && isServerQuiet(states, seen)) {
    const evidence =
      counted.unexplained > 0
        ? `${cameUnexplained(counted, seen)}, and no other session was connected`
        : 'no session was connected that the server counts';
    const changes: TargetChange[] = [{ what: wordsOf(rows), madeBy: 'unknown', evidence }];
    return { ...found, changes, unproved: [] };
  }
  const unproved = [
    ...(counted.unexplained > 0 ? [`${cameUnexplained(counted, seen)}: ${consequence(rows)}`] : []),
    ...throughRelays(relays, rows),
    ...(isExplained && !present && found.changes.length === 0 ? withoutAuthor(rows) : []),
  ];
  return { ...found, unproved };
}

const LISTED = 3;

function cameUnexplained({ unexplained }: Counted, { doubtful }: SeenSessions): string {
  const unseen = Math.max(0, unexplained - doubtful.length);
  const parts = [
    ...(unseen > 0
      ? [
          `${plural(unseen, 'session')} came to the target while the command ran and ended before ` +
            `${unseen === 1 ? 'it was' : 'they were'} seen`,
        ]
      : []),
    ...(doubtful.length > 0
      ? [
          `nothing shows whether ${plural(doubtful.length, 'new session')} on the target came from the command ` +
            `(${doubtful
              .slice(0, LISTED)
              .map(({ who }) => who)
              .join('; ')})`,
        ]
      : []),
  ];
  return parts.join(', and ');
}

function throughRelays(relays: SeenSessions['relayed'], rows: Written): string[] {
  if (relays.length === 0) return [];
  const names = listed([...new Set(relays.map((each) => each.process))], { atMost: LISTED });
  const what = isWritten(rows) ? wordsOf(rows) : 'the target was used';
  return [
    `${what}, and the command may have done it through ${names}, which works in the target and accepts connections`,
  ];
}

/** The server counts no connection for replication. */
function withoutAuthor(rows: Written): string[] {
  return isWritten(rows) || rows === 'not known'
    ? [`${wordsOf(rows)}, and no session was in the target that is known to have written them`]
    : [];
}

function consequence(rows: Written): string {
  if (rows === 'not known') return 'whether they wrote rows is not known';
  return isWritten(rows)
    ? `${wordsOf(rows)}, perhaps by others`
    : "the target's counters show no written row, but not whose they were";
}

type Counted = NonNullable<TargetSection['sessions']>;

/** @returns the reason if the counters say nothing. */
function countSessions(states: TargetStates, seen: SeenSessions, target: number): Counted | string {
  const { start, after } = states;
  const [one, other] = [start.accounts, after.accounts];
  if ('unmeasured' in one) return one.unmeasured;
  if ('unmeasured' in other) return other.unmeasured;
  const [first, last] = [one.databases.get(target), other.databases.get(target)];
  if (!first || !last) return 'the target has no statistics';
  if (!one.isCurrent || !other.isCurrent) return 'the server published no current statistics within 2 s';
  if (first.resetAt !== last.resetAt || start.server?.startedAt !== after.server?.startedAt)
    return "the server's statistics were reset";
  const grown = last.sessions - first.sessions;
  if (grown < 0) return "the server's statistics were reset";
  const later = newcomers(one, other, target);
  const uncounted = new Set([
    ...seen.walsenders,
    ...later.filter(({ isWalsender }) => isWalsender).map(keyOfVisitor),
  ]);
  const came = grown + uncounted.size;
  const ours = last.ownSessions - first.ownSessions;
  const command = seen.targetConnections.length;
  const doubtful = new Set(seen.doubtful.map(({ key }) => key));
  const known = [...seen.others, ...seen.relayed.filter(({ isOlder }) => !isOlder).map(({ key }) => key)];
  const others = seen.confined
    ? Math.max(0, came - ours - command)
    : new Set([...known, ...later.map(keyOfVisitor).filter((key) => !doubtful.has(key))]).size;
  return { ours, command, others, unexplained: Math.max(0, came - ours - command - others) };
}

/** Lists the new sessions that are still there at the end and have an address. */
function newcomers(start: ServerAccounts, after: ServerAccounts, target: number): Visitor[] {
  return after.visitors
    .filter(({ database, client }) => database === target && client !== null)
    .filter(({ startedAt }) => startedAt !== null && Date.parse(startedAt) > Date.parse(start.at));
}

/** Tells if another session was in the target that is not doubted: neither the command's nor one that may serve it. */
function hasOthers(states: TargetStates, seen: SeenSessions, target: number): boolean {
  const { targetConnections, others, doubtful, relayed } = seen;
  const doubted = new Set([...doubtful, ...relayed].map(({ key }) => key));
  const isOther = (visitor: Visitor) =>
    visitor.database === target &&
    !doubted.has(keyOfVisitor(visitor)) &&
    targetConnections.every(({ connectedAt }) => connectedAt !== visitor.startedAt);
  return (
    others.length > 0 ||
    [states.start, states.after].some(({ accounts }) => visitorsOf(accounts).some(isOther))
  );
}

/**
 * Relays through which the command may have written. A session that is still there publishes what it counted up to 10 s after
 * its last statement (on version 14 with the next one), so that nothing shows that it wrote nothing.
 */
function suspectRelays({ start, after }: TargetStates, { relayed }: SeenSessions): SeenSessions['relayed'] {
  const rows = writtenRows(start, after);
  if (rows === 'not known' || isWritten(rows) || writtenCatalogues(start, after).length > 0) return relayed;
  const there = new Set(visitorsOf(after.accounts).map(keyOfVisitor));
  return relayed.filter(({ key }) => there.has(key));
}

/** Rows written in the target between two readings by sessions that have ended since. */
type Written =
  | 'not known'
  | { readonly tables: ReturnType<typeof rowsBetween>; readonly more: readonly string[] };

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

function rowsBetween({ relations: before }: TrafficReading, { relations: after }: TrafficReading) {
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
