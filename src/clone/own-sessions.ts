import type { Target } from '../database/target.ts';
import { SafemigrateError } from '../errors.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import { openSession, type SessionOptions } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import type { Scope } from '../scope.ts';
import type { Clone, CloneContext } from './method.ts';

/** Version 17 has event triggers that run at a login, and the setting that switches event triggers off. */
const LOGIN_TRIGGERS_SINCE = 170000;
const OFF = '-c event_triggers=off';

/**
 * Returns the settings with which we log in to a clone for ourselves: without the login event triggers that the command may have
 * made, which would run its code as us. Only superusers may make them, and only they may begin a session without them.
 */
export function forOwnSessions(
  { connect, sharesRoles }: Pick<Clone, 'connect' | 'sharesRoles'>,
  { server, role }: Pick<Target, 'server' | 'role'>,
): ConnectionSettings {
  if (!sharesRoles || !role.superuser || server.versionNum < LOGIN_TRIGGERS_SINCE) return connect;
  const given = connect.parameters.options;
  return {
    ...connect,
    parameters: { ...connect.parameters, options: given === undefined ? OFF : `${given} ${OFF}` },
  };
}

/** Opens the session on the clone's server that the run keeps, outside of the clone. */
export function ownControl(
  { run, audit, signal }: Pick<CloneContext, 'run' | 'audit' | 'signal'>,
  target: Target,
  scope: Scope,
): Promise<Session> {
  return scope.own(
    'connection to the clone',
    () => openMaintenanceSession(target, { run, audit, signal, purpose: 'clone control' }),
    async (session) => session?.close(),
  );
}

/** The error for a clone that is elsewhere, or on a server of its own that no watchdog judges. */
export function lostServer(reason: string): SafemigrateError {
  return new SafemigrateError('LOST', `The server of the clone was lost during the run: ${reason}.`);
}

/** A clone that can be logged in to, and the run that does it. */
export interface ClonePlace {
  readonly clone: Pick<Clone, 'connect' | 'sharesRoles'>;
  readonly context: Pick<SessionOptions, 'run' | 'audit' | 'signal'> & { readonly target: Target };
}

/** Opens a session of our own in a clone, which can only read unless the options say otherwise. */
export function openInClone(
  { clone, context: { target, run, audit, signal } }: ClonePlace,
  options: Partial<SessionOptions> = {},
): Promise<Session> {
  const own = { ...(run && { run }), ...(audit && { audit }), ...(signal && { signal }) };
  return openSession(forOwnSessions(clone, target), { ...own, purpose: 'clone', readOnly: true, ...options });
}

/** Uses such a session, and closes it. */
export function inClone<T>(
  place: ClonePlace,
  use: (session: Session) => Promise<T>,
  options: Partial<SessionOptions> = {},
): Promise<T> {
  return withSession(openInClone(place, options), use);
}
