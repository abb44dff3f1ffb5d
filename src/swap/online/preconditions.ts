import type { Target } from '../../database/target.ts';
import { shortOfSpace, type WalSpace } from '../../database/wal-space.ts';
import { formatBytes, plural } from '../../format.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier } from '../../postgres/sql/quote.ts';

/** From this version on roles that are not superusers may create subscriptions, if pg_create_subscription is granted to them. */
const GRANTED_SUBSCRIPTIONS_SINCE = 160000;
/** From this version on the server decodes as soon as there is a logical slot, without a restart. */
const DECODES_ON_DEMAND_SINCE = 190000;
const MB = 2 ** 20;

/** Every role sees the number of workers of each kind in pg_stat_activity. */
const CONDITIONS = `
SELECT current_setting('wal_level') AS "walLevel",
       current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots)::int AS slots,
       current_setting('max_wal_senders')::int
         - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender')::int AS senders,
       current_setting('max_logical_replication_workers')::int
         - (SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'logical replication%worker')::int AS workers,
       coalesce(current_setting('max_active_replication_origins', true), current_setting('max_replication_slots'))::int
         - (SELECT count(*) FROM pg_replication_origin)::int AS origins,
       (SELECT count(*) FROM pg_prepared_xacts)::int AS prepared,
       (SELECT string_agg(DISTINCT database, ', ') FROM pg_prepared_xacts) AS "preparedIn",
       current_setting('track_counts')::bool AS counted,
       (SELECT setting::int FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS "mostKept",
       (SELECT setting::int FROM pg_settings WHERE name = 'idle_replication_slot_timeout') AS "idleTimeout",
       me.rolsuper OR me.rolreplication AS replicates,
       me.rolsuper OR coalesce((SELECT pg_has_role(r.oid, 'USAGE') FROM pg_roles r
                                 WHERE r.rolname = 'pg_create_subscription'), false) AS subscribes
  FROM pg_roles me WHERE me.rolname = current_user`;

interface Conditions {
  readonly walLevel: string;
  readonly slots: number;
  readonly senders: number;
  readonly workers: number;
  readonly origins: number;
  readonly prepared: number;
  readonly preparedIn: string | null;
  readonly counted: boolean;
  readonly mostKept: number;
  /** Before 18: null. */
  readonly idleTimeout: number | null;
  readonly replicates: boolean;
  readonly subscribes: boolean;
}

/** A condition of the server or the role that prevents an online swap, and what would help. */
export interface OnlineObstacle {
  readonly reason: string;
  readonly wayOut: string;
}

/**
 * Finds what prevents an online swap beyond what prevents any (preflight.ts). Changes nothing.
 * @param session in another database of the target's server.
 * @param wayBack the original is to follow the new target (--way-back).
 * @param space of the disk with its WAL; null if it cannot be seen.
 */
export async function onlineObstacles(
  session: Session,
  { server, role }: Pick<Target, 'server' | 'role'>,
  wayBack: boolean,
  space: WalSpace | null = null,
): Promise<OnlineObstacle[]> {
  const [row] = await session.query<Conditions>(CONDITIONS);
  if (!row) throw new Error('the role is not in pg_roles');
  const name = identifier(role.name);
  const decodes =
    row.walLevel === 'logical' ||
    (server.versionNum >= DECODES_ON_DEMAND_SINCE && row.walLevel === 'replica');
  const wanted = server.versionNum >= DECODES_ON_DEMAND_SINCE ? 'replica' : 'logical';
  const old = server.versionNum < GRANTED_SUBSCRIPTIONS_SINCE;
  const needed = wayBack ? 2 : 1;
  const checks: Check[] = [
    ...spaceChecks(space, wayBack ? row.mostKept * MB : 0),
    {
      holds: !decodes,
      reason: `wal_level is ${row.walLevel}`,
      wayOut: `ALTER SYSTEM SET wal_level = ${wanted}; and restart the server`,
    },
    lacking(row.slots, needed, 'replication slot', 'max_replication_slots'),
    lacking(row.senders, needed, 'WAL sender', 'max_wal_senders'),
    lacking(row.workers, needed, 'logical replication worker', 'max_logical_replication_workers'),
    lacking(
      row.origins,
      needed,
      'replication origin',
      server.versionNum >= 180000 ? 'max_active_replication_origins' : 'max_replication_slots',
    ),
    {
      holds: wayBack && row.mostKept <= 0 && (row.idleTimeout ?? 0) <= 0,
      reason:
        'a way back that stops would keep WAL until the disk is full (max_slot_wal_keep_size is not set)',
      wayOut: "ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'; SELECT pg_reload_conf();",
    },
    {
      holds: row.prepared > 0,
      reason: `${plural(row.prepared, 'prepared transaction')} on the server (in ${row.preparedIn ?? 'a database'}), for which a new slot waits`,
      wayOut: 'COMMIT PREPARED or ROLLBACK PREPARED each; SELECT gid, database, owner FROM pg_prepared_xacts',
    },
    {
      holds: !row.counted,
      reason: 'the server does not count written rows (track_counts)',
      wayOut: 'ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf();',
    },
    {
      holds: old && !role.superuser,
      reason: `before PostgreSQL 16 only superusers may create subscriptions, and ${role.name} is not one`,
      wayOut: 'run it as a superuser, or swap without --online',
    },
    {
      holds: !old && !row.subscribes,
      reason: `the role ${role.name} may not create subscriptions`,
      wayOut: `GRANT pg_create_subscription TO ${name};`,
    },
    {
      holds: !row.replicates,
      reason: `the role ${role.name} may not create replication slots`,
      wayOut: `ALTER ROLE ${name} REPLICATION;`,
    },
  ];
  return checks.filter(({ holds }) => holds).map(({ reason, wayOut }) => ({ reason, wayOut }));
}

type Check = OnlineObstacle & { readonly holds: boolean };

/** @param mostKept WAL that the server may keep for a way back that stops; without a limit it is refused anyway. */
function spaceChecks(space: WalSpace | null, mostKept: number): Check[] {
  if (!space) return [];
  const { freeBytes, floorBytes } = space;
  const short = shortOfSpace(space);
  return [
    { holds: short !== undefined, reason: short ?? '', wayOut: 'free some space, or lower that limit' },
    {
      holds: short === undefined && mostKept > 0 && freeBytes - mostKept < floorBytes,
      reason: `a way back that stops may take ${formatBytes(mostKept)} of the disk of pg_wal, which has ${formatBytes(freeBytes)} left, and ${formatBytes(floorBytes)} have to stay free (--limit free-disk)`,
      wayOut: 'free some space, or lower max_slot_wal_keep_size or that limit',
    },
  ];
}

function lacking(free: number, needed: number, what: string, setting: string) {
  return {
    holds: free < needed,
    reason:
      free < 1
        ? `no ${what} is free (${setting})`
        : `only one ${what} is free, and a way back needs another (${setting})`,
    wayOut: `ALTER SYSTEM SET ${setting} to a larger number, and restart the server`,
  };
}
