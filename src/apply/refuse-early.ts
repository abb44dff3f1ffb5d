import { locateTarget } from '../database/locate.ts';
import { SafemigrateError } from '../errors.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import { refuseWhileOccupied } from './apply-lock.ts';
import type { ApplyPlan } from './apply-plan.ts';

/** Refuses what would be refused after the rehearsal, too. @throws SafemigrateError `REFUSED`, `USAGE` */
export async function refuseEarly(plan: ApplyPlan): Promise<void> {
  if (plan.target.from !== null)
    throw new SafemigrateError('USAGE', '--apply and --from cannot be given together.', {
      hint: '--from rehearses on a dump: there is no target to apply to. Nothing was touched.',
    });
  const { target, command, audit, signal } = plan;
  const { settings } = locateTarget(target, readEnvironment(command.env, command.folder));
  const session = await openSession(settings, {
    ...{ purpose: 'inspect', readOnly: true, audit, signal },
    // The rehearsal reports a failed connection, with a better message.
  }).catch(() => undefined);
  try {
    if (session) await refuseWhileOccupied(session);
  } finally {
    await session?.close();
  }
}
