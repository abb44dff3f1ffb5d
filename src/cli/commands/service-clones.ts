import {
  type CloneAtService,
  cleanAtService,
  clonesAtService,
  type NamedService,
} from '../../clone/services/own-clones.ts';
import { serviceNamed } from '../../clone/services/service-list.ts';
import type { RecordedService } from '../../clone/services/service-records.ts';
import { parseSource, sourceOfHost } from '../../clone/services/service-source.ts';
import { messageOf } from '../../errors.ts';
import type { Cleaning } from '../../ownership/clean.ts';
import { openMaintenanceSession } from '../../ownership/control-session.ts';
import { runIsAlive } from '../../ownership/owned.ts';
import type { UnreadableFile } from '../../ownership/state-files.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import type { OptionsOf } from '../../settings.ts';
import type { LIST_SETTINGS } from '../options/subcommand-settings.ts';
import { findNamedPlace } from '../read-options.ts';
import { textTable } from '../style.ts';

type Named = Pick<OptionsOf<typeof LIST_SETTINGS>, 'target' | 'clone'>;

/** Returns the service that --clone names, and the source by SAFEMIGRATE_CLONE_OF or the target's host; undefined without. */
async function namedService(
  { target, clone }: Named,
  signal: AbortSignal,
): Promise<NamedService | undefined> {
  const service = await serviceNamed(clone?.method ?? 'auto');
  const place = findNamedPlace(target);
  const of = clone?.of ?? (service && place && sourceOfHost(service, place));
  if (service === undefined || of == null) return undefined;
  const [address] = place?.settings.hosts ?? [];
  return {
    service,
    source: parseSource(service, of),
    ...(place &&
      address && {
        target: {
          ...address,
          holdsLock: (run) =>
            withSession(openMaintenanceSession(place, { purpose: 'clean', signal }), (session) =>
              runIsAlive(session, run, null),
            ),
        },
      }),
  };
}

export async function listedAtService(options: Named, signal: AbortSignal): Promise<CloneAtService[]> {
  const named = await namedService(options, signal);
  return named === undefined ? [] : clonesAtService(named);
}

/** Removes clones of dead runs at the named service. A service that does not answer is a failure among others. */
export async function cleanedAtService(
  options: Named & { readonly kept?: boolean | undefined },
  signal: AbortSignal,
): Promise<Cleaning> {
  const named = await namedService(options, signal);
  if (named === undefined) return { removed: [], left: [], failed: [] };
  try {
    return await cleanAtService(named, { kept: options.kept ?? false });
  } catch (error) {
    return { removed: [], left: [], failed: [{ name: named.service.title, reason: messageOf(error) }] };
  }
}

type Recorded = (RecordedService | UnreadableFile)[];

/** Clones at the service that are not recorded here. */
function othersAtService(recorded: Recorded, atService: readonly CloneAtService[]): CloneAtService[] {
  const names = recorded.flatMap((each) => ('entry' in each ? [each.entry.name] : []));
  return atService.filter(({ clone }) => !names.includes(clone.name));
}

export function serviceRows(recorded: Recorded, atService: readonly CloneAtService[]): object[] {
  return [
    ...recorded.map((each) => {
      if ('unreadable' in each) return each;
      const { service, name, run, target, kept } = each.entry;
      return { service, name, run, role: 'clone', owning: each.state, kept, target };
    }),
    ...othersAtService(recorded, atService).map(({ clone: { name }, state, expiresAt, reason }) => ({
      name,
      role: 'clone',
      owning: state,
      kept: state === 'kept',
      expiresAt,
      doubt: reason,
    })),
  ];
}

export function servicesAsText(recorded: Recorded, atService: readonly CloneAtService[]): string {
  const rows = [
    ...recorded.map((each) => {
      if ('unreadable' in each) return [each.file, `an entry that cannot be read: ${each.unreadable}`];
      return [each.entry.name, `${STATES[each.state]} of ${each.entry.target.database} at ${each.title}`];
    }),
    ...othersAtService(recorded, atService).map(({ clone: { name }, state, reason }) => [
      name,
      `${STATES[state]}${reason === null ? '' : `: ${reason}`}`,
    ]),
  ];
  return rows.length === 0 ? '' : `At services:\n${textTable(['CLONE', 'STATE'], rows)}`;
}

const STATES: Record<CloneAtService['state'], string> = {
  alive: 'clone in use',
  kept: 'kept clone',
  dead: 'clone left by a dead run',
  unknown: 'clone of a run that may be alive',
  foreign: 'not provably ours',
};
