import type { ProductionTime } from '../../model/report.ts';
import type { WorkKind } from './work.ts';

/** The relations of a statement's work, here and in production. */
export interface Growth {
  readonly hereBytes: number;
  readonly thereBytes: number;
  /** 0: unknown. */
  readonly hereRows: number;
  readonly thereRows: number;
}

/** Parsing, catalogues and the commit: what a statement takes on an empty table. */
const FIXED_MS = 2;
/** Two runs of the same statement differ by this. */
const NOISE_MS = 2;
/** Less than this above the fixed part says nothing of a rate. */
const MEASURABLE_MS = 4;
/** Sizes that differ by less than this are taken as equal. */
const ALIKE = 1.25;

/** Bytes per ms of an ordinary server, by the kind of work; nothing is known of what rows or code take. */
const TYPICAL: Partial<Record<WorkKind, number>> = { scan: 400_000, build: 50_000, rewrite: 40_000 };

/** What sorting takes more on larger input than proportionally, as a power of the ratio of the logarithms of the rows. */
const LOGARITHMIC: Partial<Record<WorkKind, number>> = { build: 1, rewrite: 0.5 };

/** Factors of the interval's ends, by docs/benchmarks.md. */
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
    return {
      ms: FIXED_MS + growingMs * factor,
      lowMs: FIXED_MS + Math.max(growingMs / 2, growingMs - NOISE_MS) * Math.min(...factors) * spread.low,
      highMs: FIXED_MS + (growingMs + NOISE_MS) * Math.max(...factors) * spread.high,
      basis: 'measured rate',
    };
  }
  const bytesPerMs = TYPICAL[kind];
  if (bytesPerMs === undefined || growth.thereBytes <= growth.hereBytes * ALIKE) return null;
  const typicalMs = FIXED_MS + growth.thereBytes / bytesPerMs;
  // All that was measured, taken as growing, is an upper limit.
  const limitMs = factors.length === 0 ? Number.POSITIVE_INFINITY : durationMs * Math.max(...factors);
  const ms = Math.max(durationMs, Math.min(typicalMs, limitMs));
  return {
    ms,
    lowMs: Math.max(durationMs, ms * TYPICAL_SPREAD.low),
    highMs: Math.max(ms, Math.min(typicalMs * TYPICAL_SPREAD.high, limitMs)),
    basis: 'typical rate',
  };
}

/**
 * Returns by how much the work is larger in production: first the best guess, then other ones; none if there is nothing here. Reading
 * goes by bytes, changing by rows; what is sorted or written anew goes by both.
 */
function factorsOf(kind: WorkKind, { hereBytes, thereBytes, hereRows, thereRows }: Growth): number[] {
  if (hereBytes <= 0) return [];
  const byBytes = thereBytes / hereBytes;
  if (hereRows <= 0 || thereRows <= 0) return [byBytes];
  const byRows = thereRows / hereRows;
  const sorting =
    hereRows > 1 && thereRows > 1
      ? (Math.log(thereRows) / Math.log(hereRows)) ** (LOGARITHMIC[kind] ?? 0)
      : 1;
  const best = { rows: byRows, scan: byBytes, code: byBytes }[kind as string] ?? Math.sqrt(byBytes * byRows);
  return [best, byBytes, byRows].map((factor) => factor * sorting);
}
