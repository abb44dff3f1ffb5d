import { formatDuration } from '../../format.ts';
import type { Attempt, Intent } from '../../wire/observed.ts';
import { kindOf, type Node } from '../../wire/statement-kind.ts';
import type { Happenings } from './happenings.ts';
import type { InvalidIndexes } from './invalid-indexes.ts';
import type { During } from './options.ts';
import { growingPause, pause } from './pause.ts';

const PAUSES = { firstMs: 250, longestMs: 10_000 };

/**
 * Sends a statement again that did not get its lock, after growing pauses in which the table is free for others.
 */
export class Retries {
  readonly #limits: Pick<During, 'retryCount' | 'retryTimeMs'>;
  readonly #happenings: Happenings;
  readonly #indexes: InvalidIndexes;
  readonly #failed = new Map<number, { sql: string; failed: number; pausedMs: number }>();

  constructor(
    limits: Pick<During, 'retryCount' | 'retryTimeMs'>,
    happenings: Happenings,
    indexes: InvalidIndexes,
  ) {
    this.#limits = limits;
    this.#happenings = happenings;
    this.#indexes = indexes;
  }

  /** By the session, as the statement goes on there. */
  async after(intent: Intent, { number, sinceMs, signal }: Attempt): Promise<'deliver' | 'retry'> {
    const { sql, session, parsed } = intent;
    const { retryCount, retryTimeMs } = this.#limits;
    const known = this.#failed.get(session) ?? { sql, failed: 0, pausedMs: 0 };
    known.failed = number;
    this.#failed.set(session, known);
    if (parsed === null || asksOnce(parsed.node)) return this.#giveUp(session);
    const pauseMs = growingPause(number, PAUSES);
    if (number > retryCount || sinceMs + pauseMs > retryTimeMs) return this.#giveUp(session);
    if (!(await this.#indexes.clear(intent))) return this.#giveUp(session);
    const words = `${this.#happenings.named(sql)} did not get its lock; again in ${formatDuration(pauseMs)}`;
    this.#happenings.say(`${words} (${number} of ${retryCount})`);
    const begun = performance.now();
    await pause(pauseMs, signal);
    known.pausedMs += performance.now() - begun;
    return signal.aborted ? this.#giveUp(session) : 'retry';
  }

  /** The session's statement has ended: it went on, if it was there at all. */
  ended(session: number, succeeded: boolean): void {
    const known = this.#failed.get(session);
    if (!known) return;
    this.#failed.delete(session);
    this.#happenings.retried({ ...known, outcome: succeeded ? 'went on' : 'gave up' });
  }

  /** Whoever was never sent again was no retry. */
  #giveUp(session: number): 'deliver' {
    if (this.#failed.get(session)?.failed === 1) this.#failed.delete(session);
    return 'deliver';
  }
}

/**
 * NOWAIT means that it is to fail; what a failed REINDEX or DETACH … CONCURRENTLY leaves behind makes the same statement
 * mean something else.
 */
function asksOnce(node: Node): boolean {
  const text = JSON.stringify(node);
  if (text.includes('"nowait":true') || text.includes('"LockWaitError"')) return true;
  if (kindOf(node) === 'ReindexStmt') return text.includes('"concurrently"');
  return kindOf(node) === 'AlterTableStmt' && text.includes('"concurrent":true');
}
