import { setTimeout as delay } from 'node:timers/promises';

/**
 * Computes the pause after a failed attempt: it doubles each time, up to the longest, and is partly random, so that two sessions
 * that block each other do not retry in step. In milliseconds.
 */
export function backoffMs(failed: number, limits: { firstMs: number; longestMs: number }): number {
  const longest = Math.min(limits.firstMs * 2 ** (failed - 1), limits.longestMs);
  return Math.round(longest * (0.5 + Math.random() / 2));
}

/** Waits until the time is over or the signal fires. */
export async function pause(durationMs: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(durationMs, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
