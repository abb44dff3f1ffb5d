import { formatCount, formatDuration, plural } from '../format.ts';
import type { LoadSection } from '../model/report.ts';

/** Waits are looked at every 50 ms. */
const AT_ONCE_MS = 60;

/** What the users of the target would have felt, in a few sentences. */
export function loadHeadline(load: LoadSection): string[] {
  const { mostWaiting, longestWaitMs, blockedMs, blocked, deadlocks, command, recoveryMs, connections } =
    load;
  const [worst] = blocked;
  const failed = load.during.failures + load.after.failures;
  const lost = deadlocks.filter(({ victim }) => victim === 'command').length;
  return [
    mostWaiting === 0
      ? 'no session waited behind the command'
      : `up to ${plural(mostWaiting, 'session')} waited behind the command, the longest for ${formatDuration(longestWaitMs)}, ` +
        `${formatDuration(blockedMs)} in all${worst?.statement ? `, most behind statement ${formatCount(worst.statement)}` : ''}`,
    ...(failed > 0 ? [`${plural(failed, 'transaction')} of the load failed`] : []),
    ...(deadlocks.length > 0
      ? [
          `${plural(deadlocks.length, 'deadlock')} with the command${lost > 0 ? ', which was rolled back by it' : ''}`,
        ]
      : []),
    ...(command.exitCode === 0
      ? []
      : [`the command failed under load (exit code ${command.exitCode ?? 'none'})`]),
    recoveryMs === null
      ? 'sessions still waited when the load was stopped'
      : `it recovered ${recoveryMs < AT_ONCE_MS ? 'at once' : `in ${formatDuration(recoveryMs)}`}; at most ${formatCount(connections.most)} of ${plural(connections.limit, 'connection')} were in use`,
  ];
}
