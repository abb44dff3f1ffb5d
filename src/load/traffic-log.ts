import type { LoadPhase, LoadSection } from '../model/load-model.ts';
import { DurationHistogram } from '../observe/duration-histogram.ts';

/** One transaction of the load that has ended. */
export interface EndedTransaction {
  /** By performance.now(). */
  readonly startedMs: number;
  readonly endedMs: number;
  readonly error: { readonly sqlstate: string; readonly message: string; readonly detail: string } | null;
}

export type LoadFailure = LoadSection['failures'][number];
type Deadlock = Pick<EndedTransaction, 'endedMs'> & { detail: string };

const DEADLOCK_DETECTED = '40P01';

/** Counts what became of the load's transactions, in memory that does not grow with their number. */
export class TrafficLog {
  readonly startedMs = performance.now();
  readonly deadlocks: Deadlock[] = [];
  /** Message of the first error of all. */
  firstError: string | undefined;
  readonly #seconds: { latencies: DurationHistogram; failures: number }[] = [];
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
    const at = Math.max(0, Math.floor((endedMs - this.startedMs) / 1000));
    while (this.#seconds.length <= at) this.#seconds.push(newPhase());
    const name =
      endedMs < this.#commandStartedMs ? 'before' : startedMs < this.#commandEndedMs ? 'during' : 'after';
    for (const counted of [this.#seconds[at], this.#phases[name]]) {
      counted?.latencies.add(endedMs - startedMs);
      if (counted && error) counted.failures++;
    }
    if (error) this.firstError ??= error.message;
    if (!error || name === 'before') return;
    const known = this.#errors.get(error.sqlstate);
    if (known) known.count++;
    else this.#errors.set(error.sqlstate, { sqlstate: error.sqlstate, message: error.message, count: 1 });
    if (error.sqlstate === DEADLOCK_DETECTED) this.deadlocks.push({ endedMs, detail: error.detail });
  }

  /** Counts an error of which nobody knows when it came. */
  addAborted(message: string): void {
    this.#phases.during.failures++;
    const known = this.#errors.get(message);
    if (known) known.count++;
    else this.#errors.set(message, { sqlstate: '', message, count: 1 });
  }

  /** Returns the transactions of a part of the run that has lasted from one time to another, by performance.now(). */
  phase(name: 'before' | 'during' | 'after', fromMs: number, toMs: number): LoadPhase {
    const { latencies, failures } = this.#phases[name];
    const p99Ms = latencies.count === 0 ? null : latencies.percentile(0.99);
    const durationMs = Math.max(toMs - fromMs, 0);
    return { durationMs, transactions: latencies.count, failures, ...latenciesOf(latencies), p99Ms };
  }

  /** Returns the seconds so far; `waiting` gives the most sessions that waited in one of them. */
  seconds(waiting: (second: number) => number): LoadSection['seconds'] {
    return this.#seconds.map(({ latencies, failures }, second) => ({
      atMs: second * 1000,
      transactions: latencies.count,
      failures,
      ...latenciesOf(latencies),
      waiting: waiting(second),
    }));
  }

  get failures(): LoadFailure[] {
    return [...this.#errors.values()].sort((one, other) => other.count - one.count);
  }
}

function newPhase(): { latencies: DurationHistogram; failures: number } {
  return { latencies: new DurationHistogram(), failures: 0 };
}

function latenciesOf(latencies: DurationHistogram): Pick<LoadPhase, 'p50Ms' | 'p95Ms' | 'maxMs'> {
  if (latencies.count === 0) return { p50Ms: null, p95Ms: null, maxMs: null };
  return {
    p50Ms: latencies.percentile(0.5),
    p95Ms: latencies.percentile(0.95),
    maxMs: latencies.maxMs,
  };
}
