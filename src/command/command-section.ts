import type { CommandSection, StatementSection } from '../model/report.ts';
import type { Rewritten } from './rewrite.ts';
import type { CommandResult } from './run-command.ts';

/**
 * Builds the report's command section. `argv` is what the user wrote, without passwords, before it was rewritten for the clone.
 */
export function describeCommand(
  argv: readonly string[],
  { byAddress, rewritten, added, undecided }: Rewritten,
  { exitCode, signal, timedOut, durationMs, endedForMemory }: CommandResult,
  seen: Pick<
    CommandSection,
    | 'reachedClone'
    | 'untriedPasswords'
    | 'leftForTls'
    | 'leftForTrust'
    | 'refused'
    | 'allowed'
    | 'redirected'
    | 'isolation'
    | 'leftRunning'
  >,
  statements: readonly StatementSection[],
): CommandSection {
  const failed = statements.filter(({ error }) => error !== null).map(({ index }) => index);
  return {
    argv: [...argv],
    exitCode,
    signal,
    timedOut,
    durationMs,
    ...(endedForMemory === undefined ? {} : { endedForMemory }),
    byAddress,
    rewritten: [...rewritten],
    added: [...added],
    undecided: [...undecided],
    ...seen,
    swallowedErrors: exitCode === 0 ? failed : [],
    failedWithoutError: exitCode !== 0 && exitCode !== null && statements.length > 0 && failed.length === 0,
  };
}
