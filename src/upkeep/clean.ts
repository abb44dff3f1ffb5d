import { messageOf } from '../errors.ts';
import type { Session } from '../target/session.ts';
import { type DropOrder, dropOwnedDatabase } from './drop.ts';
import { type OwnedDatabase, ownedDatabases } from './owned.ts';

export interface CleanResult {
  readonly dropped: OwnedDatabase[];
  readonly left: { database: OwnedDatabase; reason: string }[];
  readonly failed: { database: OwnedDatabase; reason: string }[];
}

/**
 * Drops what has no living owner: clones and probes of dead runs, marked or half-born.
 * Kept clones (`--keep`) stay unless `kept` says so; originals always stay.
 */
export async function clean(
  session: Session,
  options: { kept: boolean; enter: DropOrder['enter'] },
): Promise<CleanResult> {
  const result: CleanResult = { dropped: [], left: [], failed: [] };
  for (const database of await ownedDatabases(session, { sizes: false })) {
    const reason = reasonToLeave(database, options);
    if (reason !== null || !database.run || !database.role) {
      result.left.push({ database, reason: reason ?? 'it cannot be judged' });
      continue;
    }
    try {
      const { name, run, role, oid } = database;
      const order = { name, run, role, oid, ownRun: false, enter: options.enter };
      if (await dropOwnedDatabase(session, order)) result.dropped.push(database);
    } catch (error) {
      result.failed.push({ database, reason: messageOf(error) });
    }
  }
  return result;
}

function reasonToLeave(database: OwnedDatabase, options: { kept: boolean }): string | null {
  if (database.standing === 'foreign') return database.doubt;
  if (database.owning === 'alive') return 'its run is still alive';
  if (database.owning === 'unknown') return 'whether its run is alive cannot be told';
  if (database.role === 'original') return 'it is a kept original';
  if (database.mark?.kept && !options.kept)
    return 'it was kept on request; `safemigrate clean --kept` drops it';
  return null;
}
