import { afterAll, beforeAll, describe, test } from 'vitest';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import type { PlacedServer } from '../helpers/placed-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { inThisShare } from '../helpers/share.ts';
import { btrfsVolumes, expectNothingLeft, isOneVolume, LAYOUTS, serverIn } from '../helpers/volumes.ts';

describe('PostgreSQL on btrfs', async () => {
  const obstacle = skipReason(await loopFileSystemObstacle('btrfs'));
  let place: LoopFileSystem | undefined;
  let server: PlacedServer | undefined;

  beforeAll(async () => {
    if (!obstacle) place = await loopFileSystem('btrfs', 3072 * 2 ** 20);
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    await place?.destroy();
  });

  test.skipIf(obstacle).each(inThisShare(LAYOUTS, isOneVolume))(
    'has no subvolume left after runs were interrupted and killed if %s',
    async (layout) => {
      const volumes = btrfsVolumes(place?.folder ?? '');
      server = await serverIn(layout, volumes, layout === LAYOUTS[0] ? 14 : 18);
      await expectNothingLeft(volumes, server);
      await server.stop();
    },
    60_000,
  );
});
