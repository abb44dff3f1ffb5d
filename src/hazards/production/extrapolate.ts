import type { ProductionTime } from '../../model/report.ts';
import type { WorkKind } from './work.ts';

/** The relations of a statement's work, here and in production. */
export interface Growth {
  readonly hereBytes: number;
  readonly thereBytes: number;
  /** 0: unknown. */
  readonly hereRows: number;
  readonly thereRows: number;
  /** Rows that the statement reads or writes there; null: unknown. */
  readonly workRows: number | null;
  /** By how much faster the work is done there, by several processes; 1: as here. */
  readonly speedup: number;
}

/** Parsing, catalogues and the commit: what a statement takes on an empty table. */
const FIXED_MS = 1;
/** Two runs of the same statement differ by this. */
const NOISE_MS = 2;
/** Less than this above the fixed part says nothing of a rate. */
const MEASURABLE_MS = 4;
/** Sizes that differ by less than this are taken as equal. */
const ALIKE = 1.25;

/** Work of an ordinary server in a ms: bytes, by the kind of work, and rows. Nothing is known of code. */
const TYPICAL: Partial<Record<WorkKind, number>> = {
  scan: 500_000,
  lookup: 200_000,
  build: 250_000,
  'concurrent build': 100_000,
  rewrite: 60_000,
};
const TYPICAL_ROWS = 80;

/**
 * Size above which a relation is not in the server's memory (shared_buffers by default), as the little data here is: it is not read
 * faster than typical.
 */
const IN_MEMORY_BYTES = 128 * 2 ** 20;
/** Nothing is read faster than this: the statement read something else. */
const FASTEST_BYTES_PER_MS = 5_000_000;

/** Time that sorting takes more on larger input than proportionally, as a power of the ratio of the logarithms of the rows. */
const LOGARITHMIC: Partial<Record<WorkKind, number>> = { build: 1, 'concurrent build': 1, rewrite: 0.25 };

/** Factors of the interval's ends, by test/bench/results/profile.bench.ts.json. */
const SPREAD = { low: 0.7, high: 1.4 };
const TYPICAL_SPREAD = { low: 1 / 4, high: 4 };

/**
 * Extrapolates a duration to production's size: the rate that was measured here, on what grows with the relations, times their size
 * there. Returns null if the sizes are alike, or if too little was measured for work of which no typical rate is known.
 */
export function extrapolate(durationMs: number, kind: WorkKind, growth: Growth): ProductionTime | null {
  const factors = factorsOf(kind, growth);
  const growingMs = durationMs - FIXED_MS;
  if (factors.length > 0 && growingMs >= MEASURABLE_MS) {
    if (factors.every((factor) => factor < ALIKE && factor > 1 / ALIKE)) return null;
    const [factor = 1] = factors;
    const spread = kind === 'code' ? { low: 0, high: SPREAD.high } : SPREAD;
    const ms = FIXED_MS + Math.max(growingMs * factor, outOfMemoryTime(durationMs, kind, growth));
    const highMs = FIXED_MS + (growingMs + NOISE_MS) * Math.max(...factors) * spread.high;
    return {
      ms,
      lowMs: FIXED_MS + Math.max(growingMs / 2, growingMs - NOISE_MS) * Math.min(...factors) * spread.low,
      highMs: Math.max(highMs, ms * spread.high),
      basis: 'measured rate',
    };
  }
  const typicalWorkMs = typicalTime(kind, growth);
  if (typicalWorkMs === null || growth.thereBytes <= growth.hereBytes * ALIKE) return null;
  const typicalMs = FIXED_MS + typicalWorkMs;
  const [best = Number.POSITIVE_INFINITY] = factors;
  // Changed rows have no fixed part, and half of what is measured of the rest is none, or more.
  const likelyMs =
    kind === 'rows' ? durationMs * best : FIXED_MS + Math.max(growingMs, durationMs / 2) * best;
  const ms = Math.max(durationMs, Math.min(typicalMs, likelyMs), outOfMemoryTime(durationMs, kind, growth));
  return {
    ms,
    lowMs: Math.max(durationMs, ms * TYPICAL_SPREAD.low),
    highMs: Math.max(
      ms * SPREAD.high,
      // All that was measured, taken as growing, is an upper limit.
      Math.min(typicalMs * TYPICAL_SPREAD.high, (durationMs + NOISE_MS) * Math.max(best, ...factors)),
    ),
    basis: 'typical rate',
  };
}

/** Returns the time of work on a relation that is not in memory there, if the statement can have read it here; else 0. */
function outOfMemoryTime(durationMs: number, kind: WorkKind, growth: Growth): number {
  const { hereBytes, thereBytes } = growth;
  if (kind === 'rows' || thereBytes < IN_MEMORY_BYTES) return 0;
  return hereBytes > durationMs * FASTEST_BYTES_PER_MS ? 0 : (typicalTime(kind, growth) ?? 0);
}

function typicalTime(kind: WorkKind, { thereBytes, workRows, speedup }: Growth): number | null {
  if (kind === 'rows') return workRows === null ? null : workRows / TYPICAL_ROWS;
  const bytesPerMs = TYPICAL[kind];
  return bytesPerMs === undefined ? null : thereBytes / bytesPerMs / speedup;
}

/**
 * Returns growth factors for production, most likely first; empty if the clone has no data. Reads scale with bytes, updates with rows,
 * sorts and rewrites with both. Production may not have the processors for a speed-up.
 */
function factorsOf(
  kind: WorkKind,
  { hereBytes, thereBytes, hereRows, thereRows, speedup }: Growth,
): number[] {
  if (hereBytes <= 0) return [];
  const byBytes = thereBytes / hereBytes;
  if (hereRows <= 0 || thereRows <= 0) return [byBytes / speedup, byBytes];
  const byRows = thereRows / hereRows;
  const sorting =
    hereRows > 1 && thereRows > 1
      ? (Math.log(thereRows) / Math.log(hereRows)) ** (LOGARITHMIC[kind] ?? 0)
      : 1;
  const best =
    { rows: byRows, scan: byBytes, lookup: byBytes, code: byBytes }[kind as string] ??
    Math.sqrt(byBytes * byRows);
  const alone = [best, byBytes, byRows].map((factor) => factor * sorting);
  return speedup === 1 ? alone : [...alone.map((factor) => factor / speedup), ...alone];
}
