import { type InspectOptions, type Visit, visitTarget } from '../database/inspect.ts';
import { onPrimary } from '../database/server-identity.ts';
import { SafemigrateError } from '../errors.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { openMaintenanceSession } from './control-session.ts';
import { openDatabase } from './database-access.ts';
import { type OwnedDatabase, ownedDatabases } from './owned.ts';
import type { RunId } from './run-id.ts';

/** Time limit for the lock on the database's row. */
const LOCK_MS = 5_000;

/**
 * Reopens the targets that a dead run has closed for a swap, and restores their comments. Such a target was not renamed, and is
 * unchanged. Those of a living run stay closed.
 * @param session in another database of that server.
 */
export async function reopenTargets(session: Session): Promise<OwnedDatabase[]> {
  const found = await ownedDatabases(session, { sizes: false });
  const closed = found.filter(
    ({ ownershipStatus, owning }) => ownershipStatus === 'closed' && owning === 'dead',
  );
  for (const { name, mark } of closed)
    await openDatabase(session, { database: name, comment: mark?.comment ?? null, timeoutMs: LOCK_MS });
  return closed;
}

/** object_not_in_prerequisite_state: the database does not accept connections. */
const CLOSED = '55000';

/**
 * Like visitTarget(), but first reopens a target that a dead run has left closed.
 * @param onReopened gets a sentence about a target that was reopened.
 */
export async function visitOrReopen(
  settings: ConnectionSettings,
  source: string,
  options: InspectOptions & { readonly run?: RunId },
  onReopened: (words: string) => void,
): Promise<Visit> {
  try {
    return await visitTarget(settings, source, options);
  } catch (error) {
    if (!(error instanceof SafemigrateError) || error.sqlstate !== CLOSED) throw error;
    const place = { settings: onPrimary(settings), database: { name: settings.database } };
    const opened = await withSession(
      openMaintenanceSession(place, { ...options, purpose: 'recover' }),
      reopenTargets,
    );
    if (opened.length === 0) throw error;
    const names = opened.map(({ name }) => name).join(', ');
    const paused = opened.map(whoMayWait).join('');
    onReopened(`the swap of a run that was cut off had left ${names} closed; it is open again${paused}`);
    return visitTarget(settings, source, options);
  }
}

/** Describes the PgBouncers whose clients may still wait for a reopened target; empty if there are none. */
export function whoMayWait({ mark }: Pick<OwnedDatabase, 'mark'>): string {
  const consoles = mark?.pgbouncer ?? [];
  if (consoles.length === 0) return '';
  return `; PgBouncer at ${consoles.join(', ')} may be paused: \`safemigrate clean --pgbouncer URL\` resumes it`;
}
