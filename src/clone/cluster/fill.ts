import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { SafemigrateError } from '../../errors.ts';
import { plural } from '../../format.ts';
import type { Caveat } from '../../model/report.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import type { Scope } from '../../scope.ts';
import type { CloneContext } from '../method.ts';
import type { FilledFolder } from '../private/private-server.ts';
import type { BackupEnd } from './backup.ts';
import { type Backup, openBackupSession, startBackup } from './backup.ts';
import type { Layout } from './cluster-layout.ts';
import { readTablespaces } from './cluster-layout.ts';
import { Copier } from './copier.ts';
import { copyCluster } from './copy-tree.ts';
import { arrangeSnapshots, takeSnapshots } from './snapshot.ts';
import type { SourceServer } from './source-server.ts';
import type { Survey } from './survey.ts';
import type { Snapshots } from './volumes.ts';

/** Creates `data` and `tablespaces/<oid>` in the folder, ready for recovery. */
export async function fillFolder(
  context: CloneContext,
  survey: Survey,
  folder: string,
  scope: Scope,
): Promise<FilledFolder> {
  const { snapshots } = survey;
  if (snapshots?.atomic) return fillBySnapshot(context, survey, snapshots, folder);
  const backup = await startBackup(context, survey, scope);
  return snapshots
    ? fillBySnapshotsInBackup(context, survey, { snapshots, backup }, folder)
    : fillByBackup(context, survey, backup, folder);
}

async function fillByBackup(
  context: CloneContext,
  survey: Survey,
  backup: Backup,
  folder: string,
): Promise<FilledFolder> {
  const copier = makeCopier(context, survey, backup, folder);
  try {
    await copyCluster(survey.layout, folder, copier, progress(context, survey));
    await completeBackup(survey, backup, folder, copier);
    return {
      touched: backupTraces(context, survey, backup),
      caveats: [...leftOutCaveats(survey), ...standbyCaveats(context)],
      databases: survey.layout.databases,
    };
  } finally {
    await backup.close();
    await copier.dispose();
  }
}

/** Ends the backup, and adds to the copy what its recovery needs. */
async function completeBackup(survey: Survey, backup: Backup, folder: string, copier: Copier): Promise<void> {
  const end = await backup.stop();
  await refuseNewTablespaces(survey);
  const label = path.join(folder, 'data', 'backup_label');
  await writeFile(label, end.label, { mode: 0o600, flag: 'wx' });
  copier.own(label);
  await copyWal(survey.layout, survey.server, end, folder, copier);
  await backup.refusePromoted();
}

function makeCopier(
  { options }: CloneContext,
  { strategy, bytes, directory }: Survey,
  { signal }: Backup,
  folder: string,
): Copier {
  return new Copier({
    folder,
    owner: process.getuid?.() === 0 ? directory.owner : null,
    share: strategy !== 'copy',
    // A database grows while it is copied.
    maxCopyBytes: Math.max(options.maxCopyBytes, bytes * GROWTH),
    signal,
  });
}

const GROWTH = 1.5;
const PROGRESS_MS = 100;

function progress({ emit }: CloneContext, { files }: Survey): () => void {
  let done = 0;
  let told = performance.now();
  return () => {
    done += 1;
    const now = performance.now();
    if (now - told < PROGRESS_MS) return;
    told = now;
    emit({ type: 'progress', phase: 'clone', done, of: Math.max(files, done), unit: 'files' });
  };
}

/**
 * Refuses a tablespace created during the copy: recovery would replay CREATE TABLESPACE with a link to the original's folder.
 * @throws SafemigrateError `CLONE`
 */
async function refuseNewTablespaces({ layout }: Survey): Promise<void> {
  const now = await readTablespaces(layout.data);
  const known = new Set(layout.tablespaces.map(({ oid }) => oid));
  if (now.every(({ oid }) => known.has(oid))) return;
  throw new SafemigrateError('CLONE', 'A tablespace was created on the server while it was copied.', {
    hint: 'The incomplete clone was removed; try again.',
  });
}

async function fillBySnapshot(
  context: CloneContext,
  survey: Survey,
  snapshots: Snapshots,
  folder: string,
): Promise<FilledFolder> {
  const { owner } = survey.directory;
  const checkpoint = hurriesCheckpoint(context, survey);
  if (checkpoint) await runCheckpoint(context, survey);
  context.signal.throwIfAborted();
  await takeSnapshots(snapshots, context.run, folder, owner);
  await arrangeSnapshots(folder, snapshots, survey.layout, owner);
  return {
    touched: [
      ...(checkpoint ? ['a checkpoint, so that recovery of the copy is short'] : []),
      snapshotTrace(survey, snapshots),
    ],
    caveats: standbyCaveats(context),
    databases: null,
  };
}

/** The snapshots are of different moments, or without WAL. */
async function fillBySnapshotsInBackup(
  context: CloneContext,
  survey: Survey,
  { snapshots, backup }: { readonly snapshots: Snapshots; readonly backup: Backup },
  folder: string,
): Promise<FilledFolder> {
  const { owner } = survey.directory;
  const copier = makeCopier(context, survey, backup, folder);
  try {
    await takeSnapshots(snapshots, context.run, folder, owner);
    backup.signal.throwIfAborted();
    await arrangeSnapshots(folder, snapshots, survey.layout, owner);
    await completeBackup(survey, backup, folder, copier);
    const touched = [...backupTraces(context, survey, backup), snapshotTrace(survey, snapshots)];
    return { touched, caveats: standbyCaveats(context), databases: null };
  } finally {
    await backup.close();
    await copier.dispose();
  }
}

function snapshotTrace({ strategy }: Survey, { volumes }: Snapshots): string {
  return `a ${strategy} of ${volumes.map(({ root, dataset }) => dataset ?? root).join(', ')}`;
}

/** Runs a checkpoint: otherwise recovery of the copy would start at the server's last automatic one. */
export function hurriesCheckpoint({ options }: CloneContext, { ground }: Survey): boolean {
  return options.checkpoint === 'fast' && ground.role.mayCheckpoint;
}

async function runCheckpoint(context: CloneContext, survey: Survey): Promise<void> {
  await withSession(openBackupSession(context, survey), (session) => session.query('CHECKPOINT'));
}

/** Describes for the report what the copy did to the server. A standby uses its last restartpoint, and writes no WAL. */
function backupTraces({ options }: CloneContext, { server }: Survey, { reserved }: Backup): string[] {
  if (server.inRecovery) return ['a backup on the standby, with a restartpoint; nothing on the target'];
  const checkpoint =
    options.checkpoint === 'fast' ? 'an immediate checkpoint' : 'a checkpoint, spread over time';
  return [
    `pg_backup_start: ${checkpoint}, and full-page writes until the files were copied`,
    'pg_backup_stop: a switch to the next WAL segment, and a backup history file in pg_wal (and in the archive)',
    ...(reserved ? ['a temporary replication slot, which held WAL until it was copied'] : []),
  ];
}

function leftOutCaveats({ layout, server }: Survey): Caveat[] {
  const count = server.databases - layout.databases.size;
  if (count <= 0) return [];
  const reason = `${plural(count, 'other database')} of the cluster cannot be connected to in the clone: their files were not copied`;
  return [{ path: 'clone', kind: 'estimate', reason }];
}

function standbyCaveats({ source }: CloneContext): Caveat[] {
  if (!source?.server.inRecovery) return [];
  const reason = 'the clone was made from a standby, and has the data that the standby had received';
  return [{ path: 'clone', kind: 'estimate', reason }];
}

/** Finds where a backup began, from its label: `START WAL LOCATION: 0/9000028 (file 000000010000000000000009)`. */
export function startSegment(label: string): string | undefined {
  return /^START WAL LOCATION: [0-9A-F]+\/[0-9A-F]+ \(file ([0-9A-F]{24})\)$/m.exec(label)?.[1];
}

/** The number of a segment is in its name, in two halves: the lower one counts the segments of 4 GB. */
export function segmentNumber(name: string, walSegmentBytes: number): bigint {
  const perId = 0x1_0000_0000n / BigInt(walSegmentBytes);
  return BigInt(`0x${name.slice(8, 16)}`) * perId + BigInt(`0x${name.slice(16, 24)}`);
}

/** @param lsn such as `0/9000028`. @returns its position in bytes. */
function positionOf(lsn: string): bigint {
  const [high = '0', low = '0'] = lsn.split('/');
  return BigInt(`0x${high}`) * 0x1_0000_0000n + BigInt(`0x${low}`);
}

/** Numbers the segment with the last byte before the position. @param lsn such as `0/9000028`. */
export function segmentOfLsn(
  lsn: string,
  { walSegmentBytes }: Pick<SourceServer, 'walSegmentBytes'>,
): bigint {
  return (positionOf(lsn) - 1n) / BigInt(walSegmentBytes);
}

/**
 * Selects the files of pg_wal that recovery from a backup needs: its segments, on any timeline (a standby's backup may cross from
 * one to the next), and the histories of timelines.
 */
export function neededWal(
  names: readonly string[],
  range: { readonly first: bigint; readonly last: bigint; readonly walSegmentBytes: number },
): string[] {
  return names.filter((name) => {
    if (/^[0-9A-F]{8}\.history$/.test(name)) return true;
    if (!/^[0-9A-F]{24}$/.test(name)) return false;
    const number = segmentNumber(name, range.walSegmentBytes);
    return number >= range.first && number <= range.last;
  });
}

/**
 * Copies the WAL that recovery needs, after the backup has ended. Segments on another file system are copied in full.
 * @throws SafemigrateError `CLONE` if some of it was recycled.
 */
export async function copyWal(
  { wal }: Pick<Layout, 'wal'>,
  { walSegmentBytes }: Pick<SourceServer, 'walSegmentBytes'>,
  end: BackupEnd,
  folder: string,
  copier: Copier,
): Promise<void> {
  const start = startSegment(end.label);
  if (start === undefined) throw new Error('a backup label names the segment that it starts in');
  const first = segmentNumber(start, walSegmentBytes);
  const last = segmentOfLsn(end.lsn, { walSegmentBytes });
  const to = path.join(folder, 'data', 'pg_wal');
  for (const name of neededWal(await readdir(wal), { first, last, walSegmentBytes }))
    await copier.file(path.join(wal, name), path.join(to, name));
  const copied = await readdir(to);
  const segments = new Set(
    copied.filter((name) => name.length === start.length).map((name) => segmentNumber(name, walSegmentBytes)),
  );
  if (!copied.includes(start) || BigInt(segments.size) !== last - first + 1n)
    throw new SafemigrateError(
      'CLONE',
      `The server has removed WAL that the copy needs (from ${start} on).`,
      {
        hint: 'Try again; a role that may make a replication slot (REPLICATION) can hold it, and so does a higher wal_keep_size.',
      },
    );
  const status = path.join(to, 'archive_status');
  await mkdir(status, { mode: 0o700 });
  copier.own(status);
}
