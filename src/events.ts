/** What a run tells while it goes on. Rooms emit these; only src/cli turns them into words on a terminal. */
export type RunEvent =
  | { type: 'phase'; phase: Phase; detail?: string }
  | { type: 'phase-end'; phase: Phase; durationMs: number; detail?: string; failed?: true }
  /** Progress of the current phase; `of` is absent where the end is not known. */
  | { type: 'progress'; phase: Phase; done: number; of?: number; unit: 'bytes' | 'files' | 'relations' }
  /** The next moments are only waited for: the time to load what is needed later. */
  | { type: 'idle' }
  /** A fact the user should know although nothing failed. */
  | { type: 'notice'; message: string };

/** The parts of a run that can take long enough to be shown, in the order in which they come. */
export type Phase =
  | 'connect'
  | 'inspect'
  | 'wait'
  | 'clone'
  | 'before'
  | 'command'
  | 'after'
  /** The command once more, the way back. */
  | 'rerun'
  | 'down'
  | 'compare'
  | 'clean';

export type Emit = (event: RunEvent) => void;

/** Runs a part of a run between its two events. */
export async function inPhase<T>(emit: Emit, phase: Phase, work: () => Promise<T>): Promise<T> {
  const started = performance.now();
  emit({ type: 'phase', phase });
  const end = (more: { failed?: true } = {}) =>
    emit({ type: 'phase-end', phase, durationMs: performance.now() - started, ...more });
  let result: T;
  try {
    result = await work();
  } catch (error) {
    end({ failed: true });
    throw error;
  }
  end();
  return result;
}
