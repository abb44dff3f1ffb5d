/** A session that waits for a lock. */
export interface Waiter {
  readonly pid: number;
  /** Those that hold what it waits for, or wait for it before it. */
  readonly blockers: readonly number[];
  /** It waits for something that the application needs. */
  readonly hurt: boolean;
  readonly sinceMs: number;
  readonly nowMs: number;
}

/**
 * Who waits behind one of ours, also behind others who do; what they waited before its transaction began is not its doing.
 * @param begunMs of the transaction, by the server's clock; null where it is not known.
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
