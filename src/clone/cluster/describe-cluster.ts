import path from 'node:path';
import { formatBytes, plural } from '../../format.ts';
import { literal } from '../../postgres/sql/quote.ts';
import type { CloneContext } from '../method.ts';
import { backupStatements, RESERVE_WAL, slotName } from './backup.ts';
import { hurriesCheckpoint } from './fill.ts';
import { snapshotCommands } from './snapshot.ts';
import type { Survey } from './survey.ts';

/** The folder that holds everything of the clone. */
export function clusterFolder({ run }: CloneContext, { place }: Survey): string {
  return path.join(place.parent, `safemigrate_${run}`);
}

/** Describes the steps for --plan: statements as they are sent, file operations as SQL comments. */
export function describeCluster(context: CloneContext, survey: Survey): string[] {
  const folder = clusterFolder(context, survey);
  const made = [`-- make the folder ${folder}`];
  const started = [
    `-- start a second server on ${folder}/data, without TCP, as the user of the original; end it and remove the folder after the run`,
  ];
  return [
    ...made,
    ...(survey.snapshots ? bySnapshot(context, survey, folder) : byBackup(context, survey, folder)),
    ...started,
  ];
}

function bySnapshot(context: CloneContext, { snapshots, ...survey }: Survey, folder: string): string[] {
  if (!snapshots) return [];
  const { take, release } = snapshotCommands(snapshots, context.run, folder);
  const taken = take.map((words) => `-- ${words.join(' ')}`);
  const { start, stop } = backupLines(context, survey);
  return [
    ...(snapshots.atomic ? (hurriesCheckpoint(context, survey) ? ['CHECKPOINT'] : []) : start),
    ...taken,
    ...(snapshots.atomic
      ? []
      : [...stop, `-- share or copy the WAL of the backup, from ${survey.layout.wal}`]),
    `-- after the run: ${release}`,
  ];
}

function backupLines(
  context: CloneContext,
  { server }: Pick<Survey, 'server'>,
): Record<'start' | 'stop', string[]> {
  const { start, stop } = backupStatements(server);
  const slot = RESERVE_WAL.replace('$1', literal(slotName(context)));
  const label = start
    .replace('$1', literal(`safemigrate ${context.run}`))
    .replace('$2', String(context.options.checkpoint === 'fast'));
  return { start: [...(server.mayReserve ? [slot] : []), label], stop: [stop] };
}

function byBackup(context: CloneContext, survey: Survey, folder: string): string[] {
  const { layout, strategy } = survey;
  const { start, stop } = backupLines(context, survey);
  const copied = strategy === 'reflink' ? 'share the blocks of' : 'copy';
  return [
    ...start,
    `-- ${copied} the files of ${layout.data}, but for WAL, logs and what belongs to the running server`,
    ...layout.tablespaces.map(
      ({ oid, folder: from }) => `-- ${copied} the tablespace ${from}, as ${folder}/tablespaces/${oid}`,
    ),
    ...stop,
    `-- ${copied} the WAL from the start of the backup to its end, from ${layout.wal}`,
  ];
}

/** Explains for the report why the cluster is copied in this way. */
export function explainStrategy(survey: Survey): string {
  const { server, layout } = survey;
  const whose = server.inRecovery ? "the standby's" : "the server's";
  const others = 'a server of its own on a copy of the files, with no session in the way';
  return `${others}: ${HOW[survey.strategy](survey)} (${whose} data directory ${layout.data})`;
}

const HOW: Record<Survey['strategy'], (survey: Survey) => string> = {
  'btrfs snapshot': (survey) => bySnapshots(survey, 'btrfs subvolume'),
  'zfs snapshot': (survey) => bySnapshots(survey, 'ZFS dataset'),
  reflink: ({ unshared, fileSystem, ...survey }) =>
    `its ${filesWords(survey)} share their blocks with the copy${untried(fileSystem)}` +
    (unshared.length > 0
      ? `, but for ${sizeWords(survey)} in tablespaces on other file systems (${unshared.join(', ')})`
      : ''),
  copy: ({ fileSystem, place, ...survey }) =>
    `${sizeWords(survey)} in ${filesWords(survey)} are copied in full, because ${WHY_NOT[fileSystem](place.parent)}`,
};

/** The number of files, which no other line of a plan repeats: a second count would differ. The target's are an estimate of its catalog. */
function filesWords({ files, allCounted }: Pick<Survey, 'files' | 'allCounted'>): string {
  return `${allCounted ? 'about' : 'more than'} ${plural(files, 'file')}`;
}

/** Says for files that took too long to count what was seen, and what all used space of their file system would be. */
export function sizeWords({ bytes, atMostBytes }: Pick<Survey, 'bytes' | 'atMostBytes'>): string {
  if (atMostBytes <= bytes) return formatBytes(bytes);
  return `more than ${formatBytes(bytes)} (at most ${formatBytes(atMostBytes)}; counting took too long)`;
}

/** Names a way that the tests could not try. */
function untried(fileSystem: Survey['fileSystem']): string {
  const way = fileSystem === 'zfs' ? 'block cloning of ZFS' : process.platform === 'darwin' ? 'APFS' : null;
  return way === null ? '' : `, by ${way}, which was not tried in safemigrate's own tests`;
}

function bySnapshots({ snapshots }: Survey, volume: string): string {
  const { volumes = [], atomic = true } = snapshots ?? {};
  const roots = volumes.map(({ root, dataset }) => dataset ?? root).join(', ');
  const how = atomic ? 'at one moment' : 'in a backup, since not all of it is in one snapshot';
  return `it is stored in ${plural(volumes.length, volume)} (${roots}); snapshots are taken ${how}`;
}

const WHY_NOT: Record<Survey['fileSystem'], (parent: string) => string> = {
  xfs: (parent) =>
    `files in ${parent} cannot share blocks with it: the XFS was created without reflink=1, or it is another file system`,
  btrfs: (parent) => `files in ${parent} cannot share blocks with it: it is another file system`,
  zfs: (parent) =>
    `files in ${parent} cannot share blocks with it: that needs OpenZFS 2.2 with block cloning, and the same dataset; ` +
    'snapshots need root (on Linux only root may mount a clone, whatever `zfs allow` permits), and all parts on ZFS',
  other: () => 'its file system cannot share blocks between files (XFS, btrfs and ZFS can)',
};
