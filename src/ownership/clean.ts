import { readWalSpace, shortOfSpace } from '../database/wal-space.ts';
import { messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { type DropOrder, dropOwnedDatabase } from './drop.ts';
import { type OwnedDatabase, ownedDatabases } from './owned.ts';
import { dropOwnedPublications, dropOwnedSlot, ownedSlots } from './owned-replication.ts';
import { type Disposal, reasonToKeep } from './put-aside.ts';
import { reopenTargets } from './reopen.ts';
import type { RunId } from './run-id.ts';
import {
  dropWayBackObjects,
  endWayBack,
  findWayBacks,
  isInUse,
  isOver,
  resumeWayBack,
  runsInReturn,
  type WayBack,
} from './way-back.ts';

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
  readonly originals?: Disposal;
  /** Also drops databases that a rollback put aside: those older than this, or, without an age, all. */
  readonly rolledBack?: Disposal;
  readonly enter: DropOrder['enter'];
  /** How the server is reached: its disk may be on this machine. */
  readonly settings: ConnectionSettings;
  /** The database that the user named. */
  readonly target: string;
  /** After it fires, nothing more is dropped. */
  readonly signal?: AbortSignal;
}

/**
 * Reopens targets that a dead run left closed, and drops what has no living owner: clones and probes of dead runs, marked or
 * unmarked, and their replication slots and publications. Kept clones (`--keep`) and databases that were put aside stay unless the options say otherwise.
 * Ways back that are over are ended, and those that have stopped are started again.
 * @returns also the targets that were reopened.
 */
export async function clean(
  session: Session,
  options: CleanOptions,
): Promise<Cleaning & { readonly reopened: OwnedDatabase[] }> {
  const reopened = await reopenTargets(session);
  const wayBacks = await cleanWayBacks(session, options);
  const databases = await ownedDatabases(session, { sizes: false });
  const cleaning = joined(wayBacks, await cleanDatabases(session, databases, options));
  return { ...joined(cleaning, await cleanReplication(session, options)), reopened };
}

/** Most WAL that the slot of a way back keeps whose original follows closely. */
const KEPT_BY_ALL = 64 * 2 ** 20;

type Where = Pick<CleanOptions, 'enter' | 'settings'>;

/** Ends the ways back that are over or lost, or fill the disk, and starts those again that have stopped. */
async function cleanWayBacks(
  session: Session,
  { signal, ...where }: Where & Pick<CleanOptions, 'signal'>,
): Promise<Cleaning> {
  const ending = new Map<WayBack, string>();
  const stopped: WayBack[] = [];
  for (const each of await findWayBacks(session)) {
    if (await isInUse(session, each)) continue;
    const reason = each.broken?.kind === 'lost' ? '' : await reasonToEnd(session, each, where);
    if (reason !== null) ending.set(each, reason);
    else if (each.broken?.kind === 'stopped') stopped.push(each);
  }
  const nameOf = ({ original }: WayBack) => `way back of ${original.name}`;
  const cleaned = await cleanEach(
    [...ending.keys()],
    (each) => [nameOf(each), ending.get(each) || []].flat().join(': '),
    () => (signal?.aborted ? 'cleaning was interrupted' : null),
    async (each) => {
      await endWayBack(session, each, where.enter);
      return true;
    },
  );
  for (const each of stopped) {
    const name = nameOf(each);
    await resumeWayBack(session, each.original, where.enter).then(
      () => cleaned.left.push({ name, reason: 'it had stopped, and was started again' }),
      (error: unknown) => cleaned.failed.push({ name, reason: messageOf(error) }),
    );
  }
  return cleaned;
}

/** @returns null: it can go on; an empty text: its time is over. */
async function reasonToEnd(session: Session, wayBack: WayBack, { settings }: Where): Promise<string | null> {
  const space = await readWalSpace(session, { settings }, wayBack.content.leastFreeBytes ?? null);
  const short = shortOfSpace(space);
  if (short !== undefined && (wayBack.keptBytes ?? 0) > KEPT_BY_ALL) return short;
  return isOver(wayBack) ? '' : null;
}

/**
 * Ends the way back of a run if it is over or fills the disk. A lost one keeps no WAL, and `rollback` says why it is lost.
 * @returns when it is over, in milliseconds since 1970; null if there is none any more.
 */
export async function endWayBackInTime(session: Session, run: RunId, where: Where): Promise<number | null> {
  const mine = (await findWayBacks(session)).find(({ original }) => original.run === run);
  if (!mine) return null;
  const until = Date.parse(mine.content.until);
  if (await isInUse(session, mine)) return until;
  if ((await reasonToEnd(session, mine, where)) === null) return until;
  await endWayBack(session, mine, where.enter);
  return null;
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
    async ({ name, run, role, oid }) => {
      if (run === null || role === null) return false;
      const wayBack = (await findWayBacks(session)).find(({ original }) => original.oid === oid);
      if (wayBack) await endWayBack(session, wayBack, enter);
      return dropOwnedDatabase(session, { name, run, role, oid, ownRun: false, enter });
    },
  );
}

function joined(one: Cleaning, other: Cleaning): Cleaning {
  return {
    removed: [...one.removed, ...other.removed],
    left: [...one.left, ...other.left],
    failed: [...one.failed, ...other.failed],
  };
}

/**
 * Drops what dead runs left on the server, but nothing that was put aside: clones, replication slots, publications. A way back that has not begun is
 * ended, one that has stopped is started again.
 */
export async function cleanRuns(
  session: Session,
  runs: readonly RunId[],
  where: Pick<CleanOptions, 'target' | 'enter' | 'settings'>,
): Promise<Cleaning> {
  const clones = (await ownedDatabases(session, { sizes: false })).filter(
    ({ run, role }) => run !== null && runs.includes(run) && (role === 'clone' || role === 'made'),
  );
  const options = { kept: false, ...where };
  const wayBacks = await cleanWayBacks(session, options);
  const cleaned = joined(wayBacks, await cleanDatabases(session, clones, options));
  return joined(cleaned, await cleanReplication(session, options, runs));
}

/**
 * Drops slots and publications of dead runs. Their subscriptions went with their clones, but for those of a way back whose original is
 * the target again.
 */
async function cleanReplication(
  session: Session,
  options: CleanOptions,
  only?: readonly RunId[],
): Promise<Cleaning> {
  const returning = runsInReturn(await findWayBacks(session));
  const slots = (await ownedSlots(session)).filter(
    ({ run, wayBack }) => (only?.includes(run) ?? true) && !(wayBack && returning.has(run)),
  );
  const cleaned = await cleanEach(
    slots,
    ({ name }) => `replication slot ${name}`,
    ({ owning }) =>
      options.signal?.aborted
        ? 'cleaning was interrupted'
        : owning === 'alive'
          ? 'its run is still alive'
          : null,
    async (slot) => {
      if (slot.wayBack) return (await dropWayBackObjects(session, slot.run, options)).length > 0;
      return dropOwnedSlot(session, { run: slot.run, ownRun: false });
    },
  );
  for (const database of new Set([options.target, ...slots.map((slot) => slot.database)])) {
    const dropped = await publicationsDropped(database, returning, options);
    cleaned.removed.push(...dropped.map((name) => `publication ${name} in ${database}`));
  }
  return cleaned;
}

/** A database that is closed keeps its publications, which do no harm. */
async function publicationsDropped(
  database: string,
  returning: ReadonlySet<RunId>,
  { enter }: Pick<CleanOptions, 'enter'>,
): Promise<string[]> {
  try {
    return await withSession(enter(database), (inside) =>
      dropOwnedPublications(inside, null, { inUse: returning }),
    );
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
  if (database.role === 'original') return reasonToKeep(database, 'original', options.originals);
  if (database.role === 'rolled-back') return reasonToKeep(database, 'rolled-back', options.rolledBack);
  if (database.mark?.kept && !options.kept)
    return 'it was kept on request; `safemigrate clean --kept` drops it';
  return database.run && database.role ? null : 'it cannot be judged';
}
