import { tmpdir } from 'node:os';
import path from 'node:path';
import { SafemigrateError } from '../errors.ts';
import { type CopiedServer, startCopied } from '../local-server/copied.ts';
import { saveFirstState, startFirstState, takeFirstState } from '../local-server/first-state.ts';
import type { Caveat } from '../model/report.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import type { FolderEntry, StartOrder } from '../ownership/folder-records.ts';
import { MadeDatabases } from '../ownership/made-databases.ts';
import { newRunId } from '../ownership/run-id.ts';
import { whyUnusable } from '../ownership/state-files.ts';
import { uniqueBytesOf } from '../ownership/unique-bytes.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { Scope } from '../scope.ts';
import type { Clone, CloneContext, Impossible, Possible } from './method.ts';
import { refuseUnsandboxed, unwantedAccess } from './obstacle.ts';
import { ownControl } from './own-sessions.ts';
import { type Lease, takeLease } from './private/lease.ts';
import { type Original, readOriginal } from './private/original.ts';
import {
  namesOfLeftOut,
  prepareStartedServer,
  refuseInvalidPages,
  removeRemains,
} from './private/post-start.ts';
import type { FilledFolder, PrivateServer } from './private/private-server.ts';
import {
  type FolderLocation,
  hasSocketApart,
  loginThere,
  placeFor,
  targetThere,
} from './private/private-server.ts';
import type { OwnFolders } from './private/sandbox.ts';
import { findSandbox, libraryFoldersIn, type Sandbox } from './private/sandbox.ts';
import {
  endRecoverySettings,
  hasInPlaceTablespaces,
  sanitizeDataDirectory,
} from './private/sanitize-data-directory.ts';
import {
  copySettings,
  placeSettings,
  type ServerSettings,
  serverSettings,
} from './private/server-settings.ts';

export type { PrivateServer } from './private/private-server.ts';

/**
 * Finds how far a second server with a copy of the target would be kept from others here, or why it would be dangerous, however it
 * is copied; for assess(). It changes nothing.
 */
export async function assessContainment(
  context: CloneContext,
  server: Pick<PrivateServer, 'owner' | 'programs' | 'folder'>,
): Promise<Impossible | Pick<Possible, 'containment'>> {
  const why = hasSocketApart(server.folder) ? await whyUnusable(tmpdir()) : undefined;
  if (why !== undefined)
    return {
      possible: false,
      reason: `the path of the clone is too long for its socket, and the folder for temporary files cannot be used: ${why}`,
      enable: 'set TMPDIR to a folder of yours, or name one with a shorter path with --clone-dir',
    };
  const original = await readOriginal(context);
  const sandbox = await sandboxFor(server, original);
  return obstacleOf(context, original, sandbox) ?? { containment: sandbox.containment };
}

function sandboxFor(
  { owner, programs, libraries = [] }: Pick<PrivateServer, 'owner' | 'programs' | 'libraries'>,
  { folders, settings }: Original,
): Promise<Sandbox> {
  const shown = [...libraryFoldersIn(settings), ...libraries];
  return findSandbox(owner, { programs, libraries: shown, hidden: folders });
}

function obstacleOf(context: CloneContext, original: Original, { containment }: Sandbox) {
  const unwanted = unwantedAccess(context);
  // In folders with programs and libraries the sandbox hides only those folders of the original that are known.
  if (unwanted.length === 0 || (containment === 'sandbox' && !original.partly)) return undefined;
  const where =
    "on a server of its own, from which this machine cannot take the network and the target's sockets,";
  return refuseUnsandboxed(where, unwanted, 'run as root with CAP_SYS_ADMIN and a superuser of the target');
}

/** A copy of a cluster that has recovered, and the server on it. */
export interface StartedCopy {
  readonly lease: Lease;
  readonly place: FolderLocation;
  readonly original: Original;
  readonly sandbox: Sandbox;
  readonly settings: ServerSettings;
  readonly filled: FilledFolder;
  readonly server: CopiedServer;
}

/**
 * Creates, marks, fills and sandboxes the folder of a private server, and starts the server. It ends with the run, by its watchdog,
 * or by `safemigrate clean`.
 *
 * Things are created in the order that makes each removable: an entry in the user's state folder, the watchdog, the folder with
 * its mark, the copy, the server. Once the watchdog runs, this process may die at any moment.
 * @throws SafemigrateError `PRIVILEGE`, `DISK`, `CLONE`, `CONFIGURATION`, `INTERRUPTED`; `LOST` if the watchdog ends it.
 */
export async function startOnCopy(
  context: CloneContext,
  cluster: PrivateServer,
  scope: Scope,
): Promise<StartedCopy> {
  const { run, signal, target: found } = context;
  const { folder, owner, programs } = cluster;
  const place = await placeFor(context, cluster);
  const original = await readOriginal(context);
  const sandbox = await sandboxFor(cluster, original);
  const obstacle = obstacleOf(context, original, sandbox);
  if (obstacle) throw new SafemigrateError('CLONE', `${obstacle.reason}.`, { hint: obstacle.enable });

  const settings = await serverSettings(original, {
    ...place,
    folder,
    programs,
    run,
    versionNum: found.server.versionNum,
  });
  const lease = await takeLease(context, cluster, place, scope);
  const filled = await lease.during(() => cluster.fill(folder));
  const { databases, recovery } = filled;
  const copied = copySettings({
    inPlaceTablespaces: await hasInPlaceTablespaces(folder),
    ignoreInvalidPages: databases !== null,
  });
  sanitizeDataDirectory(folder, settings.file, owner, recovery !== undefined);
  const fixed = { ...settings.fixed, ...copied };
  const through = sandbox.through({ folder, socketFolder: place.socketFolder, places: cluster.places });
  const start = () =>
    startCopied({
      folder,
      programs,
      user: sandbox.user,
      signal,
      settings: { ...fixed, ...recovery?.settings },
      through,
    });
  const server = await lease.during(() => (recovery ? recovery.during(start) : start()));
  if (databases) {
    await refuseInvalidPages(folder, databases);
    await removeRemains(folder, databases);
  }
  return { lease, place, original, sandbox, settings: { ...settings, fixed }, filled, server };
}

/** Turns a copy of the cluster into a clone of the target: see startOnCopy() for its life and its errors. */
export async function startPrivateCluster(
  context: CloneContext,
  cluster: PrivateServer,
  scope: Scope,
): Promise<Clone> {
  const started = performance.now();
  const { run, audit, target: found } = context;
  const { folder, owner, programs } = cluster;
  const copy = await startOnCopy(context, cluster, scope);
  const { lease, place, original, sandbox, settings, filled, server } = copy;
  lease.watch(server);
  const { caveats, databases } = filled;
  const target = targetThere(found, place, original.superuser);
  const control = await ownControl(context, target, scope);
  control.onLost((reason) => lease.lost(reason));
  const enter = (database: string) =>
    openSession(target.settings, { database, run, audit, purpose: 'settle', statementTimeoutMs: 0 });
  const { databases: others } = context.options;
  // Before fsync is on: its commit would wait 15 ms for the disk.
  const settled = await prepareStartedServer(control, target.database, databases, others, enter);
  await endRecoverySettings(control, folder, original.settings.get('fsync') ?? 'on');
  const placesOf = (own: string) =>
    cluster.places?.map((inner) => path.join(own, path.relative(folder, inner)));
  return {
    ...cloneOn(context, cluster, copy, control),
    leftOut: databases ? await namesOfLeftOut(control, databases) : new Set<string>(),
    durationMs: performance.now() - started,
    caveats: [...caveats, ...sandbox.caveats, ...settings.caveats, ...settled, ...notCompared(others)],
    keepResettable: (count) =>
      keepResettable(
        { context, cluster, lease, server, control },
        ({ folder: own, socketFolder }) => ({
          owner,
          programs,
          through: sandbox.through({ folder: own, socketFolder, places: placesOf(own) }),
          ...(cluster.rollback ? { rollback: cluster.rollback } : {}),
          ...(sandbox.user ? { user: sandbox.user } : {}),
          settings: { ...settings.fixed, ...placeSettings({ folder: own, socketFolder }) },
        }),
        count,
        scope,
      ),
  };
}

/** Describes a server on a copy of the cluster as a clone of the target. @param control a session on it. */
export function cloneOn(
  { target: found, run, audit }: Pick<CloneContext, 'target' | 'run' | 'audit'>,
  { method, assessment: { strategy, reason }, folder }: PrivateServer,
  { place, original, sandbox, lease, filled: { touched } }: StartedCopy,
  control: Session,
): Omit<Clone, 'durationMs' | 'caveats'> {
  const target = targetThere(found, place, original.superuser);
  return {
    method,
    strategy,
    reason,
    isolation: 'own-cluster',
    containment: sandbox.containment,
    database: target.database.name,
    oid: target.database.oid,
    connect: loginThere(found.settings, place),
    sharesRoles: true,
    server: { control, open: (purpose) => openMaintenanceSession(target, { run, audit, purpose }) },
    marking: () => null,
    made: new MadeDatabases(run, control, async () => {}),
    stallMs: 0,
    notCarried: [],
    touched,
    uniqueBytes: () => uniqueBytesOf(folder, target.database.oid),
    keep: async () => void (await lease.keep()),
  };
}

function notCompared(databases: readonly string[]): Caveat[] {
  if (databases.length === 0) return [];
  const reason = `the schema and the data of ${databases.join(', ')} were not compared, only those of the target`;
  return [{ path: 'schema', kind: 'unmeasured', reason }];
}

/** A private server that runs, and its clone. */
interface Running {
  readonly context: CloneContext;
  readonly cluster: PrivateServer;
  readonly lease: Lease;
  readonly server: CopiedServer;
  readonly control: Session;
}

/**
 * Ends the server in an orderly way, makes its files the first state, and starts it and its siblings on copies of them. Each has a
 * folder, a record and a watchdog of its own. Until they are kept, the scope removes them.
 * @param orderFor how a server in these folders is started.
 * @throws SafemigrateError `CLONE` if the files cannot share blocks.
 */
export async function keepResettable(
  running: Running,
  orderFor: (folders: OwnFolders) => StartOrder,
  count: number,
  scope: Scope,
): Promise<FolderEntry[]> {
  const { context, cluster, lease } = running;
  const { folder } = cluster;
  lease.unwatch();
  await running.control.close();
  // With a checkpoint, so that starts on its files need no recovery.
  await running.server.stop();
  const made: { lease: Lease; order: StartOrder }[] = [];
  for (let index = 0; index < count; index++) {
    const run = index === 0 ? context.run : newRunId();
    const place = { ...cluster, folder: path.join(path.dirname(folder), `safemigrate_${run}`) };
    const location = index === 0 ? undefined : await placeFor({ run }, place);
    const own = location ? await takeLease({ ...context, run }, place, location, scope) : lease;
    const order = orderFor({ folder: place.folder, socketFolder: own.socketFolder });
    await own.during(async () => {
      if (location) await takeFirstState(place.folder, folder, order);
      else await saveFirstState(folder, order);
      await startFirstState(place.folder, order, context.signal);
    });
    made.push({ lease: own, order });
  }
  const entries: FolderEntry[] = [];
  for (const each of made) entries.push(await each.lease.keep(each.order));
  return entries;
}
