import { type Cleaning, cleanEach } from '../../ownership/clean.ts';
import type { RunId } from '../../ownership/run-id.ts';
import type { UnreadableFile } from '../../ownership/state-files.ts';
import type { CloneService, ServiceClone, Source } from './clone-service.ts';
import { cleaningCli, destroyClone } from './destroy-clone.ts';
import { serviceOf } from './service-list.ts';
import { looksLikeOurs, parseCloneName, serverDigits } from './service-name.ts';
import { type RecordedService, recordedServices, removeServiceEntry } from './service-records.ts';

/** A service that was named, and its source. */
export interface NamedService {
  readonly service: CloneService;
  readonly source: Source;
  /** The target's server, where a living run holds its lock. */
  readonly target?: { readonly host: string; readonly port: number; holdsLock(run: RunId): Promise<boolean> };
}

/** A clone that safemigrate made at a service, from any machine, or that looks like one. */
export interface CloneAtService {
  readonly clone: ServiceClone;
  readonly state: 'alive' | 'kept' | 'dead' | 'unknown' | 'foreign';
  readonly expiresAt: string | null;
  /** Why it is not removed; null for one that can go. */
  readonly reason: string | null;
}

/** Lists our clones at the service. The local records are those of this user on this machine. */
export async function clonesAtService(named: NamedService): Promise<CloneAtService[]> {
  const { service, source } = named;
  // Clones are listed before the locks are read, so that a run which starts in between never looks dead.
  const found = (await service.list(cleaningCli(service), source)).filter(
    ({ name, state }) => looksLikeOurs(name) && state !== 'deleting',
  );
  const recorded = await recordedServices();
  return Promise.all(found.map((clone) => judge(clone, named, recorded)));
}

/** The clocks of two machines may differ by so much: a clone that expired just now may still be used by its run. */
const CLOCK_DIFFERENCE_MS = 10 * 60_000;

async function judge(
  clone: ServiceClone,
  { target }: NamedService,
  recorded: readonly (RecordedService | UnreadableFile)[],
): Promise<CloneAtService> {
  const mark = parseCloneName(clone.name);
  if (mark === null || clone.doubt !== null) {
    const reason = clone.doubt ?? 'its name begins like ours, but is not one that safemigrate gives';
    return { clone, state: 'foreign', expiresAt: null, reason };
  }
  const { expiresAt } = mark;
  const is = (state: CloneAtService['state'], reason: string | null) => ({ clone, state, expiresAt, reason });
  const ours = recorded.find((each) => 'entry' in each && each.entry.name === clone.name);
  const own = ours && 'entry' in ours ? ours.state : 'unknown';
  if (own === 'alive') return is('alive', 'its run is still alive');
  const isItsTarget = target !== undefined && serverDigits(target) === mark.place;
  if (isItsTarget && (await target.holdsLock(mark.run))) return is('alive', 'its run is still alive');
  if (Date.parse(expiresAt) + CLOCK_DIFFERENCE_MS < Date.now()) return is('dead', null);
  if (own === 'kept' || mark.kept)
    return is('kept', `it was kept on request until ${expiresAt}; \`safemigrate clean --kept\` removes it`);
  if (own === 'dead' || isItsTarget) return is('dead', null);
  return is(
    'unknown',
    `it is not known here whether its run is alive: name its target as the run did, or wait until 10 minutes after ${expiresAt}`,
  );
}

/** Removes the clones of dead runs at the service, from any machine; kept ones only if `kept` is set. */
export async function cleanAtService(named: NamedService, { kept }: { kept: boolean }): Promise<Cleaning> {
  const { service, source } = named;
  return cleanEach(
    await clonesAtService(named),
    ({ clone }) => `${clone.name} at ${service.title}`,
    ({ state, reason }) => (kept && state === 'kept' ? null : reason),
    ({ clone }) => destroyClone(service, source, clone.name),
  );
}

/** Removes the clones that this machine has recorded, if their runs are dead; kept ones only if `kept` is set. */
export async function cleanRecordedServices({ kept }: { kept: boolean }): Promise<Cleaning> {
  return cleanEach(
    await recordedServices(),
    (found) => ('entry' in found ? `${found.entry.name} at ${found.title}` : found.file),
    (found) => reasonToLeave(found, kept),
    async (found) => {
      if (!('entry' in found)) return false;
      const { service: id, source, name } = found.entry;
      const removed = await destroyClone(await serviceOf(id), source, name);
      await removeServiceEntry(found.entry);
      return removed;
    },
  );
}

function reasonToLeave(found: RecordedService | UnreadableFile, clearsKept: boolean): string | null {
  if ('unreadable' in found) return `it cannot be read: ${found.unreadable}`;
  const { state } = found;
  if (state === 'alive') return 'its run is still alive';
  if (state === 'unknown') return 'it is not known here whether its run is alive';
  if (state === 'kept' && !clearsKept) return 'it was kept on request; `safemigrate clean --kept` removes it';
  return null;
}
