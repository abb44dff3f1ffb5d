import type { OnlineSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';

type LagPoint = OnlineSection['lag'][number];

const MOST_POINTS = 60;
const MOST_SAMPLES = 1_000;

/**
 * SQL for the WAL that the clone does not have yet, in bytes, by its slot r and its subscription t. `received_lsn` is the position of the
 * change that is being applied; `latest_end_lsn` is set by keepalives. Both are null until a worker has got something.
 * @param from parameter with the position up to which the new clone had everything.
 */
export function behindSql(from: string): string {
  return `pg_wal_lsn_diff(pg_current_wal_insert_lsn(),
       greatest(${from}::pg_lsn, r.confirmed_flush_lsn, t.received_lsn, t.latest_end_lsn))::float8`;
}

const SAMPLE = `
SELECT ${behindSql('$1')} AS behind
  FROM pg_replication_slots r LEFT JOIN pg_stat_subscription t ON t.subname = r.slot_name AND t.relid IS NULL
 WHERE r.slot_name = $2`;

/** Samples of how far a clone is behind its target, or the original behind the newer database. None are taken before it begins. */
export class CloneLag {
  #born: { readonly lsn: string | null; readonly at: number } | undefined;
  #samples: LagPoint[] = [];

  /** @param lsn the position in the WAL up to which a new clone has everything; null: it follows already. */
  begin(lsn: string | null): void {
    this.#born = { lsn, at: performance.now() };
    if (lsn !== null) this.add(0);
  }

  /** The position up to which the clone had everything at the beginning. */
  get from(): string | null {
    return this.#born?.lsn ?? null;
  }

  /** Adds a sample of this moment. */
  add(bytes: number): void {
    const behindBytes = Math.max(0, Math.round(bytes));
    this.#samples.push({ atMs: this.timeOf(performance.now()), behindBytes });
    if (this.#samples.length >= MOST_SAMPLES) this.#samples = thinned(this.#samples, MOST_SAMPLES / 2);
  }

  /** Reads a sample. @param session in any database of the server. @param slot by which the clone follows. */
  async sample(session: Session, slot: string): Promise<void> {
    if (!this.#born) return;
    const [row] = await session.query<{ behind: number }>(SAMPLE, [this.#born.lsn, slot]);
    if (row) this.add(row.behind);
  }

  /** Converts a time of performance.now() into that of the points. */
  timeOf(now: number): number {
    return Math.max(0, now - (this.#born?.at ?? now));
  }

  points(): LagPoint[] {
    return thinned(this.#samples, MOST_POINTS);
  }
}

/** Divides the time into equal parts, and keeps the largest sample of each. @param samples in the order of time. */
export function thinned(samples: readonly LagPoint[], most: number): LagPoint[] {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last || samples.length <= most) return [...samples];
  const partMs = (last.atMs - first.atMs) / most;
  const kept = new Map<number, LagPoint>();
  for (const sample of samples) {
    const part = Math.min(most - 1, Math.floor((sample.atMs - first.atMs) / partMs));
    const before = kept.get(part);
    if (!before || sample.behindBytes > before.behindBytes) kept.set(part, sample);
  }
  return [...kept.values()];
}
