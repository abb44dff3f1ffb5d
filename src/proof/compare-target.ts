import { movedBetween } from '../database/server-identity.ts';
import { type TargetTraffic, trafficBetween } from '../database/traffic.ts';
import { isUnmeasured, measuredOrReason, type Unmeasured } from '../measured.ts';
import type { Caveat, SchemaChange, TargetSection } from '../model/report.ts';
import { accountForServer } from './account-for-server.ts';
import { accountForSessions } from './account-for-sessions.ts';
import { attributeChanges, type SeenCommand, type TargetStates } from './attribute-changes.ts';
import { hasNewSessions, isServerQuiet } from './server-activity.ts';
import { readTargetState, type TargetState, type WatchOptions, writtenCatalogues } from './target-state.ts';

export interface TargetComparison extends Pick<TargetSection, 'changes' | 'unchanged' | 'sessions'> {
  /** The target's traffic since `before`; the reason where it could not be read. */
  readonly traffic: TargetTraffic | Unmeasured;
  /** In words, where another server was asked the second time. */
  readonly moved?: string | undefined;
  readonly caveats: Caveat[];
}

/**
 * Reads the target once more, and says what changed there, who did it, and what the target was used for since `before`.
 * @param describeTarget says what the target has different from the clone before the command; called only if something was written.
 */
export async function compareTarget(
  options: WatchOptions,
  { before, start }: Omit<TargetStates, 'after'>,
  command: SeenCommand,
  describeTarget: () => Promise<readonly SchemaChange[]> = async () => [],
): Promise<TargetComparison> {
  const after = await measuredOrReason(() => readTargetState(options));
  if (isUnmeasured(after)) {
    const reason = `the target could not be read again: ${after.unmeasured}`;
    return {
      changes: [],
      unchanged: null,
      sessions: null,
      traffic: { unmeasured: reason },
      caveats: [{ path: 'target.changes', kind: 'unmeasured', reason }],
    };
  }
  const isWritten = writtenCatalogues(before, after).length > 0;
  const targetChanges = isWritten ? await describeTarget().catch(() => []) : [];
  const states = { before, start, after };
  const found = proveUnchanged(states, targetChanges, command, options.target.database.oid);
  const unread = [...(after.digest === 'gone' ? [] : after.digest.unread), ...after.shared.unread];
  const caveats = [
    ...found.caveats,
    ...unread.map((reason): Caveat => ({ path: 'target.changes[]', kind: 'unmeasured', reason })),
  ];
  const moved = before.server && after.server ? movedBetween(before.server, after.server) : undefined;
  if (moved === undefined) return { ...found, traffic: sampledTraffic([before, start], after), caveats };
  const reason = `${moved}: what had not reached it by then is reported as a change`;
  return {
    ...found,
    unchanged: found.unchanged === false ? false : null,
    // Each server counts statements for itself.
    traffic: { unmeasured: moved },
    moved,
    caveats: [...caveats, { path: 'target.changes', kind: 'estimate', reason }],
  };
}

/** Says what changed and who did it, and whether it is proved that the command left the target alone. */
function proveUnchanged(
  states: TargetStates,
  targetChanges: readonly SchemaChange[],
  command: SeenCommand,
  target: number,
): Pick<TargetComparison, 'changes' | 'unchanged' | 'sessions' | 'caveats'> {
  const account = accountForSessions(states, command, target);
  const server = accountForServer(states, command, target);
  const traced = [...account.unproved, ...server.unproved];
  const suspects = {
    others: !isServerQuiet(states, command),
    othersInTarget: account.othersInTarget,
    noStranger:
      account.sessions?.unexplained === 0 &&
      command.stray + command.relayed.length === 0 &&
      hasNewSessions(states, command, target) === false,
  };
  const attributed = attributeChanges(states, targetChanges, command, suspects);
  const changes = [...attributed, ...account.changes, ...server.changes];
  const isChanged = changes.some(({ madeBy }) => madeBy === 'command' || madeBy === 'unknown');
  const unproved = [
    ...(traced.length > 0 ? traced : server.untraced),
    ...unprovedChanges(changes),
    ...whileRunning(command),
    ...whatIsNotKnown(command, suspects.others),
  ];
  return {
    changes,
    sessions: account.sessions,
    unchanged: isChanged ? false : unproved.length === 0 || null,
    caveats: unproved.map((reason) => ({ path: 'target.unchanged', kind: 'unmeasured', reason })),
  };
}

const LISTED = 3;

/** In one line, however many they are: a busy server has many. */
function unprovedChanges(changes: TargetSection['changes']): string[] {
  const open = changes.filter(({ madeBy }) => madeBy === 'unproved').map(({ what }) => what);
  if (open.length === 0) return [];
  const more = open.length > LISTED ? `, and ${open.length - LISTED} more` : '';
  return [
    `others were active on the server, and nothing shows whether they or the command made this: ` +
      `${open.slice(0, LISTED).join(', ')}${more}`,
  ];
}

/** Returns a doubt if a process of the command still runs: it may connect to the target after the last reading. */
function whileRunning({ leftRunning }: SeenCommand): string[] {
  const [first] = leftRunning;
  if (!first) return [];
  const more = leftRunning.length > 1 ? ` and ${leftRunning.length - 1} more` : '';
  return [
    `the command left a process running, ${first.command} (pid ${first.pid})${more}, which may still connect to the target`,
  ];
}

/**
 * Returns a doubt after code that is not known to be harmless. A role without powers changes nothing unseen but in the target's server the
 * sessions of others: any role may end its own.
 */
function whatIsNotKnown({ notKnown, mayActUnseen }: SeenCommand, others: boolean): string[] {
  if (notKnown === null) return [];
  const { what, reaches } = notKnown;
  const isShared = reaches === "the target's server";
  if (!mayActUnseen && !(isShared && others)) return [];
  const proof = isShared ? 'a clone in a private server' : 'a clone in a sandbox';
  return [
    `it is not known what ${what} does to ${reaches}, ${isShared ? 'within which the clone is' : "where the clone's server has no sandbox"}, ` +
      `and not everything would be seen; ${proof} gives the proof`,
  ];
}

/** A longer sample is a better one, and in this time what was done to make the clone is little beside it. */
const LONG_SAMPLE_MS = 30_000;

function sampledTraffic(
  [before, start]: readonly [TargetState, TargetState],
  { traffic: second }: TargetState,
): TargetComparison['traffic'] {
  const [early, late] = [before.traffic, start.traffic];
  if ('unmeasured' in second) return second;
  if ('unmeasured' in late) return late;
  const isLong = !('unmeasured' in early) && late.atMs - early.atMs >= LONG_SAMPLE_MS;
  return trafficBetween(isLong ? early : late, second);
}
