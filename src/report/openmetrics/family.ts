/** A gauge: its name without our prefix, its help text, and its values with their labels; null was not measured. */
export type Family = readonly [name: string, help: string, samples: readonly MetricSample[]];

export type MetricSample = readonly [labels: Readonly<Record<string, string>>, value: number | null];

export function one(value: number | null): MetricSample[] {
  return [[{}, value]];
}

/** One sample for each state: 1 for the current one, 0 for the others, so that an alert needs to know only one. */
export function states<State extends string>(all: readonly State[], current: State): MetricSample[] {
  return all.map((outcome) => [{ outcome }, Number(outcome === current)]);
}

/** The largest value that was measured; null if there is none. */
export function most(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : Math.max(...known);
}

/** Converts milliseconds to seconds. */
export function seconds(ms: number | null | undefined): number | null {
  return ms == null ? null : ms / 1000;
}
