import type { Target } from '../database/target.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Clone } from './method.ts';

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
