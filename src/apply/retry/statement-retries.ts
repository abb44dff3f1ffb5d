import { formatDuration } from '../../format.ts';
import { concurrentFailure, saysNowait } from '../../postgres/sql/classify-statement.ts';
import type { Node } from '../../postgres/sql/tree.ts';
import type { Intent, Observed, StatementAttempt } from '../../proxy/observed.ts';
import type { GuardrailEvents } from '../guardrails/guardrail-events.ts';
import type { Guardrails } from '../guardrails/guardrail-options.ts';
import { growingPause, pause } from '../guardrails/pause.ts';
import type { InvalidIndexes } from './invalid-indexes.ts';

interface Failed {
  readonly sql: string;
  /** Attempts. */
  failed: number;
  pausedMs: number;
}

const PAUSES = { firstMs: 250, longestMs: 10_000 };

/**
 * Sends a statement again that did not get its lock, with the text that was one transaction, after growing pauses in which
 * the table is free for others.
 */
export class Retries {
  readonly #limits: Pick<Guardrails, 'retryCount' | 'retryTimeMs'>;
  readonly #happenings: GuardrailEvents;
  readonly #indexes: InvalidIndexes;
  /** By session: in a text of several statements, it may be another one that fails next time. */
  readonly #failed = new Map<number, Failed[]>();

  constructor(
    limits: Pick<Guardrails, 'retryCount' | 'retryTimeMs'>,
    happenings: GuardrailEvents,
    indexes: InvalidIndexes,
  ) {
    this.#limits = limits;
    this.#happenings = happenings;
    this.#indexes = indexes;
  }

  async after(intent: Intent, { number, sinceMs, signal }: StatementAttempt): Promise<'deliver' | 'retry'> {
    const { sql, session, parsed } = intent;
    const { retryCount, retryTimeMs } = this.#limits;
    const known = this.#known(session, sql);
    known.failed++;
    const giveUp = () => this.#giveUp(session, known);
    if (parsed === null || asksOnce(parsed.node)) return giveUp();
    const pauseMs = growingPause(number, PAUSES);
    if (number > retryCount || sinceMs + pauseMs > retryTimeMs) return giveUp();
    if (!(await this.#indexes.clear(intent))) return giveUp();
    const words = `${this.#happenings.named(sql)} did not get its lock; again in ${formatDuration(pauseMs)}`;
    this.#happenings.say(`${words} (${number} of ${retryCount})`);
    const begun = performance.now();
    await pause(pauseMs, signal);
    known.pausedMs += performance.now() - begun;
    return signal.aborted ? giveUp() : 'retry';
  }

  /** To be given every event of the proxy. */
  observe(event: Observed): void {
    if (event.type === 'end') {
      const { session, sql } = event.statement;
      const known = this.#failed.get(session)?.find((each) => each.sql === sql);
      if (known) this.#over(session, known, event.outcome.error === null ? 'went on' : 'gave up');
    }
    // Those that the last attempt did not come to.
    if (event.type === 'transaction-end')
      for (const known of [...(this.#failed.get(event.session) ?? [])])
        this.#over(event.session, known, 'gave up');
  }

  #known(session: number, sql: string): Failed {
    const all = this.#failed.get(session) ?? [];
    this.#failed.set(session, all);
    let known = all.find((each) => each.sql === sql);
    if (!known) {
      known = { sql, failed: 0, pausedMs: 0 };
      all.push(known);
    }
    return known;
  }

  #over(session: number, known: Failed, outcome: 'went on' | 'gave up'): void {
    this.#forget(session, known);
    this.#happenings.retried({ ...known, outcome });
  }

  #forget(session: number, known: Failed): void {
    const others = this.#failed.get(session)?.filter((each) => each !== known) ?? [];
    if (others.length > 0) this.#failed.set(session, others);
    else this.#failed.delete(session);
  }

  /** Whoever was never sent again was no retry. */
  #giveUp(session: number, known: Failed): 'deliver' {
    if (known.failed === 1) this.#forget(session, known);
    return 'deliver';
  }
}

/**
 * NOWAIT asks to fail; and what a failed REINDEX or DETACH … CONCURRENTLY leaves behind gives the same statement another
 * meaning.
 */
function asksOnce(node: Node): boolean {
  return saysNowait(node) || concurrentFailure(node) === 'another meaning';
}
