import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { SafemigrateError } from '../../errors.ts';
import { plural } from '../../format.ts';
import type { Caveat } from '../../model/report.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import type { Scope } from '../../scope.ts';
import type { CloneContext } from '../method.ts';
import type { FilledFolder } from '../private/private-server.ts';
import { type Backup, openBackupSession, startBackup } from './backup.ts';
import { readTablespaces } from './cluster-layout.ts';
import { Copier, type CopierOptions } from './copier.ts';
import { copyCluster } from './copy-tree.ts';
import { copyWal } from './copy-wal.ts';
import { Reflinker } from './reflink.ts';
import { ReflinkThreads } from './reflink-threads.ts';
import { pruneSnapshot, snapshotBtrfs, snapshotZfs } from './snapshot.ts';
import type { Survey } from './survey.ts';

/** Creates `data` and `tablespaces/<oid>` in the folder, ready for recovery. */
export async function fillFolder(
  context: CloneContext,
  survey: Survey,
  folder: string,
  scope: Scope,
): Promise<FilledFolder> {
  return survey.strategy === 'reflink' || survey.strategy === 'copy'
    ? fillByBackup(context, survey, folder, scope)
    : fillBySnapshot(context, survey, folder);
}

async function fillByBackup(
  context: CloneContext,
  survey: Survey,
  folder: string,
  scope: Scope,
): Promise<FilledFolder> {
  const backup = await startBackup(context, survey, scope);
  const reflinker = new Reflinker(path.join(folder, 'nodatacow'));
  const owner = process.getuid?.() === 0 ? survey.directory.owner : null;
  const isMany = survey.strategy === 'reflink' && survey.files > MANY_FILES;
  const threads = isMany ? new ReflinkThreads(owner) : null;
  try {
    const copier = makeCopier(context, survey, backup, { reflinker, owner, threads });
    await copyCluster(survey.layout, folder, copier, progress(context, survey));
    const end = await backup.stop();
    await refuseNewTablespaces(survey);
    const label = path.join(folder, 'data', 'backup_label');
    await writeFile(label, end.label, { mode: 0o600, flag: 'wx' });
    copier.own(label);
    await copyWal(survey.layout, survey.server, end, folder, copier);
    await backup.refusePromoted();
    return {
      touched: backupTraces(context, survey, backup),
      caveats: [...leftOutCaveats(survey), ...standbyCaveats(context)],
      databases: survey.layout.databases,
    };
  } finally {
    await backup.close();
    await threads?.close();
    await reflinker.dispose();
  }
}

function makeCopier(
  { options }: CloneContext,
  { strategy, bytes }: Survey,
  { signal }: Backup,
  parts: Pick<CopierOptions, 'reflinker' | 'owner' | 'threads'>,
): Copier {
  return new Copier({
    ...parts,
    share: strategy === 'reflink',
    // A database grows while it is copied.
    maxCopyBytes: Math.max(options.maxCopyBytes, bytes * GROWTH),
    signal,
  });
}

/** For fewer, starting the threads takes longer than they save. */
const MANY_FILES = 5_000;
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

async function fillBySnapshot(context: CloneContext, survey: Survey, folder: string): Promise<FilledFolder> {
  const { layout, strategy, dataset } = survey;
  const data = path.join(folder, 'data');
  const checkpoint = hurriesCheckpoint(context, survey);
  if (checkpoint) await runCheckpoint(context, survey);
  context.signal.throwIfAborted();
  if (dataset) await snapshotZfs(dataset, context.run, data);
  else await snapshotBtrfs(layout.data, data);
  await pruneSnapshot(data, layout);
  return {
    touched: [
      ...(checkpoint ? ['a checkpoint, so that recovery of the copy is short'] : []),
      `a ${strategy} of its data directory`,
    ],
    caveats: standbyCaveats(context),
    databases: null,
  };
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
