import { locateTarget } from '../database/locate.ts';
import { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import { type ChangeLock, withChangeLock } from '../ownership/change-lock.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import { SchemaWatch } from '../schema/schema-watch.ts';
import { type Cleanup, Scope } from '../scope.ts';
import { Stop } from '../stop.ts';
import type { RehearsalPlan, RunPlan } from './plan.ts';

/** The things that a run acquires, and what ends it early. */
export interface Lifetime {
  readonly scope: Scope;
  readonly stop: Stop;
}

/** Tells errors that outweigh the loss that ended the run: others are consequences of it, and say less. */
const outweighsLoss = (error: unknown) =>
  error instanceof SafemigrateError && (error.code === 'LOST' || error.code === 'TARGET_CHANGED');

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
        message: `${name} could not be released: ${reason.replace(/\.$/, '')}; run \`safemigrate clean\``,
      });
    }
    return cleanup;
  };
  let result: T;
  try {
    result = await work(scope, stop);
  } catch (error) {
    const cause = outweighsLoss(error) ? error : (stop.lost ?? error);
    await release();
    throw cause;
  }
  return { result, cleanup: await release() };
}

/**
 * Does the work while no other apply or swap of this target can.
 * @throws SafemigrateError `USAGE` if the target is a dump; `REFUSED`, naming the session that holds the lock; what the work throws.
 */
export async function inTurn<T>(
  { target, command, audit, signal }: RehearsalPlan,
  purpose: 'apply' | 'swap',
  work: (lock: ChangeLock) => Promise<T>,
): Promise<T> {
  if (target.from !== null)
    throw new SafemigrateError('USAGE', 'A dump cannot be the target of an apply or a swap.', {
      hint: 'Rehearse on the dump, and name the database to change by its URL. Nothing was touched.',
    });
  const { settings } = locateTarget(target, readEnvironment(command.env, command.folder));
  return withChangeLock(settings, { purpose, audit, signal }, work);
}

/** Opens what reads schemas; its thread loads while the server is inspected. */
export function openSchemaReader(scope: Scope, { audit }: RunPlan): Promise<SchemaWatch> {
  return scope.own(
    'schema reader',
    async () => new SchemaWatch(audit),
    async (schema) => schema?.close(),
  );
}
