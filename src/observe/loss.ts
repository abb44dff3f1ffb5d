import { messageOf, SafemigrateError } from '../errors.ts';
import { openMaintenanceSessionPatiently } from '../upkeep/claim.ts';
import { compareTarget, type TargetState, type WatchOptions } from './target-watch.ts';

/** For a server that restarts to come back. */
const RESTART_MS = 10_000;

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
      const { changes, limits } = await compareTarget(
        { ...options, control },
        {
          before: options.before,
          reachedClone: true,
          cloneChanges: [],
          describeTarget: async () => [],
          madeDatabases: false,
          ownDatabases: [],
          contact: [],
          authors: [],
        },
      );
      const [unread] = limits;
      if (changes.length === 0 && unread === undefined)
        return new SafemigrateError('LOST', `${lost.message} The target is as it was before.`, {
          hint: cleaning,
        });
      if (changes.length === 0) throw new Error(unread?.reason);
      const list = changes.map(({ what }) => `  ${what}`).join('\n');
      return new SafemigrateError(
        'TARGET_CHANGED',
        `${lost.message} Meanwhile the target changed:\n${list}`,
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
