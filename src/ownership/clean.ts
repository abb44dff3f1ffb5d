import { messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import { formatDuration } from '../format.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { type DropOrder, dropOwnedDatabase } from './drop.ts';
import { type OwnedDatabase, ownedDatabases } from './owned.ts';
import { dropOwnedPublications, dropOwnedSlot, ownedSlots } from './owned-replication.ts';
import { reopenTargets } from './reopen.ts';
import type { RunId } from './run-id.ts';
import { startOf } from './run-id.ts';

/** Names of the things that were removed, and those that were not, with the reason. */
export interface Cleaning {
  readonly removed: string[];
  readonly left: { readonly name: string; readonly reason: string }[];
  readonly failed: { readonly name: string; readonly reason: string }[];
}

/**
 * Removes one thing after the other. One that cannot be removed does not keep the others.
 * @param reasonToLeave returns null for a thing that can go.
 * @param remove returns false for a thing that was gone already.
 */
export async function cleanEach<T>(
  things: readonly T[],
  nameOf: (thing: T) => string,
  reasonToLeave: (thing: T) => string | null,
  remove: (thing: T) => Promise<boolean>,
): Promise<Cleaning> {
  const result: Cleaning = { removed: [], left: [], failed: [] };
  for (const thing of things) {
    const name = nameOf(thing);
    const reason = reasonToLeave(thing);
    if (reason !== null) {
      result.left.push({ name, reason });
      continue;
    }
    try {
      if (await remove(thing)) result.removed.push(name);
    } catch (error) {
      result.failed.push({ name, reason: messageOf(error) });
    }
  }
  return result;
}

export interface CleanOptions {
  /** Also drops clones that were kept with --keep. */
  readonly kept: boolean;
  /** Also drops originals of swaps: those older than this, or, without an age, those whose own time is over. */
  readonly originals?: { readonly olderThanMs?: number };
  readonly enter: DropOrder['enter'];
  /** The database that the user named. */
  readonly target: string;
  /** After it fires, nothing more is dropped. */
  readonly signal?: AbortSignal;
}

/**
 * Reopens targets that a dead run left closed, and drops what has no living owner: clones and probes of dead runs, marked or
 * unmarked, and their replication slots and publications. Kept clones (`--keep`) and originals stay unless the options say otherwise.
 * @returns also the targets that were reopened.
 */
export async function clean(
  session: Session,
  options: CleanOptions,
): Promise<Cleaning & { readonly reopened: OwnedDatabase[] }> {
  const reopened = await reopenTargets(session);
  const databases = await ownedDatabases(session, { sizes: false });
  const cleaning = await cleanDatabases(session, databases, options);
  return { ...joined(cleaning, await cleanReplication(session, options)), reopened };
}

function cleanDatabases(
  session: Session,
  databases: readonly OwnedDatabase[],
  options: CleanOptions,
): Promise<Cleaning> {
  const { enter } = options;
  return cleanEach(
    databases,
    ({ name }) => name,
    (database) => reasonToLeave(database, options),
    async ({ name, run, role, oid }) =>
      run !== null &&
      role !== null &&
      dropOwnedDatabase(session, { name, run, role, oid, ownRun: false, enter }),
  );
}

function joined(one: Cleaning, other: Cleaning): Cleaning {
  return {
    removed: [...one.removed, ...other.removed],
    left: [...one.left, ...other.left],
    failed: [...one.failed, ...other.failed],
  };
}

/** Drops what one dead run left on the server, but no original: its clone, its replication slot, its publications. */
export async function cleanRun(
  session: Session,
  run: RunId,
  { target, enter }: Pick<CleanOptions, 'target' | 'enter'>,
): Promise<Cleaning> {
  const clones = (await ownedDatabases(session, { sizes: false })).filter(
    (database) => database.run === run && (database.role === 'clone' || database.role === 'made'),
  );
  const options = { kept: false, target, enter };
  const cleaned = await cleanDatabases(session, clones, options);
  const replication = await cleanReplication(session, options, run);
  return joined(cleaned, replication);
}

/** Drops slots and publications of dead runs. Their subscriptions went with their clones. */
async function cleanReplication(session: Session, options: CleanOptions, only?: RunId): Promise<Cleaning> {
  const slots = (await ownedSlots(session)).filter(({ run }) => only === undefined || run === only);
  const cleaned = await cleanEach(
    slots,
    ({ name }) => `replication slot ${name}`,
    ({ owning }) =>
      options.signal?.aborted
        ? 'cleaning was interrupted'
        : owning === 'alive'
          ? 'its run is still alive'
          : null,
    ({ run }) => dropOwnedSlot(session, { run, ownRun: false }),
  );
  for (const database of new Set([options.target, ...slots.map((slot) => slot.database)])) {
    const dropped = await publicationsDropped(database, options);
    cleaned.removed.push(...dropped.map((name) => `publication ${name} in ${database}`));
  }
  return cleaned;
}

/** A database that is closed keeps its publications, which do no harm. */
async function publicationsDropped(
  database: string,
  { enter }: Pick<CleanOptions, 'enter'>,
): Promise<string[]> {
  try {
    return await withSession(enter(database), (inside) => dropOwnedPublications(inside, null));
  } catch (error) {
    if (error instanceof SafemigrateError || sqlstateOf(error) !== undefined) return [];
    throw error;
  }
}

function reasonToLeave(database: OwnedDatabase, options: CleanOptions): string | null {
  if (options.signal?.aborted) return 'cleaning was interrupted';
  if (database.ownershipStatus === 'foreign') return database.doubt;
  if (database.ownershipStatus === 'closed') return 'it is a target, closed for the swap of a run';
  if (database.owning === 'alive') return 'its run is still alive';
  if (database.owning === 'unknown') return 'it is not known whether its run is alive';
  if (database.role === 'original') return reasonToKeep(database, options.originals);
  if (database.mark?.kept && !options.kept)
    return 'it was kept on request; `safemigrate clean --kept` drops it';
  return database.run && database.role ? null : 'it cannot be judged';
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
