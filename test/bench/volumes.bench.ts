import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import type { PlacedServer } from '../helpers/placed-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { btrfsVolumes, LAYOUTS, serverIn } from '../helpers/volumes.ts';
import { median, recordRatios } from './figures.ts';

/** Snapshots of btrfs in each layout: a large database against a small one. */
const GB = 2 ** 30;
const ROUNDS = 5;
const SIZES = { '0.1 GB': 0.1, '2 GB': 2 };
const run = promisify(execFile);

describe.skipIf(skipReason(await loopFileSystemObstacle('btrfs')))('snapshots', () => {
  let disk: LoopFileSystem;
  const servers = new Map<string, PlacedServer>();

  beforeAll(async () => {
    disk = await loopFileSystem('btrfs', 12 * GB);
  });
  afterEach(async () => {
    for (const server of servers.values()) await server.stop();
    servers.clear();
  });
  afterAll(async () => {
    await disk?.destroy();
  });

  test.each(LAYOUTS)(
    'take as long for a large database: %s',
    async (layout) => {
      for (const [name, gigabytes] of Object.entries(SIZES)) {
        const server = await serverIn(layout, btrfsVolumes(disk.folder), 18);
        servers.set(name, server);
        await withClient(server.url, async (client) => {
          await client.query('CREATE TABLE t (id int, wide text STORAGE EXTERNAL)');
          await client.query(
            `INSERT INTO t SELECT n, repeat(md5(n::text), 32000) FROM generate_series(1, ${Math.round(gigabytes * 1000)}) n`,
          );
        });
      }
      const ready: Record<string, number[]> = {};
      for (let round = 0; round < ROUNDS; round++)
        for (const [name, server] of servers) {
          await withClient(server.url, (client) => client.query('CHECKPOINT'));
          await run('sync', ['--file-system', disk.folder]);
          const { report } = await rehearse(server.url, sqlCommand('SELECT 1'), {
            args: ['--clone', 'cluster'],
          });
          expect(report.clone.strategy).toBe('btrfs snapshot');
          ready[name] = [...(ready[name] ?? []), report.clone.durationMs];
        }
      const medians = Object.fromEntries(Object.entries(ready).map(([name, times]) => [name, median(times)]));
      recordRatios(`btrfs, ready by size: ${layout}`, medians, '2 GB');
    },
    300_000,
  );
});
