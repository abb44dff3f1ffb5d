import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { messageOf, SafemigrateError } from '../errors.ts';
import { embeddedBinaries, type ServerVersion } from '../local-server/binaries.ts';
import { needsReplica, usableInstallation } from '../local-server/installation.ts';
import { makeFolder, type Owner } from '../ownership/folder-mark.ts';
import type { Scope } from '../scope.ts';
import { type MissingWal, restoreCommandFor, supplyWal } from './archive/supply-wal.ts';
import { findPlace, refuseWithoutSpace } from './cluster/choose-folder.ts';
import { readTablespaces, type Tablespace } from './cluster/cluster-layout.ts';
import { Copier } from './cluster/copier.ts';
import { copyCluster } from './cluster/copy-tree.ts';
import { measureFolder } from './cluster/measure.ts';
import { CopyObstacle } from './cluster/obstacle.ts';
import { parseSystemIdentifier } from './cluster/postmaster.ts';
import { probeReflink, Reflinker } from './cluster/reflink.ts';
import type { Assessment, Clone, CloneContext, CloneMethod, PointInTime, Possible } from './method.ts';
import type { FilledFolder, Recovery } from './private/private-server.ts';
import { assessContainment, startPrivateCluster } from './private-cluster.ts';

/** Clones the target as of another time: a base backup is recovered here from archived WAL, as a private server. */
export const archive: CloneMethod = { id: 'archive', assess, create, describe };

interface BaseBackup {
  readonly at: PointInTime;
  /** Without symbolic links. */
  readonly folder: string;
  /** Where the clone's folder is made. */
  readonly parent: string;
  readonly owner: Owner;
  /** The folder in which a `postgres` of the target's major version is installed. */
  readonly binaries: string;
  /** The folder from which it is run: inside the clone's folder if it must be prepared first. */
  readonly programs: string;
  readonly tablespaces: readonly Tablespace[];
  readonly restoreCommand: string;
  readonly shares: boolean;
  readonly files: number;
  readonly bytes: number;
}

const FIXED_MS = 1_000;
const PER_FILE_MS = 0.05;
const COPY_BYTES_PER_MS = 300_000;

/** PostgreSQL refuses to run as root; 65534 is `nobody` on Linux. */
const UNPRIVILEGED = { uid: 65_534, gid: 65_534 };

async function assess(context: CloneContext): Promise<Assessment> {
  try {
    const base = await readBase(context);
    const contained = await assessContainment(context, base);
    if ('possible' in contained) return contained;
    return {
      ...{
        possible: true,
        strategy: 'recovery',
        stallMs: 0,
        bytes: base.bytes,
        endsSessions: false,
        asked: true,
      },
      readyMs: Math.round(FIXED_MS + PER_FILE_MS * base.files + base.bytes / COPY_BYTES_PER_MS),
      ...{ isolation: 'own-cluster', ...contained },
      reason: `the base backup ${base.folder}, recovered to ${base.at.time} from archived WAL`,
    };
  } catch (error) {
    if (error instanceof CopyObstacle)
      return {
        ...{ possible: false, reason: error.message },
        ...(error.enable === undefined ? {} : { enable: error.enable }),
      };
    throw error;
  }
}

async function create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone> {
  const base = await readBase(context);
  const { owner, programs, files } = base;
  const folder = path.join(base.parent, `safemigrate_${context.run}`);
  return startPrivateCluster(
    context,
    {
      ...{ method: 'archive', assessment, folder, owner, programs, files },
      fill: () => fill(context, base, folder),
    },
    scope,
  );
}

async function describe(context: CloneContext): Promise<string[]> {
  const { folder, parent, at, restoreCommand } = await readBase(context);
  return [
    `-- copy the base backup ${folder} to ${parent}/safemigrate_${context.run}`,
    `-- recover it to ${at.time}, with: ${restoreCommand}`,
  ];
}

/** Reads what is known of the base backup. @throws CopyObstacle */
async function readBase(context: CloneContext): Promise<BaseBackup> {
  const { target, options, run } = context;
  const { at } = options;
  if (!at) throw new CopyObstacle('no other time was asked for', '--clone-at');
  const folder = await realpath(at.baseBackup).catch(() => at.baseBackup);
  const major = Math.floor(target.server.versionNum / 10_000);
  const { uid, gid } = await recognise(folder, major, target.server.systemIdentifier);
  const isRoot = process.getuid?.() === 0;
  const place = await findPlace(folder, options.folder);
  const shares = await probeReflink(path.join(folder, 'PG_VERSION'), place.parent, run);
  const { files, bytes } = await measureFolder(folder, true);
  const needed = shares ? 0 : bytes;
  const binaries = await programsFor(major);
  refuseWithoutSpace(place, needed);
  return {
    ...{ at, folder, parent: place.parent, shares, files, bytes: needed },
    owner: isRoot && uid === 0 ? UNPRIVILEGED : { uid, gid },
    binaries,
    programs: (await needsReplica(binaries, isRoot))
      ? path.join(place.parent, `safemigrate_${run}`, 'installation', 'bin')
      : binaries,
    tablespaces: await readTablespaces(folder),
    restoreCommand: await restoreCommandOf(context, at),
  };
}

/** @throws CopyObstacle if it is no data directory of the target's. */
async function recognise(folder: string, major: number, systemIdentifier: string | null) {
  try {
    const version = (await readFile(path.join(folder, 'PG_VERSION'), 'utf8')).trim();
    if (version !== String(major))
      throw new CopyObstacle(`${folder} is of PostgreSQL ${version}, and the target of ${major}`);
    const found = parseSystemIdentifier(await readFile(path.join(folder, 'global', 'pg_control')));
    if (systemIdentifier !== null && found !== systemIdentifier)
      throw new CopyObstacle(
        `${folder} is of another cluster than the target (their system identifiers differ)`,
        'name a base backup of the target with --base-backup',
      );
    return await stat(folder);
  } catch (error) {
    if (error instanceof CopyObstacle) throw error;
    throw new CopyObstacle(
      `${folder} is not a base backup that this user can read: ${messageOf(error)}`,
      'name the folder of a plain base backup (it has PG_VERSION and backup_label), or of a data directory in a snapshot',
    );
  }
}

async function programsFor(major: number): Promise<string> {
  try {
    return await embeddedBinaries(major as ServerVersion);
  } catch (error) {
    if (error instanceof SafemigrateError) throw new CopyObstacle(error.message, error.hint);
    throw error;
  }
}

async function restoreCommandOf({ control }: CloneContext, { restoreCommand }: PointInTime): Promise<string> {
  if (restoreCommand !== null) return restoreCommand;
  const [row] = await control.query<{ command: string | null }>(
    `SELECT CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE') THEN current_setting('restore_command') END AS command`,
  );
  if (row?.command) return row.command;
  throw new CopyObstacle(
    'the target has no restore_command that this role may read',
    "--restore-command 'cp /archive/%f %p'",
  );
}

async function fill(context: CloneContext, base: BaseBackup, folder: string): Promise<FilledFolder> {
  const { owner, at, binaries } = base;
  const reflinker = new Reflinker(path.join(folder, 'nodatacow'));
  const isRoot = process.getuid?.() === 0;
  await usableInstallation(binaries, path.join(folder, 'installation'), isRoot);
  const copier = new Copier({
    ...{ share: base.shares, reflinker, owner: isRoot ? owner : null, signal: context.signal },
    maxCopyBytes: Math.max(context.options.maxCopyBytes, base.bytes),
  });
  const data = path.join(folder, 'data');
  const wal = await realpath(path.join(base.folder, 'pg_wal'));
  const layout = { data: base.folder, wal, tablespaces: base.tablespaces, logFolder: 'log' };
  try {
    const databases = await databasesIn(base);
    await copyCluster({ ...layout, replaced: new Set(), databases }, folder, copier, () => {});
    await copier.file(path.join(base.folder, 'backup_label'), path.join(data, 'backup_label'));
    for (const name of await readdir(wal))
      if (/^[0-9A-F]{8}(\.history|[0-9A-F]{16})$/.test(name))
        await copier.file(path.join(wal, name), path.join(data, 'pg_wal', name));
  } finally {
    await reflinker.dispose();
  }
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
      hint: 'Correct --restore-command or the archive; or take an earlier time, if the WAL of that one is not archived yet (pg_switch_wal() on the target). The target was not touched.',
      cause,
    },
  );
}
