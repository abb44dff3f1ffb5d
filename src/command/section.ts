import type { CommandSection } from '../report/model.ts';
import type { Rewritten } from './rewrite.ts';
import type { CommandResult } from './run-command.ts';

/** The report's command section; `argv` is what the user wrote, without passwords, before anything was pointed at the clone. */
export function commandSection(
  argv: readonly string[],
  { rewritten, undecided }: Rewritten,
  { exitCode, signal, timedOut, durationMs }: CommandResult,
  reachedClone: boolean,
): CommandSection {
  return {
    argv: [...argv],
    exitCode,
    signal,
    timedOut,
    durationMs,
    rewritten: [...rewritten],
    undecided: [...undecided],
    reachedClone,
  };
}
