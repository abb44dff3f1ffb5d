/**
 * The pause after so many attempts: twice as long each time, up to the longest, and of chance, so that two who wait for each
 * other do not do so in step. In milliseconds.
 */
export function growingPause(failed: number, limits: { firstMs: number; longestMs: number }): number {
  const longest = Math.min(limits.firstMs * 2 ** (failed - 1), limits.longestMs);
  return Math.round(longest * (0.5 + Math.random() / 2));
}

/** Waits; an abort ends it early. Never rejects. */
export function pause(durationMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, durationMs);
    signal?.addEventListener('abort', end);
  });
}
