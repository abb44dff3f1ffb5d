import { setTimeout as delay } from 'node:timers/promises';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { loginBehind, type PooledTarget, poolModeOf } from './pgbouncer.ts';
import type { SwapSubject } from './rename.ts';

const ASK = 'SELECT 1';
const EVERY_MS = 10;
/** Limit for the first answer. Without one nothing is measured. */
const FIRST_ANSWER_MS = 1_000;
/** Limit for an answer once the target is open again. */
const ANSWER_MS = 5_000;

/**
 * A client that asks the target over and over, to measure for how long clients get no answer around a time for which it is closed. It
 * must not get in the way of the closing:
 *
 * - Its session is ended like any other. It connects again only once its caller says that the target is open: CREATE DATABASE and the
 *   rename look for sessions every 100 ms only, and a login that is refused can be one.
 * - Behind PgBouncer it asks once before PAUSE, and again after RESUME: more questions could make PgBouncer open connections to the
 *   server, and PAUSE must not come while one logs in (pgbouncer.ts). In session pooling PAUSE would wait for it, so nothing is measured.
 * - Its session has ended before the run opens its next one, so it takes no connection from it.
 * - It throws nothing: if anything fails, nothing is measured.
 */
export class MeasuringClient {
  readonly #connect: (signal: AbortSignal) => Promise<Session>;
  readonly #isPooled: boolean;
  #session: Session | undefined;
  /** Asks again and again until the session ends. */
  #asking: Promise<void> | undefined;
  /** Undefined until the first answer. */
  #answeredAt: number | undefined;
  #longestMs = 0;

  /** @param connect opens a session as a client would. */
  constructor(connect: (signal: AbortSignal) => Promise<Session>, isPooled: boolean) {
    this.#connect = connect;
    this.#isPooled = isPooled;
  }

  /** Begins to ask. To be called right before the target is closed, or PgBouncer is paused. */
  async begin(): Promise<void> {
    await this.stop();
    [this.#answeredAt, this.#longestMs] = [undefined, 0];
    const isAnswered = await this.#isAnswered(FIRST_ANSWER_MS);
    if (isAnswered && !this.#isPooled) this.#asking = this.#askOn();
  }

  /**
   * Ends the measurement, once the target is open again and PgBouncer resumed.
   * @returns the longest time between two answers in milliseconds; null if it was not measured.
   */
  async opened(): Promise<number | null> {
    let isMeasured = false;
    const deadline = performance.now() + ANSWER_MS;
    while (this.#answeredAt !== undefined && !isMeasured && performance.now() < deadline) {
      isMeasured = await this.#isAnswered(deadline - performance.now());
      if (!isMeasured) await delay(EVERY_MS);
    }
    await this.stop();
    return isMeasured ? this.#longestMs : null;
  }

  async stop(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    await session?.close();
    await this.#asking;
  }

  async #askOn(): Promise<void> {
    const session = this.#session;
    try {
      while (session && session === this.#session) {
        await delay(EVERY_MS);
        await this.#ask(session);
      }
    } catch {
      // It was ended, or closed: opened() asks over another one.
    }
  }

  async #ask(session: Session): Promise<void> {
    await session.query(ASK);
    const now = performance.now();
    this.#longestMs = Math.max(this.#longestMs, now - (this.#answeredAt ?? now));
    this.#answeredAt = now;
  }

  /** Asks once, over another connection if there is none any more. @returns false if no answer came in time. */
  async #isAnswered(withinMs: number): Promise<boolean> {
    const connecting = new AbortController();
    const timer = setTimeout(() => {
      connecting.abort();
      this.#session?.abandon('no answer came in time');
    }, withinMs);
    try {
      this.#session ??= await this.#connect(connecting.signal);
      await this.#ask(this.#session);
      return true;
    } catch {
      await this.stop();
      return false;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Makes a client of the target, behind the first PgBouncer if there is one. @param consoles their admin consoles. */
export function measuringClient(
  { target, run, audit }: SwapSubject,
  consoles: readonly ConnectionSettings[],
  pooled: PooledTarget,
): MeasuringClient {
  const options = { run, audit, purpose: 'client' };
  const [admin] = consoles;
  if (!admin) {
    const connect = (signal: AbortSignal) => openSession(target.settings, { ...options, signal });
    return new MeasuringClient(connect, false);
  }
  return new MeasuringClient(async (signal) => {
    const settings = await loginBehind(admin, pooled, target.settings);
    const session = await openSession(settings, { ...options, signal, throughPooler: true });
    const mode = await poolModeOf(admin, settings).catch(() => undefined);
    if (mode === 'transaction' || mode === 'statement') return session;
    await session.close();
    throw new Error('PAUSE might wait for it');
  }, true);
}
