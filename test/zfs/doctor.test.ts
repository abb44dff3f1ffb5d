import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { PROGRAM, runProgram, safemigrate } from '../helpers/cli.ts';
import { asUser } from '../helpers/other-user.ts';
import { ownFolder, type PlacedServer, SERVER_UID } from '../helpers/placed-server.ts';
import { enterableFolder } from '../helpers/private-clone.ts';
import { skipReason } from '../helpers/requirements.ts';
import { LAYOUTS, serverIn } from '../helpers/volumes.ts';
import { type Pool, zfsObstacle, zfsPool } from '../helpers/zfs.ts';

const MB = 2 ** 20;

describe.skipIf(skipReason(await zfsObstacle()))('doctor on ZFS', () => {
  let pool: Pool;
  let server: PlacedServer | undefined;

  afterEach(async () => {
    if (server) await pool.stop(server);
    await pool?.destroy();
  });

  async function findings(): Promise<{ code: string; found: string; change: string }[]> {
    const { stdout } = await safemigrate(['doctor', '--format', 'json'], {
      env: { DATABASE_URL: server?.url, SAFEMIGRATE_CLONE: 'cluster' },
    });
    return JSON.parse(stdout).copyOnWrite;
  }

  test('names ten mistakes of a pool that was laid out badly', async () => {
    pool = await zfsPool(700 * MB);
    // ZFS in user space has no sync.
    const bad = { recordsize: '128k', compression: 'off', atime: 'on', logbias: 'throughput' };
    for (const [name, value] of Object.entries({
      ...bad,
      primarycache: 'metadata',
      checksum: 'off',
    }))
      await pool.zfs('set', `${name}=${value}`, pool.name);
    server = await serverIn(LAYOUTS[0], pool, 18, { settings: { max_wal_size: '64MB' } });
    for (let count = 0; count < 60 && (await capacity(pool)) <= 81; count++)
      await writeFile(path.join(pool.shared, `filler ${count}`), Buffer.alloc(10 * MB, 'x'));
    expect((await findings()).map(({ code }) => code).sort()).toEqual([
      'ATIME',
      'CHECKSUM_OFF',
      'COMPRESSION_OFF',
      'FULL_PAGE_WRITES',
      'LOGBIAS',
      'POOL_FULL',
      'PRIMARYCACHE',
      'RECORDSIZE',
      'WAL_INIT_ZERO',
      'WAL_RECYCLE',
    ]);
    const { stdout } = await safemigrate(['doctor'], {
      env: { DATABASE_URL: server.url, SAFEMIGRATE_CLONE: 'cluster' },
    });
    expect(stdout).toContain('zfs set recordsize=16k');
  }, 60_000);

  test.each([
    [LAYOUTS[0], /is a mount point.* what would help: run safemigrate as root, which takes snapshots/],
    [LAYOUTS[1], /copied in full, because .* snapshots need root .* whatever `zfs allow` permits/],
  ])(
    'tells a user who is not root what snapshots need if %s',
    async (layout, words) => {
      pool = await zfsPool(700 * MB);
      server = await serverIn(layout, pool, 18);
      const home = await enterableFolder();
      const state = path.join(home.path, 'state');
      await ownFolder(state);
      const { stdout } = await runProgram([...asUser(SERVER_UID), ...PROGRAM, 'doctor'], {
        env: { DATABASE_URL: server.url, SAFEMIGRATE_CLONE: 'cluster', HOME: state, XDG_STATE_HOME: state },
      });
      await home.remove();
      expect(stdout.replaceAll(/\s+/g, ' ')).toMatch(words);
    },
    60_000,
  );

  test('names none of a good one', async () => {
    pool = await zfsPool(700 * MB);
    for (const setting of ['recordsize=16k', 'compression=lzjb', 'atime=off'])
      await pool.zfs('set', setting, pool.name);
    server = await serverIn(LAYOUTS[2], pool, 18, {
      settings: { wal_init_zero: 'off', wal_recycle: 'off', full_page_writes: 'off' },
    });
    expect(await findings()).toEqual([]);
  }, 60_000);
});

async function capacity({ zpool }: Pool): Promise<number> {
  return Number.parseInt(await zpool('list', '-H', '-o', 'capacity'), 10);
}
