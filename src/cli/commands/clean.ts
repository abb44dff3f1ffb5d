import { visible } from '../../report/visible.ts';
import { openSession } from '../../target/connect.ts';
import { openMaintenanceSession } from '../../upkeep/claim.ts';
import { clean } from '../../upkeep/clean.ts';
import { EXIT } from '../exit-codes.ts';
import { CLEAN_OPTIONS } from '../options.ts';
import { gatherOptions, inspectNamedTarget, nameServer } from '../read-options.ts';

/** Drops what has no living owner, and says what it dropped, what it left, and why. */
export async function cleanCommand(flags: Record<string, unknown>, signal: AbortSignal): Promise<number> {
  const options = await gatherOptions(CLEAN_OPTIONS, flags);
  const target = await inspectNamedTarget(options, signal);
  const session = await openMaintenanceSession(target, { purpose: 'clean', signal });
  try {
    const enter = (database: string) => openSession(target.settings, { database, purpose: 'clean', signal });
    const { dropped, left, failed } = await clean(session, { kept: options.kept ?? false, enter });
    for (const { name } of dropped) process.stdout.write(`dropped ${visible(name)}\n`);
    for (const { database, reason } of left)
      process.stdout.write(`left    ${visible(`${database.name}: ${reason}`)}\n`);
    for (const { database, reason } of failed)
      process.stderr.write(`failed  ${visible(`${database.name}: ${reason}`)}\n`);
    if (dropped.length + left.length + failed.length === 0)
      process.stdout.write(`Nothing to clean on ${nameServer(target)}.\n`);
    return failed.length === 0 ? EXIT.passed : EXIT.cannotRehearse;
  } finally {
    await session.close();
  }
}
