import { messageOf, SafemigrateError } from '../errors.ts';
import { openMaintenanceSessionPatiently } from '../ownership/control-session.ts';
import type { Stop } from '../stop.ts';
import { compareTarget, type TargetState, type WatchOptions } from './target-watch.ts';

/** For a server that restarts to come back. */
const RESTART_MS = 10_000;

/** For what comes before the command: a loss in there has changed nothing. @throws SafemigrateError `LOST`; what the work throws. */
export async function untouched<T>(stop: Stop, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const lost = error instanceof SafemigrateError && error.code === 'LOST' ? error : stop.lost;
    if (lost === undefined) throw error;
    if (lost.hint !== undefined) throw lost;
    throw new SafemigrateError('LOST', lost.message, {
      hint:
        'The target was not touched. `safemigrate list` shows what is left of the clone, if anything, and `safemigrate clean` ' +
        'drops it; then run it again.',
      cause: error,
    });
  }
}

/**
 * What the loss of the server in the middle of a run means for the target, found out by looking at it once more.
 * @returns the error to end the run with: `TARGET_CHANGED` where the target is not as it was, else `LOST`.
 */
export async function explainLoss(
  lost: SafemigrateError,
  options: Omit<WatchOptions, 'control' | 'signal'> & { before: TargetState },
): Promise<SafemigrateError> {
  const cleaning =
    'Run `safemigrate list` to see whether the clone is still there, and `safemigrate clean` to drop it.';
  try {
    const { target, run, audit } = options;
    const control = await openMaintenanceSessionPatiently(
      target,
      { run, audit, purpose: 'watch' },
      RESTART_MS,
    );
    try {
      const { changes, caveats, moved } = await compareTarget(
        { ...options, control },
        {
          before: options.before,
          reachedClone: true,
          cloneChanges: [],
          describeTarget: async () => [],
          madeDatabases: false,
          ownDatabases: [],
          targetConnections: [],
          authors: [],
        },
      );
      const unread = caveats.find(({ kind }) => kind === 'unmeasured');
      const asked = moved === undefined ? '' : `At its address ${moved}. `;
      if (changes.length === 0 && unread === undefined)
        return new SafemigrateError('LOST', `${lost.message} ${asked}The target is as it was before.`, {
          hint: cleaning,
        });
      if (changes.length === 0) throw new Error(unread?.reason);
      const list = changes.map(({ what }) => `  ${what}`).join('\n');
      return new SafemigrateError(
        'TARGET_CHANGED',
        `${lost.message} ${asked}Meanwhile the target changed:\n${list}`,
        {
          hint: `Who did it could not be found out: look at the target.\n${cleaning}`,
        },
      );
    } finally {
      await control.close();
    }
  } catch (error) {
    return new SafemigrateError('LOST', lost.message, {
      hint: `Whether the target changed could not be found out (${messageOf(error)}).\n${cleaning}`,
    });
  }
}
