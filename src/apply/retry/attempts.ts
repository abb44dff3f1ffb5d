import { steadyDate } from '../../clock.ts';
import type { CommandResult } from '../../command/run-command.ts';
import type { Emit } from '../../events.ts';
import { formatDuration, plural } from '../../format.ts';
import type { ApplySection } from '../../model/report.ts';
import type { LockFailure } from '../../postgres/lock-modes.ts';
import type { GuardedWatch } from '../guardrails/guarded-proxy.ts';
import type { InspectedOutcome } from '../inspect-outcome.ts';
import { backoffMs, pause } from './backoff.ts';
import { failureOf, reasonAgainst } from './retry-eligibility.ts';

type Attempt = ApplySection['attempts'][number];
type Command = NonNullable<ApplySection['command']>;

export interface RetryOptions {
  /** How often the command may be rerun. */
  readonly retries: number;
  /** Lock failures after which it may be rerun. */
  readonly retryOn: readonly LockFailure[];
  /** Time limit for all attempts together; 0: none. */
  readonly timeoutMs: number;
  /** After it fires, no attempt begins. */
  readonly signal: AbortSignal;
  readonly proxy: Pick<GuardedWatch, 'disconnect' | 'end'>;
  readonly run: (timeoutMs: number) => Promise<CommandResult>;
  /** Inspects the target. @param earlier number of the last statement before this attempt. */
  readonly inspect: (command: Command, earlier: number) => Promise<InspectedOutcome>;
  readonly emit: Emit;
}

/** Longer than the pauses of a single statement, since the whole command is rerun. */
const PAUSES = { firstMs: 1_000, longestMs: 30_000 };

/**
 * Runs the command, and reruns it with exponential backoff if it failed because of a lock and a rerun is safe
 * (retry-eligibility.ts).
 * @returns the end of the last attempt and the target after all of them; `notAgain` is the reason why a command that failed was not
 * run again, null without --retries.
 */
export async function runAttempts(options: RetryOptions) {
  const { retries, signal, proxy, emit } = options;
  const startedAtMs = performance.now();
  const leftMs = () =>
    options.timeoutMs === 0 ? 0 : Math.max(1, options.timeoutMs - (performance.now() - startedAtMs));
  const attempts: Attempt[] = [];
  for (let earlier = 0; ; ) {
    const startedAt = steadyDate().toISOString();
    const { pid: _, leftRunning: __, ...command } = await options.run(leftMs());
    const { exitCode, signal: endedBy, timedOut, durationMs } = command;
    const failed = exitCode !== 0 && exitCode !== null && !timedOut && !signal.aborted;
    const mayRerun = failed && attempts.length < retries;
    await (mayRerun ? proxy.disconnect() : proxy.end());
    const after = await options.inspect(command, earlier);
    const failure = failed ? failureOf(after.evidence, earlier) : null;
    const attempt = attemptOf({ startedAt, exitCode, signal: endedBy, durationMs, failure }, after, earlier);
    attempts.push(attempt);
    const finish = (notAgain: string | null) => ({ command, after, attempts, notAgain });
    if (!mayRerun) return finish(failed && retries > 0 ? usedUp(attempts.length, retries) : null);
    const pauseMs = backoffMs(attempts.length, PAUSES);
    const against =
      (await reasonAgainst(after.evidence, failure, options.retryOn)) ??
      noTime(options.timeoutMs, leftMs(), pauseMs);
    if (against === null) {
      emit({
        type: 'notice',
        message: `the command failed because of a lock; rerun ${attempts.length} of ${retries} in ${formatDuration(pauseMs)}`,
      });
      attempt.pausedMs = await pausedFor(pauseMs, signal);
    }
    if (against !== null || signal.aborted) {
      await proxy.end();
      return finish(`the command was not rerun (--retries): ${against ?? 'the run ended during the pause'}`);
    }
    for (const { index, repeated } of after.evidence.statements)
      earlier = Math.max(earlier, repeated?.lastIndex ?? index);
  }
}

function attemptOf(
  ran: Omit<Attempt, 'firstStatement' | 'committed' | 'pausedMs'>,
  { evidence: { statements, facts } }: InspectedOutcome,
  earlier: number,
): Attempt {
  return {
    ...ran,
    firstStatement: statements.find(({ index }) => index > earlier)?.index ?? null,
    committed: facts.committed.map(({ statement }) => statement).filter((index) => index > earlier),
    pausedMs: null,
  };
}

function usedUp(count: number, retries: number): string {
  return `the command was run ${plural(count, 'time')}, the maximum with --retries ${retries}`;
}

function noTime(timeoutMs: number, leftMs: number, pauseMs: number): string | null {
  return timeoutMs > 0 && pauseMs >= leftMs ? '--timeout leaves no time for it' : null;
}

async function pausedFor(pauseMs: number, signal: AbortSignal): Promise<number> {
  const begun = performance.now();
  await pause(pauseMs, signal);
  return performance.now() - begun;
}
