/** A session that waits for a lock. */
export interface Waiter {
  readonly pid: number;
  /** Process ids of the sessions that hold the lock, or wait for it earlier in the queue. */
  readonly blockers: readonly number[];
  /** It waits for a lock that the application needs, unlike an advisory lock or a virtualxid. */
  readonly hurt: boolean;
  readonly sinceMs: number;
  readonly nowMs: number;
}

/**
 * Counts the sessions that a backend of the command blocks, directly or through others, and the longest wait. Time that they
 * waited before its transaction began does not count.
 * @param begunMs start of the transaction by the server's clock; null if it is not known.
 */
export function blockedBehind(
  pid: number,
  begunMs: number | null,
  waiters: readonly Waiter[],
  ours: ReadonlySet<number>,
): { waiting: number; longestMs: number } {
  const behind = waitersBehind(pid, waiters, ours);
  const waits = behind.map(({ nowMs, sinceMs }) => nowMs - Math.max(sinceMs, begunMs ?? 0));
  return { waiting: behind.length, longestMs: Math.max(0, ...waits) };
}

/** Finds the sessions that a backend blocks, directly or through others. @param ours process ids of the command's own sessions. */
export function waitersBehind<W extends Waiter>(
  pid: number,
  waiters: readonly W[],
  ours: ReadonlySet<number>,
): W[] {
  const behind = new Set([pid]);
  const found: W[] = [];
  for (let more = true; more; ) {
    const next = waiters.filter(
      (waiter) =>
        waiter.hurt &&
        !behind.has(waiter.pid) &&
        !ours.has(waiter.pid) &&
        waiter.blockers.some((blocker) => behind.has(blocker)),
    );
    for (const waiter of next) behind.add(waiter.pid);
    found.push(...next);
    more = next.length > 0;
  }
  return found;
}
