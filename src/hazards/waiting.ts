import type { RelationTraffic } from '../model/hazard-facts.ts';

/**
 * Statements that would be waiting for a lock when it is released: the one number of a lock, for hazards and forecast alike. One
 * statement may start many scans and write many rows, but a transaction waits only once, so that the rate of transactions is an
 * upper bound. null if the traffic or the lock's time is not known.
 */
export function waitingStatements(
  { heldMs, blocks }: { readonly heldMs: number | null; readonly blocks: readonly string[] },
  traffic: RelationTraffic | null,
  transactionsPerSecond: number | null,
): number | null {
  if (!traffic || heldMs === null) return null;
  // An UPDATE or DELETE scans for its rows, and thus already counts as a read.
  const scans = traffic.readsPerSecond + (traffic.insertsPerSecond ?? 0);
  const touches = blocks.includes('reads') ? scans : blocks.includes('writes') ? traffic.writesPerSecond : 0;
  return Math.round((Math.min(touches, transactionsPerSecond ?? touches) * heldMs) / 1000);
}
