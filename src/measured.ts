import { messageOf, SafemigrateError } from './errors.ts';
import type { Caveat } from './model/report.ts';

/** The reason why something could not be measured, in its place. */
export interface Unmeasured {
  readonly unmeasured: string;
}

/**
 * Reads a part of the report. A part that cannot be read does not end the run: it is null, and a caveat gives the reason.
 *
 * A lost connection and an interrupt always end the run, whatever was being read, and the target is then read once more
 * (`accountedFor`). After a loss, the parts that follow would be missing for a reason that their own caveats do not show.
 * A new session that is refused is no loss, because the command may have dropped its database. If the whole server is gone,
 * the control session notices it and ends the run.
 */
export async function measured<T>(
  caveats: Caveat[],
  path: string,
  read: () => Promise<T>,
): Promise<T | null> {
  const result = await measuredOrReason(read);
  if (!isUnmeasured(result)) return result;
  caveats.push({ path, kind: 'unmeasured', reason: result.unmeasured });
  return null;
}

/** Reads something by the rule of measured(), and returns the reason if it cannot be read. */
export async function measuredOrReason<T>(read: () => Promise<T>): Promise<T | Unmeasured> {
  try {
    return await read();
  } catch (error) {
    if (endsRun(error)) throw error;
    return { unmeasured: messageOf(error) };
  }
}

export function isUnmeasured(result: unknown): result is Unmeasured {
  return typeof result === 'object' && result !== null && 'unmeasured' in result;
}

/** Tells whether an error is a lost connection or an interrupt. */
export function endsRun(error: unknown): boolean {
  if (error instanceof SafemigrateError) return error.code === 'LOST' || error.code === 'INTERRUPTED';
  return error instanceof Error && error.name === 'AbortError';
}
