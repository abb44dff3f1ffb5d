import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import type { CloneContext } from './method.ts';

/** What a method needs of its context to read the target. */
export type TargetAccess = Pick<CloneContext, 'target' | 'run' | 'audit' | 'signal'>;

/** Opens a read-only session in the target, reads over it, and closes it, so that it is not in the way of the clone. */
export async function readInTarget<T>(
  { target, run, audit, signal }: TargetAccess,
  read: (session: Session) => Promise<T>,
): Promise<T> {
  return withSession(
    openSession(target.settings, { run, audit, signal, purpose: 'inspect', readOnly: true }),
    read,
  );
}
