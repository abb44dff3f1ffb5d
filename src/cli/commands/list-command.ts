import { type InspectedApply, inspectInterruptedApplies } from '../../apply/journal.ts';
import { recordedServices } from '../../clone/services/service-records.ts';
import { formatBytes, formatDuration, formatTime } from '../../format.ts';
import { folderBytes, type RecordedFolder, recordedFolders } from '../../local-server/recorded-folders.ts';
import { openMaintenanceSession } from '../../ownership/control-session.ts';
import { isPostponed } from '../../ownership/cut-over-order.ts';
import { type ExternalClone, externalClones } from '../../ownership/external-clones.ts';
import type { PutAside } from '../../ownership/mark.ts';
import { type OwnedDatabase, ownedDatabases } from '../../ownership/owned.ts';
import { type OwnedSlot, ownedSlots } from '../../ownership/owned-replication.ts';
import { isPutAside, putAsideAt } from '../../ownership/put-aside.ts';
import { whoMayWait } from '../../ownership/reopen.ts';
import { type RunId, startOf } from '../../ownership/run-id.ts';
import type { UnreadableFile } from '../../ownership/state-files.ts';
import { isOver, readWayBacks, type WayBack } from '../../ownership/way-back.ts';
import { LIST_SETTINGS } from '../options/subcommand-settings.ts';
import { findNamedPlace, gatherOptions, nameServer } from '../read-options.ts';
import { textTable } from '../style.ts';
import { interruptedAppliesText } from './interrupted-applies.ts';
import { listedAtService, serviceRows, servicesAsText } from './service-clones.ts';

/**
 * Shows what safemigrate made on this machine, and if a target is named, on its server. Changes nothing. The machine's part is
 * shown even if the server does not answer.
 */
export async function listCommand(flags: Record<string, unknown>, signal: AbortSignal): Promise<number> {
  const options = await gatherOptions(LIST_SETTINGS, flags);
  const folders = await withBytes(await recordedFolders());
  const externals = await externalClones();
  const services = await recordedServices();
  const atService = await listedAtService(options, signal);
  if (options.format !== 'json')
    process.stdout.write(
      foldersAsText(folders) + externalsAsText(externals) + servicesAsText(services, atService),
    );
  const applies = await inspectInterruptedApplies(findNamedPlace(options.target)?.settings);
  if (options.format !== 'json') process.stdout.write(interruptedAppliesText(applies));
  const onServer = await databasesOf(options.target, signal);
  if (options.format === 'json')
    process.stdout.write(
      asJson(
        onServer?.databases ?? [],
        onServer?.wayBacks ?? [],
        folders,
        [
          ...elsewhereRows(externals),
          ...serviceRows(services, atService),
          ...slotRows(onServer?.slots ?? []),
        ],
        applies,
      ),
    );
  else if (onServer) process.stdout.write(databasesAsText(onServer) + slotsAsText(onServer.slots));
  else if ([folders, externals, services, atService, applies].every(({ length }) => length === 0))
    process.stdout.write(NOTHING_HERE);
  return 0;
}

export const NOTHING_HERE =
  'Nothing of safemigrate is on this machine. For what is on a server, name a database there with --url.\n';

type Listed = (RecordedFolder & { bytes: number | null }) | UnreadableFile;

function withBytes(found: (RecordedFolder | UnreadableFile)[]): Promise<Listed[]> {
  return Promise.all(
    found.map(async (each) => ('unreadable' in each ? each : { ...each, bytes: await folderBytes(each) })),
  );
}

interface OnServer {
  readonly databases: OwnedDatabase[];
  readonly slots: OwnedSlot[];
  readonly wayBacks: WayBack[];
  readonly server: string;
}

async function databasesOf(
  options: Parameters<typeof findNamedPlace>[0],
  signal: AbortSignal,
): Promise<OnServer | undefined> {
  const target = findNamedPlace(options);
  if (!target) return undefined;
  const session = await openMaintenanceSession(target, { purpose: 'list', signal });
  try {
    const databases = await ownedDatabases(session);
    const wayBacks = await readWayBacks(session, databases);
    const known = new Set(wayBacks.map(({ original }) => original.run));
    const slots = (await ownedSlots(session)).filter(({ run, wayBack }) => !(wayBack && known.has(run)));
    return { databases, slots, wayBacks, server: nameServer(target) };
  } finally {
    await session.close();
  }
}

function asJson(
  databases: OwnedDatabase[],
  wayBacks: WayBack[],
  folders: Listed[],
  elsewhere: object[],
  applies: InspectedApply[],
): string {
  const rows = databases.map(({ mark, ...database }) => ({
    ...database,
    state: mark?.state ?? null,
    kept: mark?.kept ?? false,
    keepUntil: mark?.keepUntil ?? null,
    putAsideAt: mark?.putAsideAt ?? null,
    pgbouncer: mark?.pgbouncer ?? [],
    wayBack: wayBackRow(wayBacks.find(({ original }) => original.oid === database.oid)),
    startedAt: database.run ? new Date(startOf(database.run)).toISOString() : null,
  }));
  const clones = folders.map((each) => {
    if ('unreadable' in each) return each;
    const { run, holds, folder, socketFolder, target, endsAt, kept } = each.entry;
    const startedAt = new Date(startOf(run)).toISOString();
    const { state: owning, present, bytes: sizeBytes } = each;
    return {
      folder,
      run,
      role: holds,
      owning,
      present,
      kept,
      target,
      socketFolder,
      sizeBytes,
      startedAt,
      endsAt,
    };
  });
  const interrupted = applies.map(({ head, state, ...known }) => ({
    ...head,
    ...known,
    role: 'apply',
    owning: state,
  }));
  return `${JSON.stringify([...rows, ...clones, ...elsewhere, ...interrupted], null, 2)}\n`;
}

function wayBackRow(wayBack: WayBack | undefined): object | null {
  if (!wayBack) return null;
  const { content, broken, behindBytes, keptBytes } = wayBack;
  return { until: content.until, behindBytes, keptBytes, broken };
}

function elsewhereRows(externals: (ExternalClone | UnreadableFile)[]): object[] {
  return externals.map((each) => {
    if ('unreadable' in each) return each;
    const { run, url, target, kept } = each.entry;
    const startedAt = new Date(startOf(run)).toISOString();
    return { external: url, run, role: 'clone', owning: each.state, kept, target, startedAt };
  });
}

function slotRows(slots: readonly OwnedSlot[]): object[] {
  return slots.map((slot) => ({
    ...slot,
    role: 'slot',
    startedAt: new Date(startOf(slot.run)).toISOString(),
  }));
}

function slotsAsText(slots: readonly OwnedSlot[]): string {
  if (slots.length === 0) return '';
  const rows = slots.map(({ name, database, owning, run, keptBytes }) => [
    name,
    `slot of ${database}, of a run that is ${owning}`,
    startedAgo(run),
    keptBytes === null ? 'lost' : formatBytes(keptBytes),
  ]);
  return `Replication slots:\n${textTable(['SLOT', 'RUN', 'STARTED', 'KEEPS WAL'], rows)}`;
}

function foldersAsText(folders: Listed[]): string {
  if (folders.length === 0) return '';
  const rows = folders.map((each) => {
    if ('unreadable' in each)
      return [each.file, `an entry that cannot be read: ${each.unreadable}`, '', '', ''];
    const { run, folder, target, endsAt } = each.entry;
    return [
      folder,
      `${folderState(each)} of ${target}`,
      startedAgo(run),
      each.bytes === null ? '?' : formatBytes(each.bytes),
      endsIn(endsAt),
    ];
  });
  return `On this machine:\n${textTable(['FOLDER', 'WHAT IT IS', 'STARTED', 'TAKES', 'ENDS'], rows)}`;
}

function externalsAsText(externals: (ExternalClone | UnreadableFile)[]): string {
  if (externals.length === 0) return '';
  const rows = externals.map((each) => {
    if ('unreadable' in each) return [each.file, `an entry that cannot be read: ${each.unreadable}`, ''];
    const { run, target, url } = each.entry;
    const what = `${EXTERNAL[each.state]} of ${target.database} on ${target.host}`;
    return [url || `run ${run}`, what, startedAgo(run)];
  });
  return `Elsewhere, by commands of yours:\n${textTable(['CLONE', 'WHAT IT IS', 'STARTED'], rows)}`;
}

const EXTERNAL: Record<ExternalClone['state'], string> = {
  alive: 'clone in use,',
  kept: 'kept clone',
  dead: 'clone left by a dead run,',
  unknown: 'clone; whether its run is alive is not known;',
};

function folderState({ entry, state, present }: RecordedFolder): string {
  const { holds } = entry;
  if (!present) return `${holds} whose folder is gone,`;
  const words = {
    alive: `${holds} in use,`,
    kept: `kept ${holds}`,
    dead: `${holds} left by a dead run,`,
    unknown: `${holds}; whether its run is alive is not known;`,
  };
  return words[state];
}

/** The clock may have been set back since. */
function startedAgo(run: RunId): string {
  return `${formatDuration(Math.max(0, Date.now() - startOf(run)))} ago`;
}

function endsIn(endsAt: string | null): string {
  if (endsAt === null) return 'with its run';
  const left = Date.parse(endsAt) - Date.now();
  return left > 0 ? `in ${formatDuration(left)}` : 'overdue';
}

function databasesAsText({ databases, wayBacks, server }: OnServer): string {
  if (databases.length === 0) return `Nothing of safemigrate is on ${server}.\n`;
  const rows = databases.map((database) => [
    database.name,
    whatItIs(database) + wayBackWords(wayBacks.find(({ original }) => original.oid === database.oid)),
    database.run ? startedAgo(database.run) : '',
    database.sizeBytes === null ? '?' : formatBytes(database.sizeBytes),
    String(database.sessions),
  ]);
  const asides = new Set(
    databases.flatMap(({ role, ownershipStatus }) =>
      isPutAside(role) && ownershipStatus === 'marked' ? [CLEANING[role]] : [],
    ),
  );
  const notes = asides.size === 0 ? '' : closedNote([...asides]);
  return `On ${server}:\n${textTable(['DATABASE', 'WHAT IT IS', 'STARTED', 'SIZE', 'SESSIONS'], rows)}${notes}`;
}

const CLEANING: Readonly<Record<PutAside, string>> = {
  original: '--originals',
  'rolled-back': '--rolled-back',
};

function closedNote(flags: readonly string[]): string {
  const cleaning = `safemigrate clean ${flags.join(' ')} --older-than 0s`;
  return `Databases that were put aside are closed, which pg_upgrade refuses: drop them before it, with \`${cleaning}\`.\n`;
}

/** Describes a database in a phrase that also says what `clean` would do with it. */
function whatItIs(database: OwnedDatabase): string {
  const { ownershipStatus, owning, role, mark, doubt } = database;
  if (ownershipStatus === 'foreign') return `not provably ours: ${doubt}`;
  if (ownershipStatus === 'closed')
    return owning === 'dead'
      ? `target that the swap of a dead run has closed: \`safemigrate clean\` opens it${whoMayWait(database)}`
      : 'target that is closed for the swap of a run';
  const what = `${ownershipStatus === 'unmarked' ? 'half-made ' : mark?.kept ? 'kept ' : ''}${role}`;
  if (isPostponed(database))
    return `${what} that follows the target: \`safemigrate cut-over ${database.run}\` swaps it`;
  if (owning === 'alive') return `${what} of a run that is alive`;
  if (owning === 'unknown') return `${what}; whether its run is alive is not known`;
  if (role === 'original') return `${what}${timeLeft(mark?.keepUntil)}`;
  if (role === 'rolled-back') return rolledBackWords(database);
  return mark?.kept ? what : `${what} of a dead run`;
}

/** `; follows as the way back for another 23 h, 12 kB behind, 34 MB of WAL kept` */
function wayBackWords(wayBack: WayBack | undefined): string {
  if (!wayBack || wayBack.original.owning === 'alive') return '';
  const { content, broken, behindBytes, keptBytes } = wayBack;
  const kept = `${formatBytes(behindBytes ?? 0)} behind, ${formatBytes(keptBytes ?? 0)} of WAL kept`;
  if (isOver(wayBack)) return `; its way back is over: \`safemigrate clean\` ends it (${kept})`;
  if (broken) {
    const since = broken.since === null ? '' : ` since ${formatTime(broken.since)}`;
    return `; its way back is broken${since}: ${broken.reason} (${kept})`;
  }
  const leftMs = Date.parse(content.until) - Date.now();
  return `; follows as the way back for another ${formatDuration(leftMs)}, ${kept}`;
}

/** `rolled-back database: the migrated one, which a rollback put aside 3 h ago; it may have rows that are nowhere else` */
function rolledBackWords(database: OwnedDatabase): string {
  const at = putAsideAt(database);
  const when = at === null ? '' : ` ${formatDuration(Math.max(0, Date.now() - at))} ago`;
  return `rolled-back database: the migrated one, which a rollback put aside${when}; only \`safemigrate clean --rolled-back\` drops it`;
}

function timeLeft(keepUntil: string | undefined): string {
  if (keepUntil === undefined) return '';
  const leftMs = Date.parse(keepUntil) - Date.now();
  return leftMs > 0
    ? `, to be kept for another ${formatDuration(leftMs)}`
    : ' whose time is over: `safemigrate clean --originals` drops it';
}
