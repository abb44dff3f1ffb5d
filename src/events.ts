/** Reports of a run on its progress. Modules emit these; only src/cli turns them into words on a terminal. */
export type RunEvent =
  | { type: 'phase'; phase: Phase; detail?: string }
  | { type: 'phase-end'; phase: Phase; durationMs: number; detail?: string; failed?: true }
  /** Progress of the current phase; `of` is absent if the end is not known. */
  | {
      type: 'progress';
      phase: Phase;
      done: number;
      of?: number;
      unit: 'bytes' | 'bytes behind' | 'files' | 'relations' | 'rows';
    }
  /** A fact the user should know although nothing failed. `passing`: it holds for a moment, and takes no further line on a terminal. */
  | { type: 'notice'; message: string; passing?: true }
  /** The command waits for the lock of a session until `unblocked`; `since`: the start of its transaction, `ways`: how to end the wait. */
  | { type: 'blocked'; who: string; since: string | null; ways: string }
  | { type: 'unblocked' };

/** The parts of a run that can take long enough to be shown, in the order in which they come. */
export type Phase =
  | 'connect'
  | 'inspect'
  | 'wait'
  | 'clone'
  | 'before'
  | 'command'
  | 'after'
  /** The command once more, and the command that undoes it. */
  | 'rerun'
  | 'down'
  /** The checks of the application, with the migration and without it. */
  | 'app'
  /** The command, several times together on a second clone. */
  | 'at-once'
  /** The command under load, on a second clone. */
  | 'load'
  /** A safer form of what the command did, on another clone. */
  | 'propose'
  /** A cluster of the new version is made. */
  | 'initdb'
  /** pg_upgrade --check. */
  | 'check'
  /** One mode of pg_upgrade, on a copy. */
  | 'upgrade'
  /** The clone of an online swap applies the writes of the meantime. */
  | 'catch-up'
  /** Its rows are compared with the target's. */
  | 'compare'
  /** It waits for the order to cut over. */
  | 'postponed'
  /** It waits for a moment in which the clone can take the target's place. */
  | 'cut-over'
  | 'clean';

export type Emit = (event: RunEvent) => void;

/**
 * Does the work of a phase, between the phase's two events.
 * @param hasFailed whether a result means that the phase failed, as an error does.
 * @param detail what of it, for a phase that comes several times.
 */
export async function inPhase<T>(
  emit: Emit,
  phase: Phase,
  work: () => Promise<T>,
  hasFailed: (result: T) => boolean = () => false,
  detail?: string,
): Promise<T> {
  const started = performance.now();
  const what = detail === undefined ? { phase } : { phase, detail };
  emit({ type: 'phase', ...what });
  const end = (more: { failed?: true } = {}) =>
    emit({ type: 'phase-end', ...what, durationMs: performance.now() - started, ...more });
  let result: T;
  try {
    result = await work();
  } catch (error) {
    end({ failed: true });
    throw error;
  }
  end(hasFailed(result) ? { failed: true } : {});
  return result;
}
