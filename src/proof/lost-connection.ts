import { messageOf, SafemigrateError } from '../errors.ts';
import { endsRun } from '../measured.ts';
import { openMaintenanceSessionPatiently } from '../ownership/control-session.ts';
import type { Stop } from '../stop.ts';
import type { SeenCommand } from './attribute-changes.ts';
import { compareTarget } from './compare-target.ts';
import { NO_CONTACTS } from './new-sessions.ts';
import type { TargetState, WatchOptions } from './target-state.ts';

/** Time for a server that restarts to come back. */
const RESTART_MS = 10_000;

/**
 * Does work that comes before the command, and says of a loss in it that the target was not touched.
 * @param options.connected the target was reached before: that it cannot be now is a loss.
 * @throws SafemigrateError `LOST`; what the work throws.
 */
export async function untouched<T>(
  stop: Stop,
  work: () => Promise<T>,
  { connected = true }: { connected?: boolean } = {},
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const lost = lossIn(error, connected) ?? stop.lost;
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

function lossIn(error: unknown, connected: boolean): SafemigrateError | undefined {
  if (!(error instanceof SafemigrateError)) return undefined;
  if (error.code === 'LOST') return error;
  // The server may be found gone by a session that is opened before the ones that are open notice it.
  if (!connected || error.code !== 'CONNECTION' || error.hint !== undefined) return undefined;
  return new SafemigrateError('LOST', `The server was lost: ${error.message}`, { cause: error });
}

/**
 * Does the work of the command and all that follows it. If a lost connection or an interrupt ends the run there, the target is read
 * once more, because the command may have changed it, and there is no report that would show that.
 * @param before the target's state before the clone was made.
 * @throws SafemigrateError `TARGET_CHANGED`, `LOST`, `INTERRUPTED`; what else the work throws.
 */
export async function accountedFor<T>(
  stop: Stop,
  options: Omit<WatchOptions, 'control'>,
  before: TargetState,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const end = endOf(stop, error);
    throw end === undefined ? error : await explainEnd(end, options, before);
  }
}

/** Finds what ended the run: a loss before the interrupt, and either before what failed in consequence. */
function endOf({ signal, lost }: Stop, error: unknown): SafemigrateError | undefined {
  const end = [lost, error, signal.reason].find(endsRun);
  if (end === undefined) return undefined;
  if (end instanceof SafemigrateError && end.code === 'LOST') return end;
  return new SafemigrateError('INTERRUPTED', 'Interrupted.', { cause: end });
}

/** The facts about a command whose run ended before they could be read: all that it could have done. */
const UNOBSERVED: SeenCommand = {
  reachedClone: true,
  madeDatabases: false,
  ownDatabases: [],
  ...NO_CONTACTS,
  mayHaveDialled: true,
  mayReplicateUnseen: false,
  ranUnseen: [],
  notKnown: null,
  mayActUnseen: false,
  leftRunning: [],
  transactions: [],
  cloneChanges: [],
  ranHiddenCode: true,
  confined: false,
  sandboxed: false,
  afterClone: [],
};

/**
 * Reads the target once more to find out what the early end of a run means for it.
 * @returns the error to end the run with: `TARGET_CHANGED` if the target is not as it was, else one of the same code.
 */
async function explainEnd(
  end: SafemigrateError,
  options: Omit<WatchOptions, 'control'>,
  before: TargetState,
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
        { before, start: before },
        UNOBSERVED,
      );
      // Of a server that went down no counter says whose sessions came; its catalogues still say what changed.
      const unread = caveats.find(({ kind, path }) => kind === 'unmeasured' && path !== 'target.unchanged');
      const asked = moved === undefined ? '' : `At its address ${moved}. `;
      if (changes.length === 0 && unread === undefined)
        return new SafemigrateError(end.code, `${end.message} ${asked}The target is as it was before.`, {
          hint: cleaning,
        });
      if (changes.length === 0) throw new Error(unread?.reason);
      const list = changes.map(({ what }) => `  ${what}`).join('\n');
      return new SafemigrateError(
        'TARGET_CHANGED',
        `${end.message} ${asked}Meanwhile the target changed:\n${list}`,
        {
          hint: `Who did it could not be found out: look at the target.\n${cleaning}`,
        },
      );
    } finally {
      await control.close();
    }
  } catch (error) {
    return new SafemigrateError(end.code, end.message, {
      hint: `Whether the target changed could not be found out (${messageOf(error)}).\n${cleaning}`,
    });
  }
}
