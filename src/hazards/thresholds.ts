/**
 * Where a notice becomes a warning, and a warning an error. A relation below all of them is touched before anybody
 * notices. Statements that wait are held time × the target's own rate of those that the lock keeps out.
 */
export const WARNING = { heldMs: 1_000, sizeBytes: 100 * 2 ** 20, waiting: 5, rows: 100_000 } as const;
export const ERROR = { heldMs: 10_000, sizeBytes: 10 * 2 ** 30, waiting: 100, rows: 5_000_000 } as const;

/** Statements per second from which an application is taken to live on a relation. */
export const BUSY_PER_SECOND = 1;

/** Rows that a single statement may change, or that may be lost, before it is more than a correction by hand. */
export const MANY_ROWS = 1_000;

/** A lock that outlives its own statement by this much is held for something else. */
export const LINGERING_MS = 200;

/** A strong lock that nothing else explains is told from here on. */
export const TOLD_FROM_MS = 100;
