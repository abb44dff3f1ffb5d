import type { LoadedRunSection, LoadPhase } from '../model/load-model.ts';
import { DurationHistogram } from '../observe/duration-histogram.ts';

/** One transaction of the load that has ended. */
export interface EndedTransaction {
  /** By performance.now(). */
  readonly startedMs: number;
  readonly endedMs: number;
  readonly error: { readonly sqlstate: string; readonly message: string; readonly detail: string } | null;
}

type LoadFailure = LoadedRunSection['failures'][number];
type Deadlock = Pick<EndedTransaction, 'endedMs'> & { detail: string };

const DEADLOCK_DETECTED = '40P01';
const SECOND_MS = 1000;
/** Longer runs have fewer and longer parts: a page draws all of them, and more would not be read. */
const MOST_PARTS = 300;

type Counted = ReturnType<typeof newPhase>;

/** Counts what became of the load's transactions, in memory that does not grow with their number. */
export class TrafficLog {
  readonly startedMs = performance.now();
  readonly deadlocks: Deadlock[] = [];
  /** Message of the first error of all. */
  firstError: string | undefined;
  #parts: Counted[] = [];
  #partMs = SECOND_MS;
  readonly #phases = { before: newPhase(), during: newPhase(), after: newPhase() };
  readonly #errors = new Map<string, LoadFailure>();
  #commandStartedMs = Number.POSITIVE_INFINITY;
  #commandEndedMs = Number.POSITIVE_INFINITY;

  commandStarted(): void {
    this.#commandStartedMs = performance.now();
  }

  commandEnded(): void {
    this.#commandEndedMs = performance.now();
  }

  add({ startedMs, endedMs, error }: EndedTransaction): void {
    const part = this.#partAt(endedMs - this.startedMs);
    const name =
      endedMs < this.#commandStartedMs ? 'before' : startedMs < this.#commandEndedMs ? 'during' : 'after';
    for (const counted of [part, this.#phases[name]]) {
      counted.latencies.add(endedMs - startedMs);
      if (error) counted.failures++;
    }
    if (error) this.firstError ??= error.message;
    if (!error || name === 'before') return;
    this.#countError(error.sqlstate, error.sqlstate, error.message);
    if (error.sqlstate === DEADLOCK_DETECTED) this.deadlocks.push({ endedMs, detail: error.detail });
  }

  /** Counts an error whose time is not known. */
  addAborted(message: string): void {
    this.#phases.during.failures++;
    this.#countError(message, '', message);
  }

  #countError(kind: string, sqlstate: string, message: string): void {
    const known = this.#errors.get(kind);
    if (known) known.count++;
    else this.#errors.set(kind, { sqlstate, message, count: 1 });
  }

  /** Returns the transactions of a part of the run that has lasted from one time to another, by performance.now(). */
  phase(name: 'before' | 'during' | 'after', fromMs: number, toMs: number): LoadPhase {
    const { latencies, failures } = this.#phases[name];
    const p99Ms = latencies.count === 0 ? null : latencies.percentile(0.99);
    const durationMs = Math.max(toMs - fromMs, 0);
    return { durationMs, transactions: latencies.count, failures, ...latenciesOf(latencies), p99Ms };
  }

  /**
   * Returns the seconds so far, or longer parts of a long run. `waiting` gives the most sessions that waited between two times since the
   * start of the load.
   */
  seconds(waiting: (fromMs: number, toMs: number) => number): LoadedRunSection['seconds'] {
    const durationMs = this.#partMs;
    return this.#parts.map(({ latencies, failures }, index) => ({
      atMs: index * durationMs,
      durationMs,
      transactions: latencies.count,
      failures,
      ...latenciesOf(latencies),
      waiting: waiting(index * durationMs, (index + 1) * durationMs),
    }));
  }

  #partAt(sinceStartMs: number): Counted {
    const at = Math.max(0, sinceStartMs);
    while (at >= MOST_PARTS * this.#partMs) {
      this.#parts = inPairs(this.#parts);
      this.#partMs *= 2;
    }
    const index = Math.floor(at / this.#partMs);
    while (this.#parts.length < index) this.#parts.push(newPhase());
    const part = this.#parts[index] ?? newPhase();
    this.#parts[index] = part;
    return part;
  }

  get failures(): LoadFailure[] {
    return [...this.#errors.values()].sort((one, other) => other.count - one.count);
  }
}

function newPhase() {
  return { latencies: new DurationHistogram(), failures: 0 };
}

function inPairs(parts: readonly Counted[]): Counted[] {
  const pairs: Counted[] = [];
  for (const [index, { latencies, failures }] of parts.entries()) {
    const pair = pairs[index >> 1] ?? newPhase();
    pairs[index >> 1] = pair;
    pair.latencies.merge(latencies);
    pair.failures += failures;
  }
  return pairs;
}

function latenciesOf(latencies: DurationHistogram): Pick<LoadPhase, 'p50Ms' | 'p95Ms' | 'maxMs'> {
  if (latencies.count === 0) return { p50Ms: null, p95Ms: null, maxMs: null };
  return {
    p50Ms: latencies.percentile(0.5),
    p95Ms: latencies.percentile(0.95),
    maxMs: latencies.maxMs,
  };
}
