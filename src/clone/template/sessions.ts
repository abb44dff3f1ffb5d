import {
  type ActivitySession,
  otherSessions,
  type PreparedTransaction,
  preparedTransactions,
} from '../../database/activity.ts';
import { SafemigrateError } from '../../errors.ts';
import { plural } from '../../format.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier, literal } from '../../postgres/sql/quote.ts';
import type { CloneContext } from '../method.ts';

/** Sessions that block a clone. The server itself ends autovacuum workers, and parallel workers end with their leader. */
export async function clientSessions(session: Session, databaseOid: number): Promise<ActivitySession[]> {
  const others = await otherSessions(session, databaseOid);
  // Most roles cannot see the type of others' sessions, but they see that autovacuum has no user.
  return others.filter(({ user, backendType }) => user !== null && backendType !== 'parallel worker');
}

/**
 * Sessions that this role may terminate: those of its own roles, and with pg_signal_backend all except superusers'. The state is
 * part of the condition, so a session that has become active since then is not terminated.
 */
const ENDABLE = `
  FROM pg_stat_activity a
  JOIN pg_roles theirs ON theirs.oid = a.usesysid
  JOIN pg_roles mine ON mine.rolname = current_user
 WHERE a.datid = $1 AND a.pid <> ALL($2::int[])
   AND a.leader_pid IS NULL
   AND (mine.rolsuper OR NOT theirs.rolsuper
        AND (pg_has_role(theirs.oid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE')))`;

function endableSessions(disconnect: 'idle' | 'all'): string {
  return disconnect === 'idle' ? `${ENDABLE} AND a.state = 'idle'` : ENDABLE;
}

export function endingStatement(disconnect: 'idle' | 'all'): string {
  return `SELECT pg_terminate_backend(a.pid) AS ended ${endableSessions(disconnect)}`;
}

/** Terminates, once, the sessions that the user allowed and the role may terminate. @returns their number. */
export async function endSessions(session: Session, context: CloneContext): Promise<number> {
  const { disconnect } = context.options;
  if (disconnect === 'never') return 0;
  const ours = [context.control.pid, session.pid];
  const rows = await session.query<{ ended: boolean }>(endingStatement(disconnect), [
    context.target.database.oid,
    ours,
  ]);
  return rows.filter(({ ended }) => ended).length;
}

type InTheWay = Awaited<ReturnType<typeof inTheWay>>;

/** Finds what blocks CREATE DATABASE … TEMPLATE, except sessions that we may terminate. */
async function inTheWay({ control, target, options }: CloneContext) {
  const { oid, name } = target.database;
  const sessions = await clientSessions(control, oid);
  const prepared = await preparedTransactions(control, name);
  if (options.disconnect === 'never' || sessions.length === 0) return { sessions, prepared };
  const statement = `SELECT a.pid ${endableSessions(options.disconnect)}`;
  const endable = await control.query<{ pid: number }>(statement, [oid, [control.pid]]);
  const pids = new Set(endable.map(({ pid }) => pid));
  return { sessions: sessions.filter(({ pid }) => !pids.has(pid)), prepared };
}

/** Waits until no session that we may not terminate is connected to the target; refuses when the time is up. */
export async function waitForSessions(context: CloneContext, deadline: number): Promise<void> {
  for (let announced = false; ; ) {
    const obstacles = await inTheWay(context);
    if (obstacles.sessions.length + obstacles.prepared.length === 0) return;
    if (performance.now() >= deadline) throw refusal(context, obstacles);
    if (!announced) context.emit({ type: 'phase', phase: 'wait', detail: count(obstacles) });
    announced = true;
    await pauseBetweenTries(Math.min(200, Math.max(1, deadline - performance.now())), context.signal);
  }
}

/** The refusal if terminated sessions reconnected, or others connected. */
export async function sessionsInTheWay(context: CloneContext): Promise<SafemigrateError> {
  const { oid, name } = context.target.database;
  const sessions = await clientSessions(context.control, oid);
  return refusal(context, { sessions, prepared: await preparedTransactions(context.control, name) });
}

const SHOWN = 10;

function refusal(context: CloneContext, obstacles: InTheWay): SafemigrateError {
  const all = [...obstacles.sessions.map(describe), ...obstacles.prepared.map(describePrepared)];
  const lines = all.slice(0, SHOWN);
  if (all.length > SHOWN) lines.push(`… and ${all.length - SHOWN} more`);
  const waited = context.options.waitMs / 1000;
  return new SafemigrateError(
    'SESSIONS',
    `${count(obstacles)} ${context.target.database.name}, and a clone by CREATE DATABASE with TEMPLATE needs ` +
      `it free of others (waited ${waited} s):\n${lines.map((line) => `  ${line}`).join('\n')}`,
    { sqlstate: '55006', hint: advice(context, obstacles).join('\n') },
  );
}

function advice({ options, target }: CloneContext, { sessions, prepared }: InTheWay): string[] {
  const { name, superuser, maySignal, seesActivity } = target.role;
  const lines: string[] = [];
  if (prepared.length > 0)
    lines.push('End prepared transactions with COMMIT PREPARED or ROLLBACK PREPARED, in that database.');
  if (sessions.length === 0) return ['The target was not touched.', ...lines];
  if (options.disconnect === 'never') {
    const more = 'or let safemigrate end them with --disconnect idle or --disconnect all.';
    return [
      'The target was not touched, and no session was terminated.',
      `Try again when they are gone, wait longer with SAFEMIGRATE_WAIT=SECONDS, ${more}`,
      ...lines,
    ];
  }
  lines.unshift(
    'The target was not touched. Try again when they are gone, or wait longer with SAFEMIGRATE_WAIT=SECONDS.',
  );
  if (options.disconnect === 'idle') lines.push('--disconnect all also ends those that are at work.');
  if (options.disconnect === 'idle' && !seesActivity)
    lines.push(`GRANT pg_read_all_stats TO ${identifier(name)} lets it see which sessions are idle.`);
  if (!superuser && !maySignal)
    lines.push(`GRANT pg_signal_backend TO ${identifier(name)} lets it end those of other ordinary roles.`);
  if (!superuser) lines.push('Those of superusers are ended by superusers only.');
  return lines;
}

function count({ sessions, prepared }: InTheWay): string {
  const parts: string[] = [];
  if (sessions.length > 0) parts.push(plural(sessions.length, 'other session'));
  if (prepared.length > 0) parts.push(plural(prepared.length, 'prepared transaction'));
  return `${parts.join(' and ')} ${sessions.length + prepared.length === 1 ? 'is' : 'are'} on`;
}

function describePrepared({ gid, owner, preparedAt }: PreparedTransaction): string {
  return `prepared transaction ${literal(gid)} of ${owner}, since ${toTheSecond(preparedAt)}`;
}

function describe(session: ActivitySession): string {
  const { pid, user, application, clientAddress, state, since } = session;
  const from = clientAddress === null ? '' : ` from ${clientAddress}`;
  return `pid ${pid}: ${user ?? '?'}, ${application || 'no application name'}${from}, ${state ?? 'state not visible'}${since ? ` since ${toTheSecond(since)}` : ''}`;
}

export function pauseBetweenTries(milliseconds: number, signal: AbortSignal): Promise<void> {
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

/** By the server's clock, which may differ from ours. */
function toTheSecond(time: string): string {
  return time.replace(/\.\d+/, '');
}
