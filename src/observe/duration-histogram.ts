/** A percentile is at most 10 % too high: the durations of one step of the histogram differ by no more than that. */
const STEP = Math.log(1.1);
const SHORTEST_MS = 0.001;

/** Counts durations, in memory that does not grow with their number. */
export class DurationHistogram {
  /** Number of durations by their step. */
  readonly #steps = new Map<number, number>();
  #count = 0;
  #maxMs = 0;

  get count(): number {
    return this.#count;
  }

  /** The longest duration, in milliseconds; 0 if there is none. */
  get maxMs(): number {
    return this.#maxMs;
  }

  add(durationMs: number): void {
    this.#addSteps([[Math.ceil(Math.log(Math.max(durationMs, SHORTEST_MS) / SHORTEST_MS) / STEP), 1]]);
    this.#maxMs = Math.max(this.#maxMs, durationMs);
  }

  merge(other: DurationHistogram): void {
    this.#addSteps(other.#steps);
    this.#maxMs = Math.max(this.#maxMs, other.#maxMs);
  }

  /** Returns the duration in milliseconds that this share of all does not exceed, at most 10 % too high; 0 if there is none. */
  percentile(share: number): number {
    let left = Math.ceil(share * this.#count);
    for (const [step, count] of [...this.#steps].sort(([one], [other]) => one - other)) {
      left -= count;
      if (left <= 0) return Math.min(SHORTEST_MS * Math.exp(step * STEP), this.#maxMs);
    }
    return this.#maxMs;
  }

  #addSteps(steps: Iterable<[step: number, count: number]>): void {
    for (const [step, count] of steps) {
      this.#steps.set(step, (this.#steps.get(step) ?? 0) + count);
      this.#count += count;
    }
  }
}
