import { chmod, chown } from 'node:fs/promises';
import path from 'node:path';
import { SafemigrateError } from '../errors.ts';
import { formatBytes, formatDuration } from '../format.ts';
import { usableInstallation } from '../local-server/installation.ts';
import type { Scope } from '../scope.ts';
import { type BackupServer, probeBasebackup, receiveBasebackup, receivingWords } from './basebackup/probe.ts';
import type { Assessment, Clone, CloneContext, CloneMethod, Possible } from './method.ts';
import type { FilledFolder } from './private/private-server.ts';
import { assessContainment, startPrivateCluster } from './private-cluster.ts';

/** Clones the whole cluster over a replication connection, and starts the copy here as a private server. */
export const basebackup: CloneMethod = {
  id: 'basebackup',
  assess: assessBaseBackup,
  create,
  describe,
};

async function create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone> {
  const found = await lookedAround(context);
  const { folder, owner, programs } = found;
  return startPrivateCluster(
    context,
    {
      method: 'basebackup',
      assessment,
      folder,
      owner,
      programs,
      fill: (place) => fill(context, found, place),
    },
    scope,
  );
}

/** Probes again, since conditions may have changed. @throws SafemigrateError `CLONE` */
async function lookedAround(context: CloneContext): Promise<BackupServer> {
  const found = await probeBasebackup(context);
  if (!('reason' in found)) return found;
  throw new SafemigrateError('CLONE', `No base backup can be taken: ${found.reason}.`, {
    ...(found.enable === undefined ? {} : { hint: found.enable }),
  });
}

async function fill(context: CloneContext, found: BackupServer, folder: string): Promise<FilledFolder> {
  const { binaries, owner } = found;
  const asRoot = process.getuid?.() === 0;
  if (asRoot) await chown(folder, owner.uid, owner.gid);
  await usableInstallation(binaries, path.join(folder, 'installation'), asRoot);
  await receiveBasebackup(context, found, folder);
  await chmod(path.join(folder, 'data'), 0o700);
  const { checkpoint } = context.options;
  const reasons = [
    "the clone's server runs on this machine: durations may differ, since its hardware and load differ from the target's",
    ...(context.source ? ['it was copied from a standby, which may lag behind'] : []),
  ];
  return {
    touched: context.source
      ? []
      : [
          `pg_basebackup: a checkpoint (${checkpoint}), all files read (${formatBytes(found.bytes)}), a temporary replication ` +
            'slot, a switch of the WAL segment, and a backup history file',
        ],
    caveats: reasons.map((reason) => ({ path: 'clone', kind: 'estimate', reason })),
    databases: null,
  };
}

async function describe(context: CloneContext): Promise<string[]> {
  const found = await probeBasebackup(context);
  if ('reason' in found) return [];
  return [`-- run: ${receivingWords(context, found, found.folder).join(' ')}`];
}

/** Time for the checkpoint, the end of the backup, the start of the second server and its recovery. */
const FIXED_MS = 1_500;
/** Rate of a fast network and a local disk; slower ones are common. */
const BYTES_PER_MS = 100_000;
/** Time per file: files are created and read one by one. */
const PER_FILE_MS = 0.05;

async function assessBaseBackup(context: CloneContext): Promise<Assessment> {
  const found = await probeBasebackup(context);
  if ('reason' in found) return found;
  const contained = await assessContainment(context, found);
  if ('possible' in contained) return contained;
  const { bytes, client } = found;
  const readyMs = estimateBasebackupMs({ bytes, files: context.target.database.files });
  return {
    possible: true,
    strategy: 'stream',
    readyMs,
    stallMs: 0,
    bytes,
    endsSessions: false,
    isolation: 'own-cluster',
    ...contained,
    reason:
      `the whole cluster, ${formatBytes(bytes)}, copied here by pg_basebackup ${client.version}: estimated ` +
      formatDuration(readyMs),
  };
}

/**
 * Estimates the milliseconds until the clone can be used.
 * @param size of the cluster; if it is not known, the target's size is the lower limit.
 */
function estimateBasebackupMs(size: { readonly bytes: number; readonly files: number }): number {
  return Math.round(FIXED_MS + PER_FILE_MS * size.files + size.bytes / BYTES_PER_MS);
}
