import { locateTarget } from '../database/locate.ts';
import { SafemigrateError } from '../errors.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import { ignore } from '../rehearsal/slices.ts';
import { refuseWhileOccupied } from './apply-lock.ts';
import type { ApplyOptions } from './apply-options.ts';

/** Before a rehearsal that would be for nothing. @throws SafemigrateError `REFUSED`, `USAGE` */
export async function refuseEarly(options: ApplyOptions): Promise<void> {
  if (options.from !== undefined)
    throw new SafemigrateError('USAGE', '--apply and --from cannot be given together.', {
      hint: 'There is no target to apply to: --from rehearses on a dump. Nothing was touched.',
    });
  const around = readEnvironment(options.env ?? process.env, options.folder ?? process.cwd());
  const { settings } = locateTarget(options, around);
  const { audit = ignore, signal } = options;
  const session = await openSession(settings, {
    ...{ purpose: 'inspect', readOnly: true, audit },
    ...(signal ? { signal } : {}),
    // Whatever is wrong with the connection, the rehearsal says it better.
  }).catch(() => undefined);
  try {
    if (session) await refuseWhileOccupied(session);
  } finally {
    await session?.close();
  }
}
