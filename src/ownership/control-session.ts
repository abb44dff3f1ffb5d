import { setTimeout as delay } from 'node:timers/promises';
import type { Target } from '../database/target.ts';
import { SafemigrateError, sqlstateOf } from '../errors.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { openSession, type SessionOptions } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { Scope } from '../scope.ts';
import { advisoryLockKey, newRunId, type RunId } from './run-id.ts';

const TAKE_LOCK = 'SELECT pg_try_advisory_lock($1::bigint) AS taken';
const CURRENT_OID = 'SELECT oid::int8 AS oid FROM pg_database WHERE datname = current_database()';

/**
 * Databases for the owner's session, in order of preference: a session in the target would block clones, renames and drops, and one
 * in template1 would block every CREATE DATABASE.
 */
const MAINTENANCE_DATABASES = ['postgres', 'defaultdb'];

/** Errors after which the next database is tried: no such database, no CONNECT privilege, not accepting connections, pg_hba. */
const NOT_THIS_ONE = new Set(['3D000', '42501', '55000', '28000', '53300']);

/** A run that holds its advisory lock on the server. */
export type Claim = Awaited<ReturnType<typeof claimRun>>;

/**
 * Takes a run's advisory lock, before the run creates anything.
 * @param options.run a run that holds its lock on another server, too.
 * @returns as `control` the session that holds the lock as long as the run lives.
 */
export async function claimRun(
  target: Target,
  scope: Scope,
  options: { run?: RunId; audit?: Audit; signal: AbortSignal },
) {
  const { run = newRunId() } = options;
  const control = await scope.own(
    'control connection',
    () => openMaintenanceSession(target, { ...options, run, purpose: 'control' }),
    async (session) => session?.close(),
  );
  const [lock] = await control.query<{ taken: boolean }>(TAKE_LOCK, [advisoryLockKey(run)]);
  if (!lock?.taken) throw new SafemigrateError('LOST', `Another process holds the lock of run ${run}.`);
  await noticeOurEnd(control);
  const [current] = await control.query<{ oid: string }>(CURRENT_OID);
  return { run, control, lockDatabaseOid: Number(current?.oid) };
}

/**
 * Makes the server check for its client during statements, too. Otherwise the CREATE DATABASE of a killed run would continue to its
 * end, and new connections to the target would wait for nothing.
 */
export async function noticeOurEnd(session: Session): Promise<void> {
  try {
    await session.query(CHECK_CLIENT);
  } catch (error) {
    // Some platforms do not support it.
    if (sqlstateOf(error) === undefined) throw error;
  }
}

const CHECK_CLIENT = "SELECT set_config('client_connection_check_interval', '500ms', false)";

/** A server, and the database on it that the session should avoid. */
export interface MaintenanceTarget {
  readonly settings: ConnectionSettings;
  readonly database: { readonly name: string };
}

type MaintenanceOptions = Pick<SessionOptions, 'run' | 'purpose' | 'audit' | 'signal'>;

/** Like openMaintenanceSession(), but retries for so long, since the server may be restarting. */
export async function openMaintenanceSessionPatiently(
  target: MaintenanceTarget,
  options: MaintenanceOptions,
  patienceMs: number,
): Promise<Session> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    try {
      return await openMaintenanceSession(target, options);
    } catch (error) {
      const mayPass = error instanceof SafemigrateError && ['CONNECTION', 'LOST'].includes(error.code);
      if (!mayPass || performance.now() >= deadline) throw error;
      await delay(200);
    }
  }
}

/** Opens a session outside the target, or in the target if the role can connect to no other database. */
export async function openMaintenanceSession(
  target: MaintenanceTarget,
  options: MaintenanceOptions,
): Promise<Session> {
  const candidates = MAINTENANCE_DATABASES.filter((name) => name !== target.database.name);
  for (const database of candidates) {
    try {
      return await openSession(target.settings, { ...options, database, statementTimeoutMs: 0 });
    } catch (error) {
      const sqlstate = error instanceof SafemigrateError ? error.sqlstate : sqlstateOf(error);
      if (!NOT_THIS_ONE.has(sqlstate ?? '')) throw error;
    }
  }
  return openSession(target.settings, { ...options, statementTimeoutMs: 0 });
}

/** The error for a lost control connection: without its lock it cannot be known that the clone is in use, so the run must end. */
export function lostControl(reason: string): SafemigrateError {
  return new SafemigrateError('LOST', `The connection to the server was lost during the run: ${reason}.`);
}
