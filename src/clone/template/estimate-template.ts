/**
 * Estimates the cost of CREATE DATABASE … TEMPLATE, per strategy. The coefficients were measured on PostgreSQL 18 with local
 * disks (XFS and ext4; 7 MB to 1.5 GB, 300 to 40,000 files); disks differ by a factor of several, so they serve to
 * choose and to warn, and are shown as estimates.
 */
export type TemplateStrategy = 'clone' | 'copy' | 'wal_log';

export interface Estimate {
  readonly strategy: TemplateStrategy;
  readonly milliseconds: number;
}

interface Cost {
  readonly fixedMs: number;
  /** Time to open, create and later sync a file. */
  readonly perFileMs: number;
  readonly bytesPerMs: number;
}

const MB = 1024 * 1024;

const COSTS: Record<TemplateStrategy, Cost> = {
  /** Two checkpoints; blocks are shared, so the size hardly matters. */
  clone: { fixedMs: 50, perFileMs: 0.115, bytesPerMs: 20_000 * 1000 },
  /** Two checkpoints; 250 MB/s cold, 1,500 MB/s from the page cache. */
  copy: { fixedMs: 50, perFileMs: 0.14, bytesPerMs: (300 * MB) / 1000 },
  /** No checkpoint; every page goes through WAL, 200 to 500 MB/s. */
  wal_log: { fixedMs: 40, perFileMs: 0.07, bytesPerMs: (220 * MB) / 1000 },
};

export function estimate(strategy: TemplateStrategy, size: { bytes: number; files: number }): Estimate {
  const cost = COSTS[strategy];
  return {
    strategy,
    milliseconds: Math.round(cost.fixedMs + cost.perFileMs * size.files + size.bytes / cost.bytesPerMs),
  };
}

/** Ranks the strategies that this server has, cheapest first. */
export function rank(options: {
  versionNum: number;
  sharesBlocks: boolean;
  bytes: number;
  files: number;
}): Estimate[] {
  const strategies: TemplateStrategy[] = ['copy'];
  if (options.versionNum >= 150000) strategies.push('wal_log');
  if (options.versionNum >= 180000 && options.sharesBlocks) strategies.push('clone');
  return strategies
    .map((strategy) => estimate(strategy, options))
    .sort((one, other) => one.milliseconds - other.milliseconds);
}
