import { formatDuration } from '../../format.ts';
import { type LockFailure, lockFailureOf } from '../../postgres/lock-modes.ts';
import { concurrentFailure, fieldsIf, saysNowait } from '../../postgres/sql/classify-statement.ts';
import type { Node } from '../../postgres/sql/tree.ts';
import type { Intent, Observed, StatementAttempt } from '../../proxy/observed.ts';
import type { Guardrails } from '../apply-settings.ts';
import type { GuardrailEvents } from '../guardrails/guardrail-events.ts';
import { backoffMs, pause } from './backoff.ts';
import type { InvalidIndexes } from './invalid-indexes.ts';

interface FailedStatement {
  readonly sql: string;
  /** Number of attempts that failed. */
  failed: number;
  readonly causes: LockFailure[];
  pausedMs: number;
}

const PAUSES = { firstMs: 250, longestMs: 10_000 };

/**
 * Retries a statement that did not get its lock or was chosen as the victim of a deadlock, together with the multi-statement query that it is part of, with exponential
 * backoff: during the pauses other sessions can use the table.
 */
export class Retries {
  readonly #limits: Pick<Guardrails, 'retryOn' | 'retryCount' | 'retryTimeMs'>;
  readonly #events: GuardrailEvents;
  readonly #indexes: InvalidIndexes;
  /** By session. In a query of several statements another one may fail next time. */
  readonly #failed = new Map<number, FailedStatement[]>();

  constructor(
    limits: Pick<Guardrails, 'retryOn' | 'retryCount' | 'retryTimeMs'>,
    events: GuardrailEvents,
    indexes: InvalidIndexes,
  ) {
    this.#limits = limits;
    this.#events = events;
    this.#indexes = indexes;
  }

  async after(
    intent: Intent,
    { number, sinceMs, error, signal }: StatementAttempt,
  ): Promise<'deliver' | 'retry'> {
    const { sql, session, parsed } = intent;
    const { retryOn, retryCount, retryTimeMs } = this.#limits;
    const cause = lockFailureOf(error.get('C'));
    const known = this.#known(session, sql);
    known.failed++;
    if (cause && !known.causes.includes(cause)) known.causes.push(cause);
    const giveUp = () => this.#giveUp(session, known);
    if (!cause || !retryOn.includes(cause)) return giveUp();
    if (parsed === null || mustNotRetry(parsed.node, sql)) return giveUp();
    const pauseMs = backoffMs(number, PAUSES);
    if (number > retryCount || sinceMs + pauseMs > retryTimeMs) return giveUp();
    if (!(await this.#indexes.clear(intent))) return giveUp();
    const words = `${this.#events.named(sql)} ${FAILED_OF[cause]}; retry in ${formatDuration(pauseMs)}`;
    this.#events.mention(`${words} (${number} of ${retryCount})`);
    const begun = performance.now();
    await pause(pauseMs, signal);
    known.pausedMs += performance.now() - begun;
    return signal.aborted ? giveUp() : 'retry';
  }

  /** Takes every event of the proxy. */
  observe(event: Observed): void {
    if (event.type === 'end') {
      const { session, sql } = event.statement;
      const known = this.#failed.get(session)?.find((each) => each.sql === sql);
      if (known) this.#finish(session, known, event.outcome.error === null ? 'went on' : 'gave up');
    }
    // Statements that the last attempt did not reach.
    if (event.type === 'transaction-end')
      for (const known of [...(this.#failed.get(event.session) ?? [])])
        this.#finish(event.session, known, 'gave up');
  }

  #known(session: number, sql: string): FailedStatement {
    const all = this.#failed.get(session) ?? [];
    this.#failed.set(session, all);
    let known = all.find((each) => each.sql === sql);
    if (!known) {
      known = { sql, failed: 0, causes: [], pausedMs: 0 };
      all.push(known);
    }
    return known;
  }

  #finish(session: number, known: FailedStatement, outcome: 'went on' | 'gave up'): void {
    this.#forget(session, known);
    this.#events.retried({ ...known, outcome });
  }

  #forget(session: number, known: FailedStatement): void {
    const others = this.#failed.get(session)?.filter((each) => each !== known) ?? [];
    if (others.length > 0) this.#failed.set(session, others);
    else this.#failed.delete(session);
  }

  /** A statement that failed once was not retried, so it is not reported. */
  #giveUp(session: number, known: FailedStatement): 'deliver' {
    if (known.failed === 1) this.#forget(session, known);
    return 'deliver';
  }
}

const FAILED_OF = {
  'lock-timeout': 'did not get its lock',
  deadlock: 'was in a deadlock, and was rolled back',
} as const;

/**
 * NOWAIT asks to fail; what a failed REINDEX or DETACH … CONCURRENTLY leaves behind gives the same statement another meaning;
 * and what a procedure or a DO block has committed by itself would be done twice.
 */
function mustNotRetry(node: Node, sql: string): boolean {
  return (
    saysNowait(node) ||
    concurrentFailure(node) === 'another meaning' ||
    fieldsIf(node, 'CallStmt') !== undefined ||
    (fieldsIf(node, 'DoStmt') !== undefined && /\b(?:commit|rollback|call)\b/i.test(sql))
  );
}
