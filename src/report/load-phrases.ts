import { formatCount, formatDuration, plural } from '../format.ts';
import type { LoadedRunSection, LoadSection } from '../model/report.ts';

/** Waits are looked at every 50 ms. */
const AT_ONCE_MS = 60;

/** What the users of the target would have felt; reports begin with it. */
export function loadHeadline(load: LoadSection): string {
  return `${waitingWords(load)}${load.command.exitCode === 0 ? '' : `; ${endWords(load)}`}`;
}

/** Sentences beside the headline. */
export function loadDetails(load: LoadSection): string[] {
  const { recoveryMs, pool } = load;
  const recovered =
    recoveryMs === null
      ? 'sessions still waited when the load was stopped'
      : `afterwards it recovered ${recoveryMs < AT_ONCE_MS ? 'at once' : `in ${formatDuration(recoveryMs)}`}`;
  const failed = failedWords(load);
  return [
    ...rateWords(load),
    ...(failed.length > 0 ? [failed.join(', ')] : []),
    `${recovered}; ${connectionWords(load)}`,
    ...(pool && isFull(pool)
      ? [
          `a full pool: if a connection is opened for each request that is held back, the target needs ${formatCount(pool.needed)}, and has ${formatCount(pool.limit)} (${formatCount(pool.open)} are open)`,
        ]
      : []),
    ...(load.guarded ? [`with the guardrails of an apply: ${guardedWords(load.guarded)}`] : []),
  ];
}

function rateWords({ rate: { wanted, played } }: LoadSection): string[] {
  if (wanted === null || played === null) return [];
  const [had, should] = [played, wanted].map((each) => formatCount(Math.round(each)));
  return [`${had} of ${should} transactions a second were played`];
}

function waitingWords({
  mostWaiting,
  someWaitedMs,
  longestWaitMs,
  blockedMs,
  blocked,
}: LoadedRunSection): string {
  if (mostWaiting === 0) return 'no session waited behind the command';
  const [worst] = blocked;
  const behind = worst?.statement ? `statement ${formatCount(worst.statement)}` : 'the command';
  return (
    `for ${formatDuration(someWaitedMs)} up to ${plural(mostWaiting, 'session')} waited behind ${behind}, ` +
    `the longest for ${formatDuration(longestWaitMs)}, ${formatDuration(blockedMs)} in all`
  );
}

/** How a command that failed came to its end. */
function endWords({ command, deadlocks }: LoadedRunSection): string {
  return deadlocks.some(({ victim }) => victim === 'command')
    ? 'the command was cancelled by a deadlock'
    : `the command failed (exit code ${command.exitCode ?? 'none'})`;
}

function failedWords({ during, after, deadlocks }: LoadedRunSection): string[] {
  const failed = during.failures + after.failures;
  return [
    ...(failed > 0 ? [`${plural(failed, 'transaction')} of the load failed`] : []),
    // One that cancelled the command has been said.
    ...(deadlocks.some(({ victim }) => victim === 'load')
      ? [`${plural(deadlocks.length, 'deadlock')} with the command`]
      : []),
  ];
}

function connectionWords({ connections, mostWaiting, clients, source }: LoadSection): string {
  const used = `at most ${formatCount(connections.most)} of ${plural(connections.limit, 'connection')} were in use`;
  return source !== 'command' && mostWaiting >= clients
    ? `${used}, and all ${formatCount(clients)} sessions of the load waited at once`
    : used;
}

function guardedWords(run: NonNullable<LoadSection['guarded']>): string {
  const retries = run.guardrails?.retries.reduce((sum, { failed }) => sum + failed, 0) ?? 0;
  const cancelled = run.guardrails?.cancelled.length ?? 0;
  return [
    run.command.exitCode === 0 ? 'the command succeeded' : endWords(run),
    waitingWords(run),
    ...failedWords(run),
    ...(retries > 0 ? [`${plural(retries, 'retry', 'retries')} of a statement`] : []),
    ...(cancelled > 0 ? [`${plural(cancelled, 'statement')} cancelled for blocking others`] : []),
  ].join('; ');
}

function isFull({ needed, open, limit }: NonNullable<LoadSection['pool']>): boolean {
  return open < limit && needed >= limit;
}
