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
  const behind = new Set([pid]);
  let waiting = 0;
  let longestMs = 0;
  for (let found = true; found; ) {
    found = false;
    for (const waiter of waiters) {
      if (!waiter.hurt || behind.has(waiter.pid) || ours.has(waiter.pid)) continue;
      if (!waiter.blockers.some((blocker) => behind.has(blocker))) continue;
      behind.add(waiter.pid);
      found = true;
      waiting++;
      longestMs = Math.max(longestMs, waiter.nowMs - Math.max(waiter.sinceMs, begunMs ?? 0));
    }
  }
  return { waiting, longestMs };
}
