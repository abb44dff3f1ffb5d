import { setTimeout as pause } from 'node:timers/promises';

/** Waits for the work, and no longer than this. Never rejects. @returns whether it has ended by then, in whatever way. */
export async function endsWithin(work: Promise<unknown> | undefined, ms: number): Promise<boolean> {
  const timer = new AbortController();
  const ended = Promise.resolve(work).then(
    () => true,
    () => true,
  );
  const late = pause(ms, false, { signal: timer.signal }).catch(() => false);
  try {
    return await Promise.race([ended, late]);
  } finally {
    timer.abort();
  }
}
