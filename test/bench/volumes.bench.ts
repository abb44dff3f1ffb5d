import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import type { PlacedServer } from '../helpers/placed-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { btrfsVolumes, LAYOUTS, serverIn, type Volumes } from '../helpers/volumes.ts';
import { zfsObstacle, zfsPool } from '../helpers/zfs.ts';
import { fillWide, recordReadyBySize } from './ready-by-size.ts';

/** Snapshots in each layout: a large database against a small one. */
const GB = 2 ** 30;
const SIZES = { '0.1 GB': 0.1, '2 GB': 2 };

interface Place {
  readonly volumes: Volumes;
  stop(...servers: PlacedServer[]): Promise<void>;
  destroy(): Promise<void>;
}

const FILE_SYSTEMS: Record<string, { obstacle: string | null; make(): Promise<Place> }> = {
  btrfs: {
    obstacle: await loopFileSystemObstacle('btrfs'),
    make: async () => {
      const disk = await loopFileSystem('btrfs', 12 * GB);
      const stop = async (...servers: PlacedServer[]) => {
        for (const server of servers) await server.stop();
      };
      return { volumes: btrfsVolumes(disk.folder), stop, destroy: disk.destroy };
    },
  },
  // In user space: its own speed is not that of a ZFS in the kernel.
  'zfs-fuse': {
    obstacle: await zfsObstacle(),
    make: async () => {
      const pool = await zfsPool(12 * GB);
      return { volumes: pool, stop: pool.stop, destroy: pool.destroy };
    },
  },
};

describe.each(Object.entries(FILE_SYSTEMS))('snapshots of %s', (kind, { obstacle, make }) => {
  const skipped = skipReason(obstacle);
  const servers = new Map<string, PlacedServer>();
  let place: Place | undefined;

  beforeAll(async () => {
    if (!skipped) place = await make();
  }, 60_000);
  afterEach(async () => {
    await place?.stop(...servers.values());
    servers.clear();
  });
  afterAll(async () => {
    await place?.destroy();
  });

  test.skipIf(skipped).each(LAYOUTS)(
    'take as long for a large database: %s',
    async (layout) => {
      if (!place) return;
      const { volumes } = place;
      for (const [name, gigabytes] of Object.entries(SIZES)) {
        const server = await serverIn(layout, volumes, 18);
        servers.set(name, server);
        await fillWide(server, gigabytes);
      }
      const { strategy, shared: folder } = volumes;
      await recordReadyBySize(`${kind}, ready by size: ${layout}`, servers, { strategy, folder });
    },
    600_000,
  );
});
