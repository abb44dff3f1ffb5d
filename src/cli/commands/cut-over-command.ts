import { locateTarget } from '../../database/locate.ts';
import { SafemigrateError } from '../../errors.ts';
import { openMaintenanceSession } from '../../ownership/control-session.ts';
import { postponedClones, writeCutOver } from '../../ownership/cut-over-order.ts';
import { readEnvironment } from '../../postgres/connection/environment.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import { auditTo } from '../audit-file.ts';
import { EXIT } from '../exit-codes.ts';
import { CUT_OVER_SETTINGS } from '../options/subcommand-settings.ts';
import { visibleLines } from '../print.ts';
import { gatherOptions, nameServer } from '../read-options.ts';

/**
 * Gives the order to cut over to an online swap that waits for it, on whichever machine it runs.
 * @throws SafemigrateError `CONFIGURATION` if none waits, or several and none is named.
 */
export async function cutOverCommand(
  flags: Record<string, unknown>,
  run: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  const { audit, target = {} } = await gatherOptions(CUT_OVER_SETTINGS, flags);
  const located = locateTarget(target, readEnvironment(process.env, process.cwd()));
  const server = { ...located, database: { name: located.settings.database } };
  const opening = openMaintenanceSession(server, { purpose: 'cut-over', audit: auditTo(audit), signal });
  return withSession(opening, async (session) => {
    const waiting = await postponedClones(session);
    const [clone, ...others] = waiting.filter((each) => run === undefined || each.run === run);
    if (!clone || others.length > 0) throw unclear(run, nameServer(located), waiting);
    await writeCutOver(session, clone.oid, 'ordered');
    process.stdout.write(visibleLines(`The swap ${clone.run} cuts over now, and reports the outcome.\n`));
    return EXIT.passed;
  });
}

function unclear(
  run: string | undefined,
  server: string,
  waiting: readonly { readonly run: string | null }[],
): SafemigrateError {
  const runs = waiting.map((each) => each.run).join(', ');
  if (waiting.length === 0)
    return new SafemigrateError(
      'CONFIGURATION',
      `No online swap on ${server} waits for the order to cut over.`,
      {
        hint: 'One that was started with --postpone-file waits once its clone has caught up, and says so. Nothing was touched.',
      },
    );
  const message =
    run === undefined
      ? `Several online swaps on ${server} wait for the order to cut over: ${runs}.`
      : `No online swap ${run} on ${server} waits for the order to cut over, but these do: ${runs}.`;
  return new SafemigrateError('CONFIGURATION', message, {
    hint: 'Name one of them: safemigrate cut-over RUN. Nothing was touched.',
  });
}
