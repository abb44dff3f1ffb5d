import { describe, expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { CLOSED, PLACE_NAMES, PLACES } from '../helpers/online-places.ts';
import { disturbedSwap, emptied, endFollowing, onlineTarget } from '../helpers/online-trials.ts';
import { pgBouncerObstacle, startPgBouncer } from '../helpers/pgbouncer.ts';
import type { Decision } from '../helpers/relay.ts';
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

function sorted(values: readonly number[]): number[] {
  return [...values].sort((one, other) => one - other);
}

/** The value below which this share of them is. */
function at(values: readonly number[], share: number): number {
  return Math.round(values[Math.floor((values.length - 1) * share)] ?? 0);
}

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
    const forClone = sorted(gaps.map((each) => each.forClone));
    const forCutOver = sorted(gaps.map((each) => each.forCutOver));
    const attempts = done.reduce((sum, { online }) => sum + (online.attempts ?? 0), 0);
    expect(done).toHaveLength(swaps);
    return {
      swaps: done.length,
      'rows compared': sums['rows compared'],
      transactions: sums.transactions,
      attempts,
      'client errors': sums['client errors'],
      'per s': Math.round(sums.transactions / (writtenMs / 1000)),
      'for the clone: median gap ms': at(forClone, 0.5),
      'for the clone: p95 ms': at(forClone, 0.95),
      'for the clone: longest ms': at(forClone, 1),
      'for the cut-over: median gap ms': at(forCutOver, 0.5),
      'for the cut-over: p95 ms': at(forCutOver, 0.95),
      'for the cut-over: longest ms': at(forCutOver, 1),
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
      for (let turn = 0; turn < waysBack; turn++) {
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
          const migration = MIGRATIONS_BACK[turn % MIGRATIONS_BACK.length] ?? '';
          const words = ['--url', url, 'swap', '--online', '--way-back', '1h', '--yes', '--clone', 'cluster'];
          const swapped = await safemigrate([...words, ...limit, '--', ...sqlCommand(migration)]);
          expect(swapped, swapped.stderr).toMatchObject({ exitCode: 0 });
          await writeOn();
          const back = await safemigrate(['rollback', '--yes', '--url', url, ...limit]);
          expect(back, back.stderr).toMatchObject({ exitCode: 0 });
          closedMs.push(
            Number(/closed (?:\d+ times, )?for (?:at most )?(\d+) ms/.exec(back.stdout)?.[1] ?? Number.NaN),
          );
          await writeOn();
        } finally {
          await writers.stop();
        }
        const { rows, wrong } = await writers.compare(url);
        expect(wrong).toEqual([]);
        figures['ways back']++;
        figures['rows compared'] += rows;
        figures.transactions += writers.committed();
        await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', url]);
      }
      const times = sorted(closedMs);
      const row = { ...figures, 'median closed ms': at(times, 0.5), 'longest closed ms': at(times, 1) };
      recordFigures(
        `ways back under load, with the time for which the rollback closed the target, PostgreSQL ${version}`,
        [row],
      );
      expect(figures['ways back']).toBe(waysBack);
    },
    6 * 3_600_000,
  );

  const reopened = { agent: [] as number[], clean: [] as number[] };

  test.each(PLACE_NAMES)('an online swap that is killed loses no row: %s', async (name) => {
    const killed = await disturbedSwap(target(), {
      place: PLACES[name],
      disturb: ({ child }) => ({ onAnswer: () => void child.kill('SIGKILL') }),
    });
    expect(killed).toMatchObject({ reached: true, signal: 'SIGKILL', swapped: name === 'renamed' });
    if (CLOSED.includes(name)) reopened.agent.push(killed.openAfterMs);
  });

  test.each(CLOSED)('an online swap that is killed with its agent loses no row: %s', async (name) => {
    const killed = await disturbedSwap(target(), {
      place: PLACES[name],
      disturb: ({ child, agent }) => ({
        onAnswer: () => {
          process.kill(agent, 'SIGKILL');
          child.kill('SIGKILL');
        },
      }),
    });
    expect(killed).toMatchObject({ reached: true, signal: 'SIGKILL', swapped: false });
    reopened.clean.push(killed.openAfterMs);
  });

  test('a target that a killed swap has closed is opened by its agent, or by clean', () => {
    const rows = Object.entries(reopened).map(([by, unsorted]) => {
      const times = sorted(unsorted);
      return {
        'opened by': by,
        kills: times.length,
        'median ms': at(times, 0.5),
        'longest ms': at(times, 1),
      };
    });
    recordFigures(
      `time from the kill -9 of an online swap, or from the start of clean, to the open target, PostgreSQL ${version}`,
      rows,
      [`Killed while it was closed, at: ${CLOSED.join(', ')}. With clean its own start is included.`],
    );
    for (const { kills } of rows) expect(kills).toBe(CLOSED.length);
  });

  test.each(PLACE_NAMES)('an online swap whose server crashes loses no row: %s', async (name) => {
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
  });

  test.each(
    PLACE_NAMES.flatMap((name) => [
      { name, kind: 'worker' as const },
      { name, kind: 'walsender' as const },
    ]),
  )(
    'an online swap and its way back lose no row after their $kind was ended: $name, or as soon as there is one',
    async ({ name, kind }) => {
      let ended = 0;
      let over = false;
      let later: Promise<void> | undefined;
      const swapped = await disturbedSwap(target(), {
        place: PLACES[name],
        // It takes no column away, which PostgreSQL 14 cannot leave out on the way back.
        migration: 'ALTER TABLE orders ADD CHECK (amount >= 0)',
        wayBack: true,
        disturb: async (): Promise<Decision> => {
          const endOne = async () => {
            ended = await endFollowing(target(), kind);
            return over || ended > 0;
          };
          if (!(await endOne())) later = until(`there is a ${kind}`, endOne, 600_000);
          return 'forward';
        },
      });
      over = true;
      await later;
      const why = `${swapped.swap?.reasons.join('; ')}\n${swapped.stderr}`;
      expect(swapped, why).toMatchObject({ reached: true, exitCode: 0, swapped: true });
      expect(swapped.swap?.online.wayBack?.failure).toBeNull();
      expect(ended).toBeGreaterThan(0);
    },
  );
});
