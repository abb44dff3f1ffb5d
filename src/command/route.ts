import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';

/**
 * One way into the clone that the command is given, for one login that it knows of the target (a migration user and
 * an application user are two routes). The command is told `entry`; `upstream` is where that leads. While nothing
 * observes in between, both are the clone itself.
 */
export interface Route {
  /** The user that the command logs in as, unchanged by the rewriting. */
  readonly user: string;
  /** The database's name as the command knows it. */
  readonly database: string;
  readonly upstream: ConnectionSettings;
  readonly entry: ConnectionSettings;
}
