import { messageOf, SafemigrateError } from '../errors.ts';
import type { Caveat } from '../model/report.ts';

/** A part that cannot be measured is not the end of the run: it is null, and the report says why. */
export async function measured<T>(
  caveats: Caveat[],
  path: string,
  read: () => Promise<T>,
): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof SafemigrateError && ['LOST', 'INTERRUPTED'].includes(error.code)) throw error;
    caveats.push({ path, kind: 'unmeasured', reason: messageOf(error) });
    return null;
  }
}
