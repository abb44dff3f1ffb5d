import { formatBytes, formatDuration } from '../../format.ts';
import type { Assessment, CloneContext } from '../method.ts';
import { cageObstacle } from '../private-cluster.ts';
import { lookAround } from './look-around.ts';

/** The checkpoint, the end of the backup, the start of the second server and its recovery. */
export const FIXED_MS = 1_500;
/** Of a fast network and a local disk; slower ones are common. */
const BYTES_PER_MS = 100_000;

export async function assessBaseBackup(context: CloneContext): Promise<Assessment> {
  const found = await lookAround(context);
  if ('reason' in found) return found;
  const danger = await cageObstacle(context, found);
  if (danger) return danger;
  const { bytes, client } = found;
  const readyMs = Math.round(FIXED_MS + bytes / BYTES_PER_MS);
  return {
    possible: true,
    strategy: 'stream',
    readyMs,
    stallMs: 0,
    bytes,
    endsSessions: false,
    isolation: 'own-cluster',
    reason:
      `the whole cluster, ${formatBytes(bytes)}, copied here by pg_basebackup ${client.version}: estimated ` +
      formatDuration(readyMs),
  };
}
