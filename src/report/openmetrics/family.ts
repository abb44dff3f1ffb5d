/** A gauge: its name without our prefix, what it says, and its values by their labels; null was not measured. */
export type Family = readonly [name: string, help: string, samples: readonly MetricSample[]];

export type MetricSample = readonly [labels: Readonly<Record<string, string>>, value: number | null];

export function one(value: number | null): MetricSample[] {
  return [[{}, value]];
}

/** 1 for the state that it is in, 0 for each of the others, so that an alert need not know them all. */
export function states<State extends string>(all: readonly State[], current: State): MetricSample[] {
  return all.map((outcome) => [{ outcome }, Number(outcome === current)]);
}

/** @returns null where none of them was measured. */
export function most(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : Math.max(...known);
}

/** Milliseconds in the unit of the names. */
export function seconds(ms: number | null | undefined): number | null {
  return ms == null ? null : ms / 1000;
}
