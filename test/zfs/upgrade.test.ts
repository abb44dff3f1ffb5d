import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { skipReason } from '../helpers/requirements.ts';
import { cannotUpgrade, NEW, OLD, rehearseUpgradeOf } from '../helpers/upgrading.ts';
import { LAYOUTS, serverIn } from '../helpers/volumes.ts';
import { type Pool, zfsObstacle, zfsPool } from '../helpers/zfs.ts';

const GB = 2 ** 30;

describe.skipIf(cannotUpgrade || skipReason(await zfsObstacle()))('an upgrade of a cluster on ZFS', () => {
  let pool: Pool;

  beforeAll(async () => {
    pool = await zfsPool(4 * GB);
  }, 60_000);
  afterAll(async () => {
    await pool?.destroy();
  });

  test('is rehearsed on a snapshot in the modes that need no shared blocks', async () => {
    const settings = { max_wal_size: '100MB' };
    const server = await serverIn(LAYOUTS[0], pool, 15, { programs: OLD.programs, settings });
    const before = await pool.list();
    const { report, exitCode, stderr } = await rehearseUpgradeOf(server.url, 18, ['--new-bin', NEW.programs]);
    expect(exitCode, stderr).toBe(0);
    expect(report?.clone).toMatchObject({ strategy: 'zfs snapshot' });
    expect(report?.modes.map(({ mode, outcome }) => [mode, outcome])).toEqual([
      ['copy', 'passed'],
      ['clone', 'skipped'],
      ['link', 'passed'],
      ['swap', 'passed'],
    ]);
    expect(await pool.list()).toEqual(before);
    await pool.stop(server);
  }, 180_000);
});
