import { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import { type Cleanup, Scope } from '../scope.ts';
import { Stop } from '../stop.ts';
import type { RunPlan } from './plan.ts';

/** What a run acquires, and what ends it early. */
export interface Lifetime {
  readonly scope: Scope;
  readonly stop: Stop;
}

/** Whatever fails in consequence of a loss says less than the loss itself. */
const isLoss = (error: unknown) => error instanceof SafemigrateError && error.code === 'LOST';

/**
 * Does the work with a scope that is released however the work ends. What could not be released is reported, also if the work
 * fails.
 */
export async function withScope<T>(
  { signal, emit }: Pick<RunPlan, 'signal' | 'emit'>,
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
