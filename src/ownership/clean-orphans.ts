import { messageOf } from '../errors.ts';
import { formatDuration } from '../format.ts';
import type { Session } from '../postgres/connection/session.ts';
import { type DropOrder, dropOwnedDatabase } from './drop.ts';
import { type OwnedDatabase, ownedDatabases } from './owned.ts';
import { reopenTargets } from './reopen.ts';
import { startOf } from './run-id.ts';

export interface CleanResult {
  /** Targets that a dead run had closed for a swap. */
  readonly reopened: OwnedDatabase[];
  readonly dropped: OwnedDatabase[];
  readonly left: { database: OwnedDatabase; reason: string }[];
  readonly failed: { database: OwnedDatabase; reason: string }[];
}

export interface CleanOptions {
  /** Also drops clones that were kept with --keep. */
  readonly kept: boolean;
  /** Also drops originals of swaps: those older than this, or, without an age, those whose own time is over. */
  readonly originals?: { readonly olderThanMs?: number };
  readonly enter: DropOrder['enter'];
  /** After it fires, nothing more is dropped. */
  readonly signal?: AbortSignal;
}

/**
 * Reopens targets that a dead run left closed, and drops what has no living owner: clones and probes of dead runs, marked or
 * unmarked. Kept clones (`--keep`) and originals stay unless the options say otherwise.
 */
export async function clean(session: Session, options: CleanOptions): Promise<CleanResult> {
  const result: CleanResult = {
    reopened: await reopenTargets(session),
    dropped: [],
    left: [],
    failed: [],
  };
  for (const database of await ownedDatabases(session, { sizes: false })) {
    const reason = options.signal?.aborted ? 'cleaning was interrupted' : reasonToLeave(database, options);
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

function reasonToLeave(database: OwnedDatabase, options: CleanOptions): string | null {
  if (database.ownershipStatus === 'foreign') return database.doubt;
  if (database.ownershipStatus === 'closed') return 'it is a target, closed for the swap of a run';
  if (database.owning === 'alive') return 'its run is still alive';
  if (database.owning === 'unknown') return 'it is not known whether its run is alive';
  if (database.role === 'original') return reasonToKeep(database, options.originals);
  if (database.mark?.kept && !options.kept)
    return 'it was kept on request; `safemigrate clean --kept` drops it';
  return null;
}

function reasonToKeep({ run, mark }: OwnedDatabase, asked: CleanOptions['originals']): string | null {
  if (asked === undefined)
    return 'it is a kept original; `safemigrate clean --originals` drops those whose time is over';
  if (asked.olderThanMs !== undefined)
    return run === null || Date.now() - startOf(run) < asked.olderThanMs
      ? 'it is a kept original, and not that old'
      : null;
  if (mark?.keepUntil === undefined)
    return 'it is a kept original, and no time was set for it; with --older-than its age decides';
  const leftMs = Date.parse(mark.keepUntil) - Date.now();
  return leftMs > 0 ? `it is an original that is to be kept for another ${formatDuration(leftMs)}` : null;
}
