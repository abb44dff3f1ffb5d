import { createInterface } from 'node:readline/promises';
import { SafemigrateError } from '../errors.ts';

/** Refuses a run that cannot be confirmed before it does any work. @throws SafemigrateError `REFUSED` */
export function refuseUnasked(yes: boolean): void {
  if (yes || (process.stdin.isTTY && process.stderr.isTTY)) return;
  throw new SafemigrateError('REFUSED', 'There is no terminal to ask on, and --yes was not given.', {
    hint: 'Nothing was touched. With --yes it goes on without a question, once the rehearsal has passed.',
  });
}

/**
 * Asks a person on the terminal; `--yes` answers for scripts.
 * @throws SafemigrateError `REFUSED` if there is no terminal.
 */
export async function confirm(question: string, yes: boolean, signal: AbortSignal): Promise<boolean> {
  if (yes) return true;
  refuseUnasked(yes);
  const line = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await line.question(`\n${question} Go on? [y/N] `, { signal });
    return /^\s*y(es)?\s*$/i.test(answer);
  } finally {
    line.close();
  }
}
