import { existsSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SafemigrateError } from '../../errors.ts';
import { formatBytes, formatCount } from '../../format.ts';
import {
  type CloneReaper,
  type Ending,
  endFolder,
  startCloneReaper,
} from '../../local-server/clone-reaper.ts';
import type { CopiedServer } from '../../local-server/copied.ts';
import {
  entryFile,
  type FolderEntry,
  makeFolder,
  markFolder,
  nameTarget,
  removeEntry,
  type StartOrder,
  writeEntry,
} from '../../ownership/folder-records.ts';
import { ourStamp, stampOf } from '../../ownership/process-stamp.ts';
import type { Scope } from '../../scope.ts';
import type { CloneContext } from '../method.ts';
import type { FolderLocation, PrivateServer } from './private-server.ts';

/** Time that a watchdog that ended the server may take to write its reason. */
const REASON_MS = 500;

/** Removing 40,000 files takes 1.6 s, a tenth of the whole rehearsal: the run does not wait for it. */
const MANY_FILES = 20_000;

function stillRemoving(folder: string, files: number): string {
  return `the clone has ended, and its ${formatCount(files)} files are being removed (${folder}, shown by \`safemigrate list\` until then)`;
}

/** A lease on a folder and its space: the scope gives it back, or the watchdog revokes it. */
export interface Lease {
  readonly socketFolder: string;
  /** Works on the folder. If the watchdog removes the folder in the meantime, the failure says so. */
  during<T>(work: () => Promise<T>): Promise<T>;
  /** Ends the run when this server ends. */
  watch(server: CopiedServer): void;
  /** Ends the run, with the watchdog's reason if there is one. */
  lost(reason: string): void;
  /** From now on no end of a server, or of its connection, ends the run. */
  unwatch(): void;
  /** @param start for a clone that can be reset. */
  keep(start?: StartOrder): Promise<FolderEntry>;
}

/** Records, watches, creates and marks the folder, in this order, each step owned by the scope. */
export async function takeLease(
  context: CloneContext,
  server: PrivateServer,
  place: FolderLocation,
  scope: Scope,
): Promise<Lease> {
  const { run, options, fail, emit } = context;
  const { folder, owner, release, space, files = 0 } = server;
  const { socketFolder, floorBytes } = place;
  let over = false;
  let kept = false;
  let entry = await firstEntry(context, server, place);
  await scope.own(
    `entry ${entryFile(run)}`,
    () => writeEntry(entry),
    async () => {
      if (!existsSync(folder)) await removeEntry(run);
    },
  );
  const watchdog = await scope.own(
    `clone in ${folder}`,
    () =>
      startCloneReaper({
        folder,
        run,
        socketFolder,
        floorBytes,
        release: release ?? null,
        ttlMs: options.ttlMs,
        space: space ?? path.dirname(folder),
      }),
    async (started: CloneReaper | undefined) => {
      over = true;
      if (kept) return;
      const removal = await started?.end(files > MANY_FILES ? 'stopped' : 'gone');
      if (removal === 'removing') emit({ type: 'notice', message: stillRemoving(folder, files) });
      else if (removal !== 'gone') await endFolder(entry);
    },
  );
  entry = { ...entry, watchdog: (await stampOf(watchdog.pid)) ?? null };
  await writeEntry(entry);
  await makeFolder(folder, owner);
  await markFolder(folder, run, owner);
  await makeFolder(socketFolder, owner);

  let ending: Ending | undefined;
  const lost = (reason: string) => {
    if (over) return;
    over = true;
    void Promise.race([watchdog.ending, delay(REASON_MS)]).then(() =>
      fail(endedEarly(ending, folder, place, reason)),
    );
  };
  watchdog.ending.then((found) => {
    ending = found;
    lost('its watchdog was lost');
  });
  return {
    socketFolder,
    async during(work) {
      const [result] = await Promise.allSettled([work()]);
      if (ending) throw endedEarly(ending, folder, place, 'its watchdog was lost');
      if (result.status === 'rejected') throw result.reason;
      return result.value;
    },
    watch(server) {
      server.ended.then((log) => lost(`its server ended:\n  ${log}`));
    },
    lost,
    unwatch() {
      over = true;
    },
    async keep(start) {
      // In this order a kill in between leaves a clone that ends by itself, never a kept one that `list` does not know.
      entry = { ...entry, kept: true, ...(start ? { start } : {}) };
      await writeEntry(entry);
      await watchdog.keep();
      kept = true;
      return entry;
    },
  };
}

async function firstEntry(
  { run, target, options }: CloneContext,
  { folder, release }: PrivateServer,
  { socketFolder }: FolderLocation,
): Promise<FolderEntry> {
  return {
    version: 1,
    holds: 'clone',
    folder,
    run,
    socketFolder,
    release: release ?? null,
    target: nameTarget(target),
    endsAt: new Date(Date.now() + options.ttlMs).toISOString(),
    kept: false,
    owner: await ourStamp(),
    watchdog: null,
  };
}

function endedEarly(
  ending: Ending | undefined,
  folder: string,
  { floorBytes }: FolderLocation,
  otherwise: string,
): SafemigrateError {
  const parent = path.dirname(folder);
  switch (ending?.reason) {
    case 'space': {
      const [free, floor] = [ending.freeBytes, floorBytes].map(formatBytes);
      return new SafemigrateError(
        'LOST',
        `The clone was ended: free space on ${parent} fell to ${free}, below ${floor}.`,
        { hint: 'Free some space, or put the clone on another file system with --clone-dir.' },
      );
    }
    case 'time':
      return new SafemigrateError('LOST', 'The clone was ended: its time was up.', {
        hint: 'Give it more with SAFEMIGRATE_CLONE_TTL.',
      });
    case 'gone':
      return new SafemigrateError('LOST', `The clone was ended: somebody removed ${folder}.`);
    case 'asked':
      return new SafemigrateError('LOST', 'The clone was ended: somebody ended its watchdog.');
    default:
      return new SafemigrateError('LOST', `The clone was lost: ${otherwise}.`);
  }
}
