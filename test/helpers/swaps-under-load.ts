import { expect } from 'vitest';
import type { OnlineSection, SwapSection } from '../../src/model/report.ts';
import { safemigrate, sqlCommand } from './cli.ts';
import { withClient } from './client.ts';
import { until } from './cutting.ts';
import { emptied, type OnlineTarget } from './online-trials.ts';
import { type ShadowedWriters, startShadowedWriters } from './shadowed-writers.ts';

/** Run in turn. */
export const MIGRATIONS = [
  'ALTER TABLE orders ADD COLUMN extra int NOT NULL DEFAULT 7',
  'ALTER TABLE lines ALTER COLUMN order_id TYPE bigint',
  'CREATE INDEX made ON orders (note)',
  'ALTER TABLE events ADD CONSTRAINT not_negative CHECK (client >= 0)',
  'CLUSTER lines USING lines_pkey',
];
/** Takes all of them back. */
export const AS_BEFORE = `
ALTER TABLE orders DROP COLUMN IF EXISTS extra;
ALTER TABLE lines ALTER COLUMN order_id TYPE int;
ALTER TABLE events DROP CONSTRAINT IF EXISTS not_negative;
DROP INDEX IF EXISTS made;`;

export type OnlineSwap = SwapSection & { readonly online: OnlineSection };

/** The clients' longest transactions, in milliseconds, around the two times for which a swap closes the target. */
export interface Gaps {
  readonly forClone: number;
  readonly forCutOver: number;
}

/** Takes the longest transaction between the making of the slot and the beginning of the following. */
async function gapForClone(
  { server }: OnlineTarget,
  writers: ShadowedWriters,
  swapping: Promise<unknown>,
): Promise<number> {
  let ended = false;
  void swapping.finally(() => {
    ended = true;
  });
  await withClient(server.url, async (client) => {
    const isThere = (what: string) => async () =>
      ended || (await client.query(`SELECT FROM ${what}`)).rows.length > 0;
    await until('there is a slot', isThere("pg_replication_slots WHERE slot_type = 'logical'"), MOST_MS);
    writers.takeLongestGapMs();
    await until('the clone follows', isThere('pg_subscription WHERE subenabled'), MOST_MS);
  });
  return writers.takeLongestGapMs();
}

const MOST_MS = 600_000;

/**
 * One online swap after the other while clients write, with all rows compared after each.
 * @param load.first of MIGRATIONS, with which it begins. @param load.pauseMs between two transactions of a client. @param load.through where the clients write. @param load.options of the tool.
 * @returns the sections of the swaps, the clients' longest transactions in each, sums, and for how long they wrote.
 */
export async function swapsUnderLoad(
  target: OnlineTarget,
  load: {
    swaps: number;
    writers: number;
    pauseMs?: number;
    through: string;
    options?: readonly string[];
  },
) {
  const { url } = target;
  const sums = { 'rows compared': 0, transactions: 0, 'client errors': 0 };
  const done: OnlineSwap[] = [];
  const gaps: Gaps[] = [];
  let writtenMs = 0;
  for (let at = 0; at < load.swaps; at++) {
    await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', url]);
    await emptied(target);
    await withClient(url, (client) => client.query(AS_BEFORE));
    const writers = startShadowedWriters(load.through, load.writers, load.pauseMs);
    const startedAt = performance.now();
    const writeOn = async () => {
      const before = writers.committed();
      await until('clients write', async () => writers.committed() > before + 20);
    };
    try {
      await writeOn();
      const migration = MIGRATIONS[at % MIGRATIONS.length] ?? '';
      const words = ['--url', url, 'swap', '--online', '--yes', '--format', 'json', '--clone', 'cluster'];
      const limit = ['--limit', 'cut-over=5s'];
      const swapping = safemigrate([
        ...words,
        ...limit,
        ...(load.options ?? []),
        ...['--', ...sqlCommand(migration)],
      ]);
      const [swapped, forClone] = await Promise.all([swapping, gapForClone(target, writers, swapping)]);
      const { swap, verdict } = JSON.parse(swapped.stdout);
      const why = JSON.stringify({ reasons: swap.reasons, verdict });
      expect({ ...swapped, stdout: swap }, why).toMatchObject({
        exitCode: 0,
        stdout: { outcome: 'swapped', reasons: [] },
      });
      done.push(swap);
      await writeOn();
      gaps.push({ forClone, forCutOver: writers.takeLongestGapMs() });
    } finally {
      await writers.stop();
    }
    writtenMs += performance.now() - startedAt;
    const { rows, wrong } = await writers.compare(url);
    expect(wrong).toEqual([]);
    sums['rows compared'] += rows;
    sums.transactions += writers.committed();
    sums['client errors'] += writers.errors.length;
  }
  return { done, gaps, sums, writtenMs };
}
