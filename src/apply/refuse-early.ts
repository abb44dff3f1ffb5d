import { locateTarget } from '../database/locate.ts';
import { SafemigrateError } from '../errors.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import { ignore } from '../rehearsal/slices.ts';
import { refuseWhileOccupied } from './apply-lock.ts';
import type { ApplyOptions } from './apply-options.ts';

/** Refuses what would be refused after the rehearsal, too. @throws SafemigrateError `REFUSED`, `USAGE` */
export async function refuseEarly(options: ApplyOptions): Promise<void> {
  if (options.from !== undefined)
    throw new SafemigrateError('USAGE', '--apply and --from cannot be given together.', {
      hint: '--from rehearses on a dump: there is no target to apply to. Nothing was touched.',
    });
  const environment = readEnvironment(options.env ?? process.env, options.folder ?? process.cwd());
  const { settings } = locateTarget(options, environment);
  const { audit = ignore, signal } = options;
  const session = await openSession(settings, {
    ...{ purpose: 'inspect', readOnly: true, audit },
    ...(signal ? { signal } : {}),
    // The rehearsal reports a failed connection, with a better message.
  }).catch(() => undefined);
  try {
    if (session) await refuseWhileOccupied(session);
  } finally {
    await session?.close();
  }
}
