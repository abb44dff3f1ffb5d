import type { LockWaits } from '../model/lock-waits.ts';
import type { Session } from '../postgres/connection/session.ts';

/** Version from which the server counts waits for locks. */
const WITH_LOCK_WAITS = 190_000;

const COUNTED = `
(SELECT json_build_object(
   'longerThanMs', (SELECT setting::int FROM pg_settings WHERE name = 'deadlock_timeout'),
   'overMs', round(extract(epoch FROM clock_timestamp() - min(stats_reset)) * 1000),
   'kinds', coalesce(json_agg(json_build_object('kind', locktype, 'waits', waits, 'waitedMs', wait_time) ORDER BY wait_time DESC)
                       FILTER (WHERE waits > 0), '[]'))
   FROM pg_stat_lock)`;

/** SQL of the waits that the server has counted, as JSON; NULL if its version counts none. */
export function lockWaitsSql(version: number): string {
  return version < WITH_LOCK_WAITS ? 'NULL::json' : COUNTED;
}

/** Reads the waits for locks that the server has counted; null before version 19. */
export async function readLockWaits(session: Session): Promise<LockWaits | null> {
  const [{ version } = { version: 0 }] = await session.query<{ version: number }>(
    "SELECT current_setting('server_version_num')::int AS version",
  );
  const [row] = await session.query<{ waits: LockWaits | null }>(`SELECT ${lockWaitsSql(version)} AS waits`);
  return row?.waits ?? null;
}

/** Returns the waits that were counted between two readings. */
export function lockWaitsBetween(first: LockWaits | null, second: LockWaits | null): LockWaits | null {
  if (!first || !second) return null;
  const before = new Map(first.kinds.map((each) => [each.kind, each]));
  return {
    longerThanMs: second.longerThanMs,
    overMs: second.overMs - first.overMs,
    kinds: second.kinds.flatMap(({ kind, waits, waitedMs }) => {
      const known = before.get(kind) ?? { waits: 0, waitedMs: 0 };
      return waits > known.waits
        ? [{ kind, waits: waits - known.waits, waitedMs: waitedMs - known.waitedMs }]
        : [];
    }),
  };
}
