import { chmod, chown } from 'node:fs/promises';
import path from 'node:path';
import { SafemigrateError } from '../errors.ts';
import { formatBytes } from '../format.ts';
import { usableInstallation } from '../local-server/installation.ts';
import type { Scope } from '../scope.ts';
import { assessBaseBackup } from './basebackup/assess-basebackup.ts';
import { type BackupServer, probeBasebackup } from './basebackup/probe.ts';
import { receiveBasebackup, receivingWords } from './basebackup/receive.ts';
import type { Clone, CloneContext, CloneMethod, Possible } from './method.ts';
import type { FilledFolder } from './private/private-server.ts';
import { startPrivateCluster } from './private-cluster.ts';

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
