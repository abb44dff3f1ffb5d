import { formatDuration } from '../../format.ts';
import { shapeHash } from '../../postgres/sql/statement-hashes.ts';
import type { Observed } from '../../proxy/observed.ts';
import type { Rehearsed, RehearsedStatement } from '../../rehearsal/receipts/rehearsed.ts';
import type { GuardrailEvents } from './guardrail-events.ts';

/** Statements that were faster in the rehearsal are not announced. */
const ANNOUNCED_FROM_MS = 1_000;

/** Announces each statement that was slow in the rehearsal, with its position and its duration there. */
export class ProgressTracker {
  readonly #events: GuardrailEvents;
  readonly #slow = new Map<string, RehearsedStatement[]>();
  readonly #of: number;
  /** Statement ids, so that a retried statement is announced once. */
  readonly #seen = new Set<number>();

  constructor({ statements }: Rehearsed, events: GuardrailEvents) {
    this.#events = events;
    this.#of = statements.length;
    for (const statement of statements) {
      if (statement.durationMs < ANNOUNCED_FROM_MS) continue;
      const alike = this.#slow.get(statement.shape);
      if (alike) alike.push(statement);
      else this.#slow.set(statement.shape, [statement]);
    }
  }

  observe(event: Observed): void {
    if (event.type !== 'begin' || this.#slow.size === 0) return;
    const { id, sql } = event.statement;
    if (this.#seen.has(id)) return;
    this.#seen.add(id);
    const rehearsed = this.#slow.get(shapeHash(sql))?.shift();
    if (!rehearsed) return;
    const { index, durationMs } = rehearsed;
    this.#events.say(
      `statement ${index} of ${this.#of}, ${formatDuration(durationMs)} in the rehearsal: ${this.#events.named(sql)}`,
    );
  }
}
