import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';

/**
 * A way into the clone for one login of the command (a migration user and an application user are two routes). The command connects to
 * `entry`, which is forwarded to `upstream`. Without a proxy in between, both are the clone itself.
 */
export interface Route {
  /** The user with which the command logs in; it is not rewritten. */
  readonly user: string;
  /** The database's name as the command knows it. */
  readonly database: string;
  readonly upstream: ConnectionSettings;
  readonly entry: ConnectionSettings;
}
