import { setTimeout as delay } from 'node:timers/promises';
import { SafemigrateError } from '../errors.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import { runIsAlive } from '../ownership/owned.ts';
import type { Session } from '../postgres/connection/session.ts';
import { type DatabaseRename, renameInto, wasRenamed } from './rename.ts';
import { type ClosedTarget, sessionOnPrimary } from './reopen-target.ts';
import type { SwapSubject } from './swap-subject.ts';

/** How long the backend of a lost connection may take to end. */
const BACKEND_EXIT_MS = 60_000;
const POLL_MS = 50;

/**
 * Renames, and finds out what a COMMIT has done whose answer was lost, with the connection or to a cancel that came too late.
 * @throws what kept the COMMIT from being done: nothing is renamed then.
 */
export async function commitRename(
  subject: SwapSubject,
  closed: ClosedTarget,
  rename: DatabaseRename,
): Promise<void> {
  const { control, target, run, audit } = subject;
  const witness = await openMaintenanceSession(target, { run, audit, purpose: 'witness' });
  try {
    await renameInto(control, witness, rename);
  } catch (error) {
    const refused = error instanceof SafemigrateError && ['REFUSED', 'STALL'].includes(error.code);
    if (refused || !(await wasCommitted(subject, closed, rename, error))) throw error;
  } finally {
    await witness.close();
  }
}

async function wasCommitted(
  subject: SwapSubject,
  closed: ClosedTarget,
  rename: DatabaseRename,
  error: unknown,
): Promise<boolean> {
  const session = await sessionOnPrimary(closed, 'witness');
  try {
    if (error instanceof SafemigrateError && error.code === 'LOST') await backendEnds(session, subject);
    return await wasRenamed(session, rename);
  } finally {
    await session.close();
  }
}

/** The backend may still wait in the COMMIT for a synchronous standby; its advisory lock shows that it lives. */
async function backendEnds(session: Session, { run, lockDatabaseOid }: SwapSubject): Promise<void> {
  const deadline = performance.now() + BACKEND_EXIT_MS;
  while ((await runIsAlive(session, run, lockDatabaseOid)) && performance.now() < deadline)
    await delay(POLL_MS);
}
