/**
 * Returns milliseconds since 1970 by a clock that is never set: the system's time at the start of this process, plus the time since then.
 * So the times of a run can be subtracted from each other, even if the system's clock is set meanwhile.
 */
export function steadyNow(): number {
  return performance.timeOrigin + performance.now();
}

export function steadyDate(): Date {
  return new Date(steadyNow());
}

/** @param atMs by performance.now() */
export function steadyDateAt(atMs: number): Date {
  return new Date(performance.timeOrigin + atMs);
}
