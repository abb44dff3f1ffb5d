import type { Target } from '../database/target.ts';
import type { SafemigrateError } from '../errors.ts';
import type { Emit } from '../events.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';

/** The database to exchange, and the session that holds the run's lock in another database. */
export interface SwapSubject {
  readonly target: Target;
  /** With every host that the user named: after a failover the target is on another one. */
  readonly settings: ConnectionSettings;
  readonly control: Session;
  readonly lockDatabaseOid: number;
  readonly run: RunId;
  readonly emit: Emit;
  readonly audit: Audit;
  /** Ends the run, also while it waits for something else. */
  readonly fail: (reason: SafemigrateError) => void;
  readonly signal: AbortSignal;
}
