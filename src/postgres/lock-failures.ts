/** SQLSTATEs of statements that failed only because of locks of other sessions: later the same statement may succeed. */
const LOCK_FAILURES = { '55P03': 'lock-timeout', '40P01': 'deadlock' } as const;

export type LockFailure = (typeof LOCK_FAILURES)[keyof typeof LOCK_FAILURES];

/** Names the kind of lock failure that an SQLSTATE means; undefined if it means another one. */
export function lockFailureOf(sqlstate: string | undefined): LockFailure | undefined {
  return Object.entries(LOCK_FAILURES).find(([code]) => code === sqlstate)?.[1];
}
