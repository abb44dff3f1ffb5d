import { createHash } from 'node:crypto';
import { SafemigrateError } from '../errors.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { refuseUntried } from '../postgres/connection/supported-versions.ts';
import { openMaintenanceSession } from './control-session.ts';

/**
 * The change lock permits one apply, swap or rollback of a target at a time. It is an advisory lock in a maintenance database of
 * the target's server, since a swap can leave no session in the target itself. Its key is derived from the target's name, which
 * stays while the databases behind it change places. It ends with the session that holds it.
 */
export interface ChangeLock {
  /** @throws SafemigrateError `REFUSED` if the lock was lost: from then on another run may change the target. */
  requireHeld(): void;
  /**
   * Takes the lock in this session of the target, if no session could hold it outside of the target.
   * @throws SafemigrateError `REFUSED`, naming the session that holds the lock.
   */
  takeInside(session: Session): Promise<void>;
}

// pg_locks shows a bigint key as two halves, with objsubid 1.
const HOLDER = `
SELECT l.pid, a.usename AS "user", a.application_name AS application, a.backend_start::pg_catalog.text AS since
  FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
   AND l.classid = (($1::pg_catalog.int8 >> 32) & 4294967295)::pg_catalog.oid
   AND l.objid = ($1::pg_catalog.int8 & 4294967295)::pg_catalog.oid`;
const TAKE =
  "SELECT pg_catalog.pg_try_advisory_lock($1::pg_catalog.int8) AS taken, pg_catalog.current_setting('server_version') AS version";

/**
 * Does the work while this run alone may change the target. The work begins without the lock if the only database for it is the
 * target itself, where a session would be in the way of the clone, or if there is none: then takeInside() takes it, once the
 * rehearsal is over. (Such a target cannot be swapped.)
 * @param options.purpose of the run, shown to users whose run is refused.
 * @throws SafemigrateError `REFUSED`, naming the session that holds the lock, or the version that was not tried; what the work throws.
 */
export async function withChangeLock<T>(
  settings: ConnectionSettings,
  options: { purpose: 'apply' | 'swap' | 'rollback'; audit: Audit; signal: AbortSignal },
  work: (lock: ChangeLock) => Promise<T>,
): Promise<T> {
  const place = { settings, database: { name: settings.database } };
  const session = await openMaintenanceSession(place, options).catch(() => undefined);
  if (!session || (await isIn(session, settings.database))) {
    await session?.close();
    return work({ requireHeld() {}, takeInside: (inside) => takeLock(inside, settings.database) });
  }
  let lost: string | undefined;
  session.onLost((reason) => {
    lost = reason;
  });
  try {
    await takeLock(session, settings.database);
    return await work({
      requireHeld() {
        if (lost !== undefined) throw lostLock(settings.database, lost);
      },
      takeInside: async () => {},
    });
  } finally {
    await session.close();
  }
}

/** Says whether an apply, swap or rollback of the target is running. @param session in the maintenance database. */
export async function isBeingChanged(session: Session, target: string): Promise<boolean> {
  return (await session.query(HOLDER, [keyOf(target)])).length > 0;
}

async function isIn(session: Session, database: string): Promise<boolean> {
  const [row] = await session.query<{ name: string }>('SELECT pg_catalog.current_database() AS name');
  return row?.name === database;
}

async function takeLock(session: Session, target: string): Promise<void> {
  const key = keyOf(target);
  const [row] = await session.query<{ taken: boolean; version: string }>(TAKE, [key]);
  refuseUntried(row?.version ?? '');
  if (row?.taken) return;
  const [holder] = await session.query<{
    pid: number;
    user: string | null;
    application: string | null;
    since: string | null;
  }>(HOLDER, [key]);
  const who = holder
    ? `: process ${holder.pid} of ${holder.user ?? 'another role'} (${holder.application ?? 'no application name'}), ` +
      `since ${holder.since ?? 'an unknown time'}`
    : '';
  throw new SafemigrateError('REFUSED', `Another apply, swap or rollback of ${target} is running${who}.`, {
    hint: 'Nothing was touched. Wait until it has ended, and run this again.',
  });
}

function lostLock(target: string, reason: string): SafemigrateError {
  return new SafemigrateError('REFUSED', `The lock on changes of ${target} was lost: ${reason}.`, {
    hint: 'Another run may change it now, so that nothing was begun. Run this again.',
  });
}

function keyOf(target: string): string {
  const hash = createHash('sha256').update(`safemigrate change ${target}`).digest();
  return hash.readBigInt64BE(0).toString();
}
