import { chown, readdir, readFile, realpath, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { codeOf, SafemigrateError } from '../errors.ts';
import { usableInstallation } from '../local-server/installation.ts';
import { makeFolder } from '../ownership/folder-records.ts';
import type { Scope } from '../scope.ts';
import type { ZfsBase } from './archive/base-backup.ts';
import { type BaseBackup, readBaseBackup } from './archive/base-backup.ts';
import { type MissingWal, restoreCommandFor, supplyWal } from './archive/supply-wal.ts';
import { Copier } from './cluster/copier.ts';
import { copyCluster } from './cluster/copy-tree.ts';
import { arrangeSnapshots, placesIn, snapshotCommands, takeSnapshots } from './cluster/snapshot.ts';
import type { Assessment, Clone, CloneContext, CloneMethod, Possible } from './method.ts';
import { orImpossible, refusing } from './obstacle.ts';
import type { FilledFolder, Recovery } from './private/private-server.ts';
import { assessContainment, startPrivateCluster } from './private-cluster.ts';

/** Clones the target as of another time: a base backup is recovered here from archived WAL, as a private server. */
export const archive: CloneMethod = {
  id: 'archive',
  assess: (context) => orImpossible(() => assess(context)),
  create,
  describe,
};

const FIXED_MS = 1_000;
const PER_FILE_MS = 0.05;
const COPY_BYTES_PER_MS = 300_000;

async function assess(context: CloneContext): Promise<Assessment> {
  const base = await readBaseBackup(context);
  const contained = await assessContainment(context, base);
  if ('possible' in contained) return contained;
  return {
    possible: true,
    strategy: 'recovery',
    stallMs: 0,
    bytes: base.bytes,
    endsSessions: false,
    asked: true,
    readyMs: Math.round(FIXED_MS + PER_FILE_MS * base.files + base.bytes / COPY_BYTES_PER_MS),
    isolation: 'own-cluster',
    ...contained,
    reason: `the base backup ${base.folder}, recovered to ${base.at.time} from archived WAL`,
  };
}

/** Reads it again, since it may have changed. @throws SafemigrateError `CLONE` */
function stillUsable(context: CloneContext): Promise<BaseBackup> {
  return refusing('The base backup cannot be used', () => readBaseBackup(context));
}

async function create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone> {
  const base = await stillUsable(context);
  const { owner, programs, files, zfs } = base;
  const folder = path.join(base.parent, `safemigrate_${context.run}`);
  return startPrivateCluster(
    context,
    {
      method: 'archive',
      assessment,
      folder,
      owner,
      programs,
      files,
      ...(zfs && whereabouts(context, zfs, folder)),
      fill: () => fill(context, base, folder),
    },
    scope,
  );
}

function whereabouts({ run }: CloneContext, { snapshots, root }: ZfsBase, folder: string) {
  const { release } = snapshotCommands(snapshots, run, folder);
  return { release, places: placesIn(folder, snapshots), space: root };
}

async function describe(context: CloneContext): Promise<string[]> {
  const { folder, parent, at, restoreCommand, zfs } = await stillUsable(context);
  const own = path.join(parent, `safemigrate_${context.run}`);
  const commands = zfs && snapshotCommands(zfs.snapshots, context.run, own);
  return [
    ...(commands
      ? commands.take.map((words) => `-- ${words.join(' ')}`)
      : [`-- copy the base backup ${folder} to ${own}`]),
    `-- recover it to ${at.time}, with: ${restoreCommand}`,
    ...(commands ? [`-- after the run: ${commands.release}`] : []),
  ];
}

async function fill(context: CloneContext, base: BaseBackup, folder: string): Promise<FilledFolder> {
  const { owner, at, binaries, zfs } = base;
  await usableInstallation(binaries, path.join(folder, 'installation'), process.getuid?.() === 0);
  if (zfs) await cloneSnapshot(context, base, zfs, folder);
  else await copyFiles(context, base, folder);
  const spool = path.join(folder, 'wal');
  await makeFolder(spool, owner);
  const reason = `the clone has the target's data as of ${at.time}; its rates and sessions are those of now`;
  return {
    touched: [],
    caveats: [{ path: 'clone', kind: 'estimate', reason }],
    databases: null,
    recovery: recoveryFrom(context, base, spool),
  };
}

async function copyFiles(context: CloneContext, base: BaseBackup, folder: string): Promise<void> {
  const copier = new Copier({
    share: base.shares,
    folder,
    signal: context.signal,
    owner: process.getuid?.() === 0 ? base.owner : null,
    maxCopyBytes: Math.max(context.options.maxCopyBytes, base.bytes),
  });
  const data = path.join(folder, 'data');
  const wal = await realpath(path.join(base.folder, 'pg_wal'));
  const databases = await databasesIn(base);
  try {
    await copyCluster({ ...layoutOf(base, wal), databases }, folder, copier, () => {});
    await copier.file(path.join(base.folder, 'backup_label'), path.join(data, 'backup_label'));
    for (const name of await readdir(wal))
      if (/^[0-9A-F]{8}(\.history|[0-9A-F]{16})$/.test(name))
        await copier.file(path.join(wal, name), path.join(data, 'pg_wal', name));
  } finally {
    await copier.dispose();
  }
}

async function cloneSnapshot(
  { run }: CloneContext,
  base: BaseBackup,
  { snapshots }: ZfsBase,
  folder: string,
): Promise<void> {
  await takeSnapshots(snapshots, run, folder, base.owner);
  const [data = ''] = placesIn(folder, snapshots);
  // If the snapshot is of a base backup, recovery has to begin where that did.
  const label = await readFile(path.join(data, 'backup_label'), 'utf8').catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  });
  await arrangeSnapshots(folder, snapshots, layoutOf(base, path.join(base.folder, 'pg_wal')), base.owner);
  if (label === null) return;
  await writeFile(path.join(data, 'backup_label'), label, { mode: 0o600, flag: 'wx' });
  await chown(path.join(data, 'backup_label'), base.owner.uid, base.owner.gid);
}

function layoutOf({ folder, tablespaces }: BaseBackup, wal: string) {
  return {
    data: folder,
    wal,
    tablespaces,
    logFolder: 'log',
    replaced: new Set<string>(),
    databases: new Set<string>(),
  };
}

/** Lists all databases: a base backup has few files that are not needed. */
async function databasesIn({ folder, tablespaces }: BaseBackup): Promise<Set<string>> {
  const names = await readdir(path.join(folder, 'base'));
  for (const tablespace of tablespaces)
    for (const version of await readdir(tablespace.folder))
      names.push(...(await readdir(path.join(tablespace.folder, version))));
  return new Set(names);
}

function recoveryFrom(
  context: CloneContext,
  { at, restoreCommand, owner }: BaseBackup,
  spool: string,
): Recovery {
  return {
    settings: {
      restore_command: restoreCommandFor(spool),
      hot_standby: 'off',
      ...(at.time === 'latest' ? {} : { recovery_target_time: at.time, recovery_target_action: 'promote' }),
    },
    async during(start) {
      const supply = supplyWal(spool, restoreCommand, owner);
      const [started] = await Promise.allSettled([start()]);
      await supply.end();
      context.signal.throwIfAborted();
      const lacking = supply.missing.at(-1);
      if (started.status === 'rejected') {
        if (lacking === undefined) throw started.reason;
        throw missingWal(lacking, at.time, started.reason);
      }
      if (at.time === 'latest') await refuseGap(context, lacking);
      return started.value;
    },
  };
}

/** Recovery to the end of the archive ends at the first gap as well: what comes after it would be missing in the clone. */
async function refuseGap({ control }: CloneContext, lacking: MissingWal | undefined): Promise<void> {
  const [row] = await control.query<{ last: string | null }>(
    'SELECT last_archived_wal AS last FROM pg_stat_archiver',
  );
  const last = row?.last?.slice(0, 24) ?? '';
  if (lacking && lacking.name.slice(0, 8) === last.slice(0, 8) && lacking.name <= last)
    throw missingWal(lacking, `the last file that the target has archived, ${last}`);
}

function missingWal({ name, said }: MissingWal, until: string, cause?: unknown): SafemigrateError {
  const log = cause instanceof Error ? `\n  ${cause.message}` : '';
  return new SafemigrateError(
    'CLONE',
    `The archive has no WAL file ${name}, which recovery to ${until} needs${said === '' ? '' : ` (${said})`}.${log}`,
    {
      hint: 'Correct SAFEMIGRATE_RESTORE_COMMAND or the archive; or take an earlier time, if the WAL of that one is not archived yet (pg_switch_wal() on the target). The target was not touched.',
      cause,
    },
  );
}
