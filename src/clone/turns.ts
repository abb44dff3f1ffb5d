import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { CloneContext } from './method.ts';

/** What it takes to look into the target. */
export type Asking = Pick<CloneContext, 'target' | 'control' | 'run' | 'audit' | 'signal'>;

interface Turns {
  last: Promise<unknown>;
  readonly visits: { sessions: number; transactions: number };
}

const turns = new WeakMap<Session, Turns>();

function turnsOf({ control }: Pick<Asking, 'control'>): Turns {
  const known = turns.get(control) ?? {
    last: Promise.resolve(),
    visits: { sessions: 0, transactions: 0 },
  };
  turns.set(control, known);
  return known;
}

/**
 * What opens a session of its own to look around for a method. Three sessions to a server are the most: beside the control
 * session and the one that reads the target's state there is room for one at a time.
 */
export function inTurn<T>(context: Pick<Asking, 'control'>, work: () => Promise<T>): Promise<T> {
  const all = turnsOf(context);
  const turn = all.last.then(work, work);
  all.last = turn;
  return turn;
}

/** Reads over a session in the target, when it is its turn. */
export function visit<T>(context: Asking, read: (session: Session) => Promise<T>): Promise<T> {
  const { target, run, audit, signal } = context;
  return inTurn(context, async () => {
    const { visits } = turnsOf(context);
    visits.sessions += 1;
    const session = await openSession(target.settings, {
      ...{ run, audit, signal },
      purpose: 'inspect',
      readOnly: true,
    });
    try {
      return await read(session);
    } finally {
      visits.transactions += session.transactions;
      await session.close();
    }
  });
}

/** So many of the sessions, and of their transactions, that the target has counted by now were visit()'s. */
export function visitsOf(context: Pick<Asking, 'control'>): Readonly<Turns['visits']> {
  return turnsOf(context).visits;
}
