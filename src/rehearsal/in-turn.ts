import { locateTarget } from '../database/locate.ts';
import { SafemigrateError } from '../errors.ts';
import { type ChangeLock, withChangeLock } from '../ownership/change-lock.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import type { RehearsalPlan } from './plan.ts';

/**
 * Does the work while no other apply or swap of this target can.
 * @throws SafemigrateError `USAGE` if there is no target; `REFUSED`, naming the session that holds the lock; what the work throws.
 */
export async function inTurn<T>(
  { target, command, audit, signal }: RehearsalPlan,
  purpose: 'apply' | 'swap',
  work: (lock: ChangeLock) => Promise<T>,
): Promise<T> {
  if (target.from !== null)
    throw new SafemigrateError('USAGE', `--${purpose} and --dump cannot be given together.`, {
      hint: `--dump rehearses on a dump: there is no target to ${purpose}. Nothing was touched.`,
    });
  const { settings } = locateTarget(target, readEnvironment(command.env, command.folder));
  return withChangeLock(settings, { purpose, audit, signal }, work);
}
