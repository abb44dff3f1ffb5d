import { setTimeout as delay } from 'node:timers/promises';
import { sqlstateOf } from '../errors.ts';
import type { Session } from './connection/session.ts';

/** Uses a session and closes it afterwards, also if `use` fails. */
export async function withSession<T>(
  opening: Promise<Session>,
  use: (session: Session) => Promise<T>,
): Promise<T> {
  const session = await opening;
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}

/** Asks the server. @returns undefined if it refused: it took too long, or the table was locked. @throws what has no SQLSTATE. */
export async function ifAnswered<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return undefined;
  }
}

/** Prepares a statement, which does not run. @returns why the server refuses it; null: it takes it. */
export async function refusalOf(
  session: Session,
  sql: string,
): Promise<{ readonly sqlstate: string; readonly message: string } | null> {
  try {
    await session.queryAll([`PREPARE safemigrate_tried AS ${sql}`, 'DEALLOCATE safemigrate_tried']);
    return null;
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    if (sqlstate === undefined) throw error;
    return { sqlstate, message: (error as Error).message };
  }
}

/**
 * Repeats a check until it is true or the time is up. @returns the last answer.
 * @throws AbortError by the signal, during a pause.
 */
export async function waitUntil(
  check: () => Promise<boolean>,
  { everyMs, timeoutMs, signal }: { everyMs: number; timeoutMs: number; signal?: AbortSignal },
): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  while (!(await check())) {
    if (performance.now() >= deadline) return false;
    await delay(everyMs, undefined, signal ? { signal } : {});
  }
  return true;
}

/** Waits for the work, and no longer than this. Never rejects. @returns whether it has ended by then, in whatever way. */
export async function endsWithin(work: Promise<unknown> | undefined, ms: number): Promise<boolean> {
  const timer = new AbortController();
  const ended = Promise.resolve(work).then(
    () => true,
    () => true,
  );
  const late = delay(ms, false, { signal: timer.signal }).catch(() => false);
  try {
    return await Promise.race([ended, late]);
  } finally {
    timer.abort();
  }
}
