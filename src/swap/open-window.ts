import { readServerIdentity } from '../database/server-identity.ts';
import type { RunId } from '../ownership/run-id.ts';
import { parseSettings } from '../postgres/connection/connection-url.ts';
import type { Environment } from '../postgres/connection/environment.ts';
import type { Scope } from '../scope.ts';
import { MaintenanceWindow } from './maintenance-window.ts';
import type { SwapSubject } from './rename.ts';
import { byHand, type ClosedTarget } from './reopen-target.ts';
import type { WindowPlan } from './swap-plan.ts';

const COMMENT = "SELECT shobj_description(oid, 'pg_database') AS comment FROM pg_database WHERE oid = $1";

/**
 * Opens the window in which the target is exchanged. Its methods are its steps, in the order of this table. A caller that
 * fails before or in rename() calls undo().
 *
 * | step | what it leaves if we die right after it, and who repairs that |
 * |---|---|
 * | reopen agent | a process that ends with our input |
 * | pause | clients of PgBouncer that wait: the agent resumes them, else RESUME on its console |
 * | close | the target closed, with our mark: the agent, `clean`, and every later run reopen it |
 * | the successor | what its maker leaves |
 * | rename | the successor as the target, open; the original under its new name, marked |
 *
 * @throws SafemigrateError `REFUSED` if the agent cannot be started or the clients do not pause; the target is open then.
 */
export async function openWindow(
  subject: SwapSubject,
  scope: Scope,
  plan: WindowPlan,
  environment: Environment,
): Promise<MaintenanceWindow> {
  const window = await prepareWindow(subject, scope, plan, environment);
  await window.holdClients();
  return window;
}

/**
 * Starts the agent, so that the target can be closed later, once or several times.
 * @param replicating runs that have replication slots, or will.
 */
export async function prepareWindow(
  subject: SwapSubject,
  scope: Scope,
  plan: WindowPlan,
  environment: Environment,
  replicating: readonly RunId[] = [],
): Promise<MaintenanceWindow> {
  const { control, target, settings, run, audit, emit } = subject;
  const { name, oid } = target.database;
  const consoles = plan.pgbouncer.map((url) => parseSettings(url, environment));
  const [row] = await control.query<{ comment: string | null }>(COMMENT, [oid]);
  const comment = row?.comment ?? null;
  const server = await readServerIdentity(control);
  const closed: ClosedTarget = { settings, database: { name, oid }, comment, consoles, server, run, audit };
  emit({
    type: 'notice',
    message: `if this process dies, \`safemigrate clean\` reopens ${name}, or: ${byHand(closed)}`,
  });
  const window = new MaintenanceWindow(subject, scope, plan, closed);
  await window.startAgent(replicating);
  return window;
}
