import { readdir } from 'node:fs/promises';
import path from 'node:path';
import type { Target } from '../../database/target.ts';
import { openMaintenanceSession } from '../../ownership/control-session.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { CloneContext } from '../method.ts';
import { CopyObstacle } from '../obstacle.ts';
import { installedPrograms } from '../private/private-server.ts';
import {
  type CloneFolder,
  findPlace,
  measureFolder,
  refuseMountPoint,
  refuseWithoutSpace,
  spaceIn,
} from './choose-folder.ts';
import { type FileSystem, fileSystemOf, type Layout, readLayout } from './cluster-layout.ts';
import { probeReflink } from './copier.ts';
import type { ClusterStrategy } from './estimate-cluster.ts';
import { databaseOfFolder, isLeftOut } from './excluded.ts';
import { type DataDirectory, programsOf, recogniseDataDirectory } from './recognise.ts';
import { grantBackup, readSourceServer, type SourceServer } from './source-server.ts';
import { findSnapshots, type Snapshots } from './volumes.ts';

/** The facts needed before a cluster is copied, found without changing anything. */
export interface Survey {
  /** The server to copy: the target's, or the standby of --clone-from. */
  readonly ground: Target;
  readonly server: SourceServer;
  readonly directory: DataDirectory;
  /** The folder of the server's programs. */
  readonly programs: string;
  readonly layout: Layout;
  readonly place: CloneFolder;
  readonly fileSystem: FileSystem;
  readonly strategy: ClusterStrategy;
  /** For the strategies that take snapshots. */
  readonly snapshots?: Snapshots;
  readonly files: number;
  /** False: the time did not suffice to count the files, and there are more of them. */
  readonly allCounted: boolean;
  /** Bytes to copy in full, because they cannot share blocks with the clone's folder. */
  readonly bytes: number;
  /** More than `bytes` if the files took too long to count; nothing is refused because of it, since it was not measured. */
  readonly atMostBytes: number;
  /** Tablespaces to copy in full. */
  readonly unshared: readonly string[];
}

/** Surveys the cluster. @throws CopyObstacle */
export async function surveyCluster(context: CloneContext): Promise<Survey> {
  if (context.rehearsal)
    throw new CopyObstacle('--clone-to names another server to make the clone on', 'leave --clone-to out');
  const ground = context.source ?? context.target;
  // The proof needs the session's own backend, so the session must not end before.
  const { server, directory } = await onSource(context, async (session) => {
    const { databases } = context.options;
    const server = await readSourceServer(session, ground.server.versionNum, databases);
    const missing = databases.find((name) => server.neededDatabases[name] === undefined);
    if (missing !== undefined)
      throw new CopyObstacle(
        `the server has no database ${missing}, which --database names`,
        'correct --database, or leave it out',
      );
    return { server, directory: await recogniseDataDirectory(server) };
  });
  if (context.source && !server.inRecovery)
    throw new CopyObstacle(
      'the server that --clone-from names was promoted, and is no standby any more',
      ANOTHER,
    );
  const layout = await readLayout(directory.folder, server, ground.database.oid);
  const place = await findPlace(layout.data, context.options.folder);
  const programs =
    (await programsOf(directory.postmasterPid)) ?? (await installedPrograms(server.versionNum));
  const found = { ground, server, directory, programs, layout, place };
  const survey = { ...found, ...(await findStrategy(context, found)) };
  const space = survey.snapshots ? { ...place, ...(await spaceIn(layout.data)) } : place;
  refuseWithoutSpace(space, survey.bytes);
  return survey;
}

const ANOTHER = 'name another standby of the target with --clone-from, or leave it out';

async function onSource<T>(context: CloneContext, use: (session: Session) => Promise<T>): Promise<T> {
  const { source, control, run, audit, signal } = context;
  if (!source) return use(control);
  return withSession(openMaintenanceSession(source, { run, audit, signal, purpose: 'inspect' }), use);
}

type Size = 'files' | 'allCounted' | 'bytes' | 'atMostBytes' | 'unshared';
type Found = Omit<Survey, 'strategy' | 'fileSystem' | Size>;
type Way = Pick<Survey, 'strategy' | 'fileSystem' | Size> & { snapshots?: Snapshots };

async function findStrategy(context: CloneContext, found: Found): Promise<Way> {
  const { layout, place, server } = found;
  const fileSystem = await fileSystemOf(layout.data);
  const probe = (file: string) => probeReflink(file, place.parent, context.run);
  const shares = await probe(path.join(layout.data, 'PG_VERSION'));
  const snapshots = await findSnapshots(layout, server, place.parent);
  if (snapshots && (snapshots.atomic || mayBackUp(server)))
    return {
      strategy: `${snapshots.kind} snapshot`,
      snapshots,
      fileSystem,
      files: 0,
      allCounted: true,
      bytes: 0,
      atMostBytes: 0,
      unshared: [],
    };
  refuseWithoutBackup(server);
  const { database } = found.ground;
  const notCopied = ['pg_wal', layout.logFolder ?? ''].map((name) => path.join(layout.data, name));
  // The server has counted the target's files; those of databases that are left out are not copied.
  const isSkipped = (folder: string) =>
    notCopied.includes(folder) ||
    databaseOfFolder(folder) === String(database.oid) ||
    isLeftOut(folder, layout.databases);
  if (shares) {
    const { files, allCounted } = await measureFolder(layout.data, false, isSkipped);
    return {
      strategy: 'reflink',
      fileSystem,
      files: files + database.files,
      allCounted,
      ...(await measureUnshared(found, probe)),
    };
  }
  if (context.options.folder === null) await refuseMountPoint(layout.data, place, fileSystem === 'zfs');
  const parts = [layout.data, ...layout.tablespaces.map(({ folder }) => folder)];
  const sizes = await Promise.all(parts.map((folder) => measureFolder(folder, true, isSkipped)));
  return {
    strategy: 'copy',
    fileSystem,
    files: database.files + sum(sizes.map(({ files }) => files)),
    allCounted: sizes.every(({ allCounted }) => allCounted),
    bytes: database.sizeBytes + sum(sizes.map(({ bytes }) => bytes)),
    atMostBytes: database.sizeBytes + sum(sizes.map(({ atMostBytes }) => atMostBytes)),
    unshared: [],
  };
}

function mayBackUp(server: SourceServer): boolean {
  return server.mayBackUp && server.walLevel !== 'minimal';
}

function refuseWithoutBackup(server: SourceServer): void {
  if (!server.mayBackUp)
    throw new CopyObstacle(
      `the role ${server.role} may not start a backup of the cluster`,
      grantBackup(server, identifier),
    );
  if (server.walLevel === 'minimal')
    throw new CopyObstacle(
      'wal_level is minimal, and such a server allows no backup while it runs',
      'set wal_level = replica and restart the server',
    );
}

async function measureUnshared(
  { layout }: Found,
  probe: (file: string) => Promise<boolean>,
): Promise<Pick<Way, 'bytes' | 'atMostBytes' | 'unshared'>> {
  const unshared: string[] = [];
  let bytes = 0;
  let atMostBytes = 0;
  for (const { folder } of layout.tablespaces) {
    const file = await anyFile(folder);
    if (file === undefined || (await probe(file))) continue;
    unshared.push(folder);
    const measured = await measureFolder(folder, true, (inner) => isLeftOut(inner, layout.databases));
    bytes += measured.bytes;
    atMostBytes += measured.atMostBytes;
  }
  return { bytes, atMostBytes, unshared };
}

/** Picks a file that will stay: a relation's may disappear at any moment, so it is the last choice. */
async function anyFile(tablespace: string): Promise<string | undefined> {
  for (const version of await readdir(tablespace)) {
    if (!version.startsWith('PG_')) continue;
    for (const database of await readdir(path.join(tablespace, version))) {
      const files = await readdir(path.join(tablespace, version, database));
      const file = files.find((name) => name === 'PG_VERSION') ?? files[0];
      if (file !== undefined) return path.join(tablespace, version, database, file);
    }
  }
  return undefined;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
