import type { Session } from '../target/session.ts';

const last = new WeakMap<Session, Promise<unknown>>();

/**
 * What opens a session of its own to look around for a method. Three sessions to a server are the most: beside the control
 * session and the one that reads the target's state there is room for one at a time.
 */
export function inTurn<T>({ control }: { readonly control: Session }, work: () => Promise<T>): Promise<T> {
  const turn = (last.get(control) ?? Promise.resolve()).then(work, work);
  last.set(control, turn);
  return turn;
}
