import { formatBytes, formatDuration } from '../../format.ts';
import type { Assessment, CloneContext } from '../method.ts';
import { assessContainment } from '../private-cluster.ts';
import { probeBasebackup } from './probe.ts';

/** Time for the checkpoint, the end of the backup, the start of the second server and its recovery. */
const FIXED_MS = 1_500;
/** Rate of a fast network and a local disk; slower ones are common. */
const BYTES_PER_MS = 100_000;
/** Time per file: files are created and read one by one. */
const PER_FILE_MS = 0.05;

export async function assessBaseBackup(context: CloneContext): Promise<Assessment> {
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
export function estimateBasebackupMs(size: { readonly bytes: number; readonly files: number }): number {
  return Math.round(FIXED_MS + PER_FILE_MS * size.files + size.bytes / BYTES_PER_MS);
}
