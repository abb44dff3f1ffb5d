import { movedBetween } from '../database/server-identity.ts';
import { listed, plural } from '../format.ts';
import type { SeenCommand, TargetChange, TargetStates } from './attribute-changes.ts';
import { isServerQuiet, keyOfVisitor, newSessions, passingDatabases, visitorsOf } from './server-activity.ts';
import { writtenFiles } from './server-files.ts';
import { compareShared } from './shared-changes.ts';

/**
 * Accounts for what a command could have done to the target's server outside of the target, unless it was confined: in other
 * databases, where the server counts sessions too, and to the server's processes and files.
 * @returns changes; `unproved`: why it is not proved that the command left the server alone; `untraced`: more such reasons, for if
 * there is no other, since what is unproved by itself may be the cause of these.
 */
export function accountForServer(states: TargetStates, seen: SeenCommand, target: number) {
  const { start, after } = states;
  const ran = seen.ranUnseen.map(
    (tag): TargetChange => ({
      what: `the server ran ${tag}`,
      madeBy: 'command',
      evidence: 'a session of the command got this answer',
    }),
  );
  // Another server has files, counters and settings of its own.
  if (start.server && after.server && movedBetween(start.server, after.server) !== undefined)
    return { changes: ran, unproved: [], untraced: [] };
  const files = changedFiles(states, seen);
  if (seen.confined) return { changes: files, unproved: [], untraced: [] };
  return {
    changes: [...ran, ...files, ...reload(states, seen)],
    unproved: [
      ...ownSessionsElsewhere(seen),
      ...unseenElsewhere(states, seen, target),
      ...relayedElsewhere(states, seen),
      ...ended(states, seen),
      ...resetCounters(states, seen, target),
    ],
    untraced: [...unseenReplication(states, seen, target), ...strayConnections(seen)],
  };
}

const WHILE = 'while the command ran';

/** Finds written files, which need no session. Those of changed settings are listed with the settings (attributeChanges). */
function changedFiles(states: TargetStates, seen: SeenCommand): TargetChange[] {
  const { before, start, after } = states;
  const settings = [
    ...compareShared(before.shared, start.shared),
    ...compareShared(start.shared, after.shared),
  ].map(({ object }) => object.file);
  const names = writtenFiles(start.files, after.files).filter((name) => !settings.includes(name));
  return names.map((name) => changeOfServer(`configuration file ${name} written`, states, seen));
}

/** Nor does a signal to its processes. */
function reload(states: TargetStates, seen: SeenCommand): TargetChange[] {
  const [start, after] = [states.start.accounts, states.after.accounts];
  if ('unmeasured' in start || 'unmeasured' in after || start.configuredAt === after.configuredAt) return [];
  // A restart also reads them again, but the run notices that by its lost connections.
  if (states.start.server?.startedAt !== states.after.server?.startedAt) return [];
  return [changeOfServer('the server read its configuration files again', states, seen)];
}

function changeOfServer(what: string, states: TargetStates, seen: SeenCommand): TargetChange {
  const evidence = `it happened ${WHILE}, and nothing shows by whom`;
  return isServerQuiet(states, seen)
    ? { what, madeBy: 'unknown', evidence }
    : { what, madeBy: 'unproved', evidence: `${evidence}; others were connected to the server` };
}

function ownSessionsElsewhere({ elsewhere, ownDatabases }: SeenCommand): string[] {
  const own = elsewhere.filter(({ process, name }) => process !== null && !ownDatabases.includes(name));
  const names = [...new Set(own.map(({ name }) => name))];
  if (names.length === 0) return [];
  const databases = `${names.length === 1 ? 'the database' : 'the databases'} ${listed(names)}`;
  return [
    `${own[0]?.process} connected to ${databases} of the target's server by itself: that is no part of the rehearsal`,
  ];
}

/**
 * Sessions in other databases matter only if a process of this machine may have connected: others come to a server with several
 * databases all the time.
 */
function unseenElsewhere(states: TargetStates, seen: SeenCommand, target: number): string[] {
  if (!seen.mayHaveDialled) return [];
  const came = betweenReadings(states, seen).flatMap(({ oid, name, first, last }) => {
    if (oid === target) return [];
    const here = seen.elsewhere.filter(({ database, isWalsender }) => database === oid && !isWalsender);
    const known = new Set(here.map(({ key }) => key));
    for (const visitor of visitorsOf(states.after.accounts))
      if (visitor.database === oid && !visitor.isWalsender && isLater(visitor.startedAt, states))
        known.add(keyOfVisitor(visitor));
    const unseen = newSessions(first, last) - known.size;
    return unseen > 0 ? [{ name, unseen }] : [];
  });
  if (came.length === 0) return [];
  const count = came.reduce((sum, { unseen }) => sum + unseen, 0);
  return [
    `${plural(count, 'session')} came to other databases of the server (${namesOf(came)}) ${WHILE} and ended before ` +
      `${count === 1 ? 'it was' : 'they were'} seen, and this machine may have opened ${count === 1 ? 'it' : 'them'}`,
  ];
}

/** Returns doubts about relays in other databases: rows written by a session that is still open may not be counted yet. */
function relayedElsewhere(states: TargetStates, seen: SeenCommand): string[] {
  const written = new Set(writtenDatabases(states, seen).map(({ oid }) => oid));
  const there = new Set(visitorsOf(states.after.accounts).map(keyOfVisitor));
  const relays = seen.elsewhere.flatMap(({ relay, key, database }) =>
    relay !== null && (written.has(database) || there.has(key)) ? [relay] : [],
  );
  if (relays.length === 0) return [];
  return [
    `the command may have worked in other databases of the server through ${listed([...new Set(relays)])}, which opened a ` +
      'session there and accepts connections',
  ];
}

/** Lists the databases in which rows were written. */
function writtenDatabases(states: TargetStates, seen: SeenCommand) {
  return betweenReadings(states, seen).filter(({ first, last }) => last.rowsWritten > first.rowsWritten);
}

/**
 * A connection for replication over a Unix socket leaves no trace but the blocks that it used, which servers count from version 16
 * on. Where others replicate, or on an older server, it may have written what was written in other databases; for the target itself
 * accountForSessions() asks who was there.
 */
function unseenReplication(states: TargetStates, seen: SeenCommand, target: number): string[] {
  const [start, after] = [states.start.accounts, states.after.accounts];
  if (!seen.mayReplicateUnseen || 'unmeasured' in start || 'unmeasured' in after) return [];
  const isKnown =
    seen.walsenders.length > 0 ||
    seen.elsewhere.some(({ isWalsender }) => isWalsender) ||
    [...start.visitors, ...after.visitors].some(({ isWalsender }) => isWalsender);
  const used = after.walsenderBlocks !== null && after.walsenderBlocks !== start.walsenderBlocks;
  if (used && !isKnown)
    return [
      `a connection for replication was made ${WHILE} and ended before it was seen, and nothing shows by whom`,
    ];
  if (after.walsenderBlocks !== null && !isKnown) return [];
  const written = writtenDatabases(states, seen).filter(({ oid }) => oid !== target);
  if (written.length === 0) return [];
  return [
    `rows were written in ${namesOf(written)} ${WHILE}, and the command may have done it over a connection for replication: ` +
      "the target's Unix sockets are open to it, and the server does not count such connections",
  ];
}

/** Connections that were seen by their ports alone: failed logins, or for replication. */
function strayConnections({ stray }: SeenCommand): string[] {
  if (stray === 0) return [];
  return [
    `${plural(stray, 'connection')} of this machine to the target's server ${stray === 1 ? 'belongs' : 'belong'} to no session ` +
      'that was seen, and may have been for replication, which the server does not count',
  ];
}

function isLater(startedAt: string | null, { start }: TargetStates): boolean {
  if (startedAt === null || 'unmeasured' in start.accounts) return false;
  return Date.parse(startedAt) > Date.parse(start.accounts.at);
}

/** pg_terminate_backend() and a signal look alike, and need no session of the command's own. */
function ended(states: TargetStates, seen: SeenCommand): string[] {
  const found = betweenReadings(states, seen).flatMap(({ oid, name, first, last }) => {
    const byUs = seen.targetConnections.filter((each) => each.ended && oid === states.start.oid).length;
    const count = last.terminated - first.terminated - byUs;
    return count > 0 ? [{ name, count }] : [];
  });
  const count = found.reduce((sum, each) => sum + each.count, 0);
  if (count === 0) return [];
  return [
    `${plural(count, 'session')} in ${namesOf(found)} ${count === 1 ? 'was' : 'were'} terminated ${WHILE}, and nothing shows by whom`,
  ];
}

const LISTED = 3;

function namesOf(databases: readonly { readonly name: string }[]): string {
  return listed(
    databases.map(({ name }) => name),
    { atMost: LISTED },
  );
}

/** Returns the databases whose counters were reset, which hides earlier changes there. */
function resetCounters(states: TargetStates, seen: SeenCommand, target: number): string[] {
  const reset = betweenReadings(states, seen).filter(
    ({ oid, first, last }) => oid !== target && first.resetAt !== last.resetAt,
  );
  return reset.length === 0 ? [] : [`the statistics of ${namesOf(reset)} were reset ${WHILE}`];
}

/** The counters of each database that lasts. */
function betweenReadings({ start, after }: TargetStates, seen: SeenCommand) {
  const [one, other] = [start.accounts, after.accounts];
  if ('unmeasured' in one || 'unmeasured' in other) return [];
  const passing = passingDatabases([start, after], seen);
  return [...one.databases].flatMap(([oid, first]) => {
    const last = other.databases.get(oid);
    return last === undefined || passing.has(oid) ? [] : [{ oid, name: first.name, first, last }];
  });
}
