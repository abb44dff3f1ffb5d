import type { CommandResult } from '../../command/run-command.ts';
import type { Emit } from '../../events.ts';
import { formatDuration, plural } from '../../format.ts';
import type { ApplySection } from '../../model/report.ts';
import type { GuardedWatch } from '../guardrails/guarded-proxy.ts';
import { growingPause, pause } from '../guardrails/pause.ts';
import type { InspectedOutcome } from '../inspect-outcome.ts';
import { failureOf, reasonAgainst } from './retry-eligibility.ts';

type Attempt = ApplySection['attempts'][number];
type Command = NonNullable<ApplySection['command']>;

export interface CommandTrial {
  /** How often the command may be run again. */
  readonly retries: number;
  /** For all attempts together; 0: no limit. */
  readonly timeoutMs: number;
  /** From then on nothing is begun. */
  readonly signal: AbortSignal;
  readonly wire: Pick<GuardedWatch, 'disconnect' | 'end'>;
  readonly run: (timeoutMs: number) => Promise<CommandResult>;
  /** Looks at the target. @param earlier number of the last statement before this attempt. */
  readonly look: (command: Command, earlier: number) => Promise<InspectedOutcome>;
  readonly emit: Emit;
}

export interface Tried {
  /** Of the last attempt. */
  readonly command: Command;
  /** The target as it is now, after all of them. */
  readonly after: InspectedOutcome;
  readonly attempts: readonly Attempt[];
  /** Why a command that failed was not run once more; null where nobody asked for that. */
  readonly notAgain: string | null;
}

/** Longer than those of a single statement: the whole command begins anew. */
const PAUSES = { firstMs: 1_000, longestMs: 30_000 };

/** Runs the command, and again where it failed because of a lock, nothing is left to chance, and it was asked for. */
export async function runAttempts(trial: CommandTrial): Promise<Tried> {
  const { retries, signal, wire, emit } = trial;
  const begun = performance.now();
  const leftMs = () =>
    trial.timeoutMs === 0 ? 0 : Math.max(1, trial.timeoutMs - (performance.now() - begun));
  const attempts: Attempt[] = [];
  for (let earlier = 0; ; ) {
    const startedAt = new Date().toISOString();
    const { exitCode, signal: endedBy, timedOut, durationMs } = await trial.run(leftMs());
    const command = { exitCode, signal: endedBy, timedOut, durationMs };
    const failed = exitCode !== 0 && exitCode !== null && !timedOut && !signal.aborted;
    const mayFollow = failed && attempts.length < retries;
    await (mayFollow ? wire.disconnect() : wire.end());
    const after = await trial.look(command, earlier);
    const failure = failed ? failureOf(after.evidence, earlier) : null;
    const attempt = attemptOf({ startedAt, exitCode, signal: endedBy, durationMs, failure }, after, earlier);
    attempts.push(attempt);
    const over = (notAgain: string | null): Tried => ({ command, after, attempts, notAgain });
    if (!mayFollow) return over(failed && retries > 0 ? usedUp(attempts.length, retries) : null);
    const pauseMs = growingPause(attempts.length, PAUSES);
    const against =
      (await reasonAgainst(after.evidence, failure)) ?? noTime(trial.timeoutMs, leftMs(), pauseMs);
    if (against === null) {
      emit({
        type: 'notice',
        message: `the command failed because of a lock; again in ${formatDuration(pauseMs)} (${attempts.length} of ${retries})`,
      });
      attempt.pausedMs = await pausedFor(pauseMs, signal);
    }
    if (against !== null || signal.aborted) {
      await wire.end();
      return over(
        `the command was not run again (--retries): ${against ?? 'the run was ended while it paused'}`,
      );
    }
    earlier = after.evidence.statements.at(-1)?.index ?? earlier;
  }
}

function attemptOf(
  ran: Omit<Attempt, 'firstStatement' | 'committed' | 'pausedMs'>,
  { evidence: { statements, ended } }: InspectedOutcome,
  earlier: number,
): Attempt {
  return {
    ...ran,
    firstStatement: statements.find(({ index }) => index > earlier)?.index ?? null,
    committed: ended.committed.map(({ statement }) => statement).filter((index) => index > earlier),
    pausedMs: null,
  };
}

function usedUp(count: number, retries: number): string {
  return `the command was run ${plural(count, 'time')}, which is all that --retries ${retries} allows`;
}

function noTime(timeoutMs: number, leftMs: number, pauseMs: number): string | null {
  return timeoutMs > 0 && pauseMs >= leftMs ? '--timeout leaves no time for that' : null;
}

async function pausedFor(pauseMs: number, signal: AbortSignal): Promise<number> {
  const begun = performance.now();
  await pause(pauseMs, signal);
  return performance.now() - begun;
}
