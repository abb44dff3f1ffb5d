import { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import { type Cleanup, Scope } from '../scope.ts';
import { Stop } from '../stop.ts';
import type { RehearseOptions } from './run-options.ts';
import { ignore } from './slices.ts';

/** Whatever fails in consequence of a loss says less than the loss itself. */
const isLoss = (error: unknown) => error instanceof SafemigrateError && error.code === 'LOST';

/** Runs with a scope that is released in every ending; what could not be released is said, also when the work fails. */
export async function withScope<T>(
  { signal, emit = ignore }: RehearseOptions,
  work: (scope: Scope, stop: Stop) => Promise<T>,
): Promise<{ result: T; cleanup: Cleanup }> {
  const scope = new Scope();
  const stop = new Stop(signal);
  const release = async () => {
    stop.end();
    const cleanup = await inPhase(emit, 'clean', () => scope.release());
    for (const { name, reason } of cleanup.failed) {
      emit({
        type: 'notice',
        message: `${name} could not be released: ${reason}; run \`safemigrate clean\``,
      });
    }
    return cleanup;
  };
  let result: T;
  try {
    result = await work(scope, stop);
  } catch (error) {
    const cause = isLoss(error) ? error : (stop.lost ?? error);
    await release();
    throw cause;
  }
  return { result, cleanup: await release() };
}
