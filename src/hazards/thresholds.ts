/**
 * Thresholds at which a notice becomes a warning, and a warning an error. No user notices a lock below all of them. `waiting`
 * is the held time × the target's own rate of statements that the lock blocks.
 */
export const WARNING = { heldMs: 1_000, sizeBytes: 100 * 2 ** 20, waiting: 5, rows: 100_000 } as const;
export const ERROR = { heldMs: 10_000, sizeBytes: 10 * 2 ** 30, waiting: 100, rows: 5_000_000 } as const;

/** Statements per second from which a relation counts as used by an application. */
export const BUSY_PER_SECOND = 1;

/** A transaction of this age keeps a strong lock and the sessions that queue behind it waiting for too long. */
export const LONG_TRANSACTION_MS = 5_000;

/** More changed or lost rows than this are more than a manual correction. */
export const MANY_ROWS = 1_000;

/** A lock that is held for this much longer than its statement runs is held for something else. */
export const LINGERING_MS = 200;

/** Strong locks that nothing else explains are reported from this time on. */
export const REPORTED_FROM_MS = 100;

/** The longest statement that an advice repeats, in characters. */
export const LONGEST_SQL = 400;
