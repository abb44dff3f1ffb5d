import path from 'node:path';
import type { CopiedServer } from '../../local-server/copied.ts';
import { saveFirstState, startFirstState, takeFirstState } from '../../local-server/first-state.ts';
import type { FolderEntry, StartOrder } from '../../ownership/folder-records.ts';
import { newRunId } from '../../ownership/run-id.ts';
import type { Session } from '../../postgres/connection/session.ts';
import type { Scope } from '../../scope.ts';
import type { CloneContext } from '../method.ts';
import { placeFor } from './folder-location.ts';
import { type Lease, takeLease } from './lease.ts';
import type { PrivateServer } from './private-server.ts';
import type { OwnFolders } from './sandbox.ts';

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
