import { describe, expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { disturbedSwap, emptied, onlineTarget, PLACE_NAMES, PLACES } from '../helpers/online-trials.ts';
import { pgBouncerObstacle, startPgBouncer } from '../helpers/pgbouncer.ts';
import { VERSIONS } from '../helpers/servers.ts';
import { startShadowedWriters } from '../helpers/shadowed-writers.ts';
import { AS_BEFORE, MIGRATIONS, swapsUnderLoad } from '../helpers/swaps-under-load.ts';

/**
 * `ONLINE_SWAPS` says how many swaps on each version, `WAYS_BACK` how many of a swap and its rollback, `ONLINE_VERSIONS` on which,
 * separated by commas; `ONLINE_PAUSE_MS` how long each client waits between two transactions.
 */
const swaps = Number(process.env.ONLINE_SWAPS ?? 50);
const waysBack = Number(process.env.WAYS_BACK ?? 20);
const named = process.env.ONLINE_VERSIONS?.split(',').map(Number);
const versions = VERSIONS.filter((version) => named?.includes(version) ?? true);
const pauseMs = Number(process.env.ONLINE_PAUSE_MS ?? 0);
const WRITERS = 8;
const noPgBouncer = await pgBouncerObstacle();

/** Without new columns, which PostgreSQL 14 cannot leave out on the way back. */
const MIGRATIONS_BACK = MIGRATIONS.slice(1, 4);

describe.each(versions)('PostgreSQL %d', (version) => {
  const target = onlineTarget(version);

  /** Clients write by `through` during each of the swaps. @returns the figures. */
  async function figuresUnderLoad(through: string, ...options: string[]) {
    const { done, gaps, sums, writtenMs } = await swapsUnderLoad(target(), {
      swaps,
      writers: WRITERS,
      pauseMs,
      through,
      options,
    });
    gaps.sort((one, other) => one - other);
    const gap = (share: number) => Math.round(gaps[Math.floor((gaps.length - 1) * share)] ?? 0);
    const attempts = done.reduce((sum, { online }) => sum + (online.attempts ?? 0), 0);
    expect(done).toHaveLength(swaps);
    return {
      swaps: done.length,
      'rows compared': sums['rows compared'],
      transactions: sums.transactions,
      attempts,
      'client errors': sums['client errors'],
      'per s': Math.round(sums.transactions / (writtenMs / 1000)),
      'median gap ms': gap(0.5),
      'p95 ms': gap(0.95),
      'longest ms': gap(1),
    };
  }

  const GAP =
    pauseMs > 0
      ? `${pauseMs} ms between the transactions of a client, with the longest of them`
      : 'with the longest time from one COMMIT of a client to its next';

  test(
    `${swaps} online swaps under the load of ${WRITERS} clients lose, double and alter no row`,
    async () => {
      const row = await figuresUnderLoad(target().url);
      recordFigures(`online swaps under load, ${GAP}, PostgreSQL ${version}`, [row]);
    },
    6 * 3_600_000,
  );

  test.skipIf(version < 18 || noPgBouncer !== null)(
    `${swaps} online swaps under the load of ${WRITERS} clients behind PgBouncer lose no row, and no client sees an error`,
    async () => {
      const pooler = await startPgBouncer(target().server, { app: 'app' });
      try {
        const row = await figuresUnderLoad(pooler.url('app'), '--pgbouncer', pooler.console);
        recordFigures(`online swaps behind PgBouncer, ${GAP}, PostgreSQL ${version}`, [row]);
        expect(row['client errors']).toBe(0);
      } finally {
        await pooler.stop();
      }
    },
    6 * 3_600_000,
  );

  test(
    `${waysBack} ways back under the load of ${WRITERS} clients lose, double and alter no row`,
    async () => {
      const closedMs: number[] = [];
      const figures = { 'ways back': 0, 'rows compared': 0, transactions: 0 };
      for (let at = 0; at < waysBack; at++) {
        await emptied(target());
        const { url } = target();
        await withClient(url, (client) => client.query(AS_BEFORE));
        const writers = startShadowedWriters(url, WRITERS);
        const writeOn = async () => {
          const before = writers.committed();
          await until('clients write on', async () => writers.committed() > before + 200);
        };
        const limit = ['--limit', 'cut-over=5s'];
        try {
          await writeOn();
          const migration = MIGRATIONS_BACK[at % MIGRATIONS_BACK.length] ?? '';
          const words = ['--url', url, 'swap', '--online', '--way-back', '1h', '--yes', '--clone', 'cluster'];
          const swapped = await safemigrate([...words, ...limit, '--', ...sqlCommand(migration)]);
          expect(swapped, swapped.stderr).toMatchObject({ exitCode: 0 });
          await writeOn();
          const back = await safemigrate(['rollback', '--yes', '--url', url, ...limit]);
          expect(back, back.stderr).toMatchObject({ exitCode: 0 });
          closedMs.push(Number(/closed for (\d+) ms/.exec(back.stdout)?.[1] ?? Number.NaN));
          await writeOn();
        } finally {
          await writers.stop();
        }
        const { rows, wrong } = await writers.compare(url);
        expect(wrong).toEqual([]);
        figures['ways back']++;
        figures['rows compared'] += rows;
        figures.transactions += writers.committed();
        await safemigrate(['clean', '--originals', '--older-than', '0s', '--url', url]);
      }
      closedMs.sort((one, other) => one - other);
      const closed = (share: number) => closedMs[Math.floor((closedMs.length - 1) * share)] ?? 0;
      const row = { ...figures, 'median closed ms': closed(0.5), 'longest closed ms': closed(1) };
      recordFigures(
        `ways back under load, with the time for which the rollback closed the target, PostgreSQL ${version}`,
        [row],
      );
      expect(figures['ways back']).toBe(waysBack);
    },
    6 * 3_600_000,
  );

  test.each(PLACE_NAMES)(
    'an online swap that is killed, or whose server crashes, loses no row: %s',
    async (name) => {
      const killed = await disturbedSwap(target(), {
        place: PLACES[name],
        disturb: ({ child }) => ({ onAnswer: () => void child.kill('SIGKILL') }),
      });
      expect(killed).toMatchObject({ reached: true, signal: 'SIGKILL', swapped: name === 'renamed' });
      let restarted: Promise<void> | undefined;
      const crashed = await disturbedSwap(target(), {
        place: PLACES[name],
        disturb: () => ({
          onAnswer: () => {
            restarted ??= target().server.restart('immediate');
            return restarted;
          },
        }),
      });
      await restarted;
      expect(crashed.reached).toBe(true);
      expect(crashed.swapped).toBe(crashed.exitCode === 0);
    },
  );
});
