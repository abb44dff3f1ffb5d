import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import { type ActivitySession, otherSessions } from '../../target/activity.ts';
import type { Session } from '../../target/session.ts';
import type { CloneContext } from '../method.ts';

/** Who is in the way: the server itself ends autovacuum when a database is cloned, and parallel workers go with their leader. */
export async function clientSessions(session: Session, databaseOid: number): Promise<ActivitySession[]> {
  const others = await otherSessions(session, databaseOid);
  return others.filter(({ backendType }) => !NOT_CLIENTS.includes(backendType ?? ''));
}

const NOT_CLIENTS = ['autovacuum worker', 'parallel worker'];

/** Which of these sessions the user allowed us to end. */
export function mayEnd(session: ActivitySession, disconnect: CloneContext['limits']['disconnect']): boolean {
  if (disconnect === 'all') return true;
  return disconnect === 'idle' && session.state === 'idle';
}

/** The state is part of the condition: a session that has begun to work since it was read is not ended. */
const END_IDLE = `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datid = $1 AND pid <> ALL($2::int[]) AND state = 'idle' AND backend_type <> 'autovacuum worker'`;
const END_ALL = `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datid = $1 AND pid <> ALL($2::int[]) AND backend_type <> 'autovacuum worker'`;

export function endingStatement(disconnect: 'idle' | 'all'): string {
  return disconnect === 'idle' ? END_IDLE : END_ALL;
}

/** Ends the sessions that the user allowed, once; returns how many it ended. */
export async function endSessions(session: Session, context: CloneContext): Promise<number> {
  const { disconnect } = context.limits;
  if (disconnect === 'never') return 0;
  const ours = [context.control.pid, session.pid];
  try {
    const ended = await session.query(endingStatement(disconnect), [context.target.database.oid, ours]);
    return ended.length;
  } catch (error) {
    if (sqlstateOf(error) !== '42501') throw error;
    throw new SafemigrateError(
      'PRIVILEGE',
      `sessions on the target may not be ended by this role: ${messageOf(error)}`,
      {
        cause: error,
        hint: 'GRANT pg_signal_backend lets it end those of ordinary roles; only a superuser ends those of superusers.',
      },
    );
  }
}

/** Waits until nobody is connected to the target whom we may not end; refuses when the time is up. */
export async function waitForSessions(context: CloneContext, deadline: number): Promise<void> {
  const { control, target, limits, signal } = context;
  for (let announced = false; ; ) {
    const others = await clientSessions(control, target.database.oid);
    const inTheWay = others.filter((session) => !mayEnd(session, limits.disconnect));
    if (inTheWay.length === 0) return;
    if (Date.now() >= deadline) throw sessionsInTheWay(context, inTheWay);
    if (!announced) context.emit({ type: 'phase', phase: 'wait', detail: count(inTheWay.length) });
    announced = true;
    await pause(Math.min(200, Math.max(1, deadline - Date.now())), signal);
  }
}

const SHOWN = 10;

export function sessionsInTheWay(context: CloneContext, sessions: ActivitySession[]): SafemigrateError {
  const lines = sessions.slice(0, SHOWN).map(describe);
  if (sessions.length > SHOWN) lines.push(`… and ${sessions.length - SHOWN} more`);
  const waited = context.limits.waitMs / 1000;
  return new SafemigrateError(
    'SESSIONS',
    `${count(sessions.length)} on ${context.target.database.name}, and a clone by CREATE DATABASE … TEMPLATE needs ` +
      `it free of others (waited ${waited} s):\n${lines.map((line) => `  ${line}`).join('\n')}`,
    {
      sqlstate: '55006',
      hint:
        'The target was not touched, and nobody was disconnected. Try again when they are gone, wait longer with ' +
        '--wait SECONDS, or let safemigrate end them with --disconnect idle or --disconnect all.',
    },
  );
}

function count(sessions: number): string {
  return sessions === 1 ? '1 other session is connected' : `${sessions} other sessions are connected`;
}

function describe(session: ActivitySession): string {
  const { pid, user, application, clientAddress, state, since } = session;
  const from = clientAddress === null ? '' : ` from ${clientAddress}`;
  return `pid ${pid}: ${user ?? '?'}, ${application || 'no application name'}${from}, ${state ?? 'state not visible'}${since ? ` since ${since}` : ''}`;
}

export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    }, milliseconds);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
