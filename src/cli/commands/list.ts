import { formatBytes, formatDuration } from '../../format.ts';
import { openMaintenanceSession } from '../../upkeep/claim.ts';
import { type OwnedDatabase, ownedDatabases } from '../../upkeep/owned.ts';
import { startOf } from '../../upkeep/run-id.ts';
import { LIST_OPTIONS } from '../options.ts';
import { gatherOptions, inspectNamedTarget, nameServer } from '../read-options.ts';
import { table } from '../table.ts';

/** Shows what safemigrate made on the target's server. Changes nothing. */
export async function listCommand(flags: Record<string, unknown>, signal: AbortSignal): Promise<number> {
  const options = await gatherOptions(LIST_OPTIONS, flags);
  const target = await inspectNamedTarget(options, signal);
  const session = await openMaintenanceSession(target, { purpose: 'list', signal });
  try {
    const databases = await ownedDatabases(session);
    process.stdout.write(
      options.format === 'json' ? asJson(databases) : asText(databases, nameServer(target)),
    );
    return 0;
  } finally {
    await session.close();
  }
}

function asJson(databases: OwnedDatabase[]): string {
  const rows = databases.map(({ mark, ...database }) => ({
    ...database,
    state: mark?.state ?? null,
    kept: mark?.kept ?? false,
    startedAt: database.run ? new Date(startOf(database.run)).toISOString() : null,
  }));
  return `${JSON.stringify(rows, null, 2)}\n`;
}

function asText(databases: OwnedDatabase[], server: string): string {
  if (databases.length === 0) return `Nothing of safemigrate is on ${server}.\n`;
  const rows = databases.map((database) => [
    database.name,
    whatItIs(database),
    database.run ? `${formatDuration(Date.now() - startOf(database.run))} ago` : '',
    database.sizeBytes === null ? '?' : formatBytes(database.sizeBytes),
    String(database.sessions),
  ]);
  return `On ${server}:\n${table(['DATABASE', 'WHAT IT IS', 'STARTED', 'SIZE', 'SESSIONS'], rows)}`;
}

/** One phrase that also says what `clean` would do with it. */
export function whatItIs({ standing, owning, role, mark, doubt }: OwnedDatabase): string {
  if (standing === 'foreign') return `not provably ours: ${doubt}`;
  const what = `${standing === 'half-born' ? 'half-made ' : mark?.kept ? 'kept ' : ''}${role}`;
  if (owning === 'alive') return `${what} of a run that is alive`;
  if (owning === 'unknown') return `${what}; whether its run is alive is not known`;
  return mark?.kept || role === 'original' ? what : `${what} of a dead run`;
}
