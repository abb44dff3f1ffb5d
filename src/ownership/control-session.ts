import { setTimeout as delay } from 'node:timers/promises';
import type { Target } from '../database/target.ts';
import { SafemigrateError, sqlstateOf } from '../errors.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { Scope } from '../scope.ts';
import { advisoryLockKey, newRunId, type RunId } from './run-id.ts';

/** A run that has shown the server who owns it. */
export interface Claim {
  readonly run: RunId;
  /** Holds the run's advisory lock as long as the run lives. */
  readonly control: Session;
  readonly lockDatabaseOid: number;
}

const TAKE_LOCK = 'SELECT pg_try_advisory_lock($1::bigint) AS taken';
const CURRENT_OID = 'SELECT oid::int8 AS oid FROM pg_database WHERE datname = current_database()';

/**
 * Databases in which the owner's session may sit, in order: a session in the target would be in the way of clones,
 * renames and drops. Never template1: a session there blocks everybody's CREATE DATABASE.
 */
const MAINTENANCE_DATABASES = ['postgres', 'defaultdb'];

/** Errors that say "not this database", so that the next one is tried: no such database, CONNECT refused, closed, pg_hba. */
const NOT_THIS_ONE = new Set(['3D000', '42501', '55000', '28000', '53300']);

/** Takes a run's advisory lock, before the run makes anything. @param options.run of a run that holds it elsewhere too. */
export async function claimRun(
  target: Target,
  scope: Scope,
  options: { run?: RunId; audit?: Audit; signal: AbortSignal },
): Promise<Claim> {
  const { run = newRunId() } = options;
  return claimOver(await openControl(target, scope, { ...options, run }), run);
}

/** The session that a run is claimed over, which may be opened before it is known whether there is anything to claim it for. */
export function openControl(
  place: MaintenanceTarget,
  scope: Scope,
  options: { run: RunId; audit?: Audit; signal: AbortSignal },
): Promise<Session> {
  const opening = openMaintenanceSession(place, { ...options, purpose: 'control' });
  return scope.own(
    'control connection',
    () => opening,
    async () => (await opening.catch(() => undefined))?.close(),
  );
}

/** As claimRun, over this session. */
export async function claimOver(control: Session, run: RunId): Promise<Claim> {
  const [lock] = await control.query<{ taken: boolean }>(TAKE_LOCK, [advisoryLockKey(run)]);
  if (!lock?.taken) throw new SafemigrateError('LOST', `Another process holds the lock of run ${run}.`);
  await noticeOurEnd(control);
  const [current] = await control.query<{ oid: string }>(CURRENT_OID);
  return { run, control, lockDatabaseOid: Number(current?.oid) };
}

/**
 * A backend looks for its client only between statements, unless told otherwise: without this, the CREATE DATABASE of a
 * run that was killed would go on to its end, and newcomers to the target would wait for nothing.
 */
export async function noticeOurEnd(session: Session): Promise<void> {
  try {
    await session.query(CHECK_CLIENT);
  } catch (error) {
    // Some platforms cannot.
    if (sqlstateOf(error) === undefined) throw error;
  }
}

const CHECK_CLIENT = "SELECT set_config('client_connection_check_interval', '500ms', false)";

/** A server, and the database on it that the session should not sit in. */
export interface MaintenanceTarget {
  readonly settings: ConnectionSettings;
  readonly database: { readonly name: string };
}

export interface MaintenanceOptions {
  readonly run?: RunId;
  readonly purpose: string;
  readonly audit?: Audit;
  readonly signal?: AbortSignal;
}

/** As openMaintenanceSession, for a server that may be restarting: tries again for so long. */
export async function openMaintenanceSessionPatiently(
  target: MaintenanceTarget,
  options: MaintenanceOptions,
  patienceMs: number,
): Promise<Session> {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    try {
      return await openMaintenanceSession(target, options);
    } catch (error) {
      const mayPass = error instanceof SafemigrateError && ['CONNECTION', 'LOST'].includes(error.code);
      if (!mayPass || Date.now() >= deadline) throw error;
      await delay(200);
    }
  }
}

/** A session outside the target where the role is let in anywhere else, in the target itself where it is not. */
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

/** A run whose control connection ended: nobody can tell any more that its clone is in use, so it must end too. */
export function lostControl(reason: string): SafemigrateError {
  return new SafemigrateError('LOST', `The connection to the server was lost during the run: ${reason}.`);
}
