import type { Averages, RelationRates, TargetTraffic } from '../database/traffic.ts';

/** Backends report their statistics at most once a second. */
export const SHORT_SAMPLE_MS = 2000;

/** The average over a shorter time may be that of one bulk load, or of a quiet night. */
const LONG_AVERAGE_MS = 24 * 60 * 60 * 1000;

/** The rates that the forecast uses. */
export interface Rates {
  /** The time that the average covers, if it is used; null: the sample alone. */
  readonly averagedMs: number | null;
  readonly transactionsPerSecond: number | null;
  readonly relations: ReadonlyMap<string, RelationRates>;
}

/**
 * Returns the sampled rates. If the sample is too short, each rate is the larger one of the sample and of the average since the
 * statistics were reset.
 */
export function effectiveRates(traffic: TargetTraffic, targetWasEmptied: boolean): Rates {
  const { average, transactionsPerSecond, relations } = traffic;
  const isEnough = traffic.sampledMs >= SHORT_SAMPLE_MS && !targetWasEmptied;
  if (isEnough || average === null || average.overMs < LONG_AVERAGE_MS)
    return { averagedMs: null, transactionsPerSecond, relations };
  return largerRates(traffic, average);
}

/**
 * Returns the rates of a profile, which is read at any hour: each is the larger one of the sample and of the average. null if
 * neither says anything.
 */
export function profileRates(traffic: TargetTraffic): Rates | null {
  const average = traffic.average && traffic.average.overMs >= LONG_AVERAGE_MS ? traffic.average : null;
  const { transactionsPerSecond, relations, sampledMs } = traffic;
  if (sampledMs < SHORT_SAMPLE_MS) return average && { ...average, averagedMs: average.overMs };
  return average ? largerRates(traffic, average) : { averagedMs: null, transactionsPerSecond, relations };
}

function largerRates({ transactionsPerSecond, relations }: TargetTraffic, average: Averages): Rates {
  const names = new Set([...relations.keys(), ...average.relations.keys()]);
  return {
    averagedMs: average.overMs,
    transactionsPerSecond: maximum(transactionsPerSecond, average.transactionsPerSecond),
    relations: new Map(
      [...names].flatMap((name) => {
        const rates = larger(relations.get(name), average.relations.get(name));
        return rates ? [[name, rates] as const] : [];
      }),
    ),
  };
}

function maximum(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.max(one, other);
}

/** Returns the sample itself if it is not below the average. */
function larger(
  sample: RelationRates | undefined,
  average: RelationRates | undefined,
): RelationRates | undefined {
  if (!sample || !average) return sample ?? average;
  const both = {
    readsPerSecond: Math.max(sample.readsPerSecond, average.readsPerSecond),
    insertsPerSecond: Math.max(sample.insertsPerSecond, average.insertsPerSecond),
    writesPerSecond: Math.max(sample.writesPerSecond, average.writesPerSecond),
  };
  const isSample =
    both.readsPerSecond === sample.readsPerSecond &&
    both.insertsPerSecond === sample.insertsPerSecond &&
    both.writesPerSecond === sample.writesPerSecond;
  return isSample ? sample : both;
}
