import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import type { PlacedServer } from '../helpers/placed-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { median, recordRatios } from './figures.ts';

const ROUNDS = 5;
const run = promisify(execFile);

/** Fills the server with about so much, in few large files. */
export async function fillWide(server: PlacedServer, gigabytes: number): Promise<void> {
  await withClient(server.url, async (client) => {
    await client.query('CREATE TABLE t (id int, wide text STORAGE EXTERNAL)');
    await client.query(
      `INSERT INTO t SELECT n, repeat(md5(n::text), 32000) FROM generate_series(1, ${Math.round(gigabytes * 1000)}) n`,
    );
  });
}

/** Measures in turns how soon clones of these servers are ready, and records each against the last one, the largest. */
export async function recordReadyBySize(
  title: string,
  servers: ReadonlyMap<string, PlacedServer>,
  { strategy, folder }: { readonly strategy: string; readonly folder: string },
): Promise<void> {
  const ready: Record<string, number[]> = {};
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, server] of servers) {
      await withClient(server.url, (client) => client.query('CHECKPOINT'));
      // The kernel writes what is dirty of a file before it shares its blocks.
      await run('sync', ['--file-system', folder]);
      const { report } = await rehearse(server.url, sqlCommand('SELECT 1'), { args: ['--clone', 'cluster'] });
      expect(report.clone.strategy).toBe(strategy);
      ready[name] = [...(ready[name] ?? []), report.clone.durationMs];
    }
  const medians = Object.fromEntries(Object.entries(ready).map(([name, times]) => [name, median(times)]));
  recordRatios(title, medians, [...servers.keys()].at(-1) ?? '');
}
