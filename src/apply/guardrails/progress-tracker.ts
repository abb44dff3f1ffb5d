import { formatDuration } from '../../format.ts';
import type { Observed } from '../../proxy/observed.ts';
import { type Rehearsed, type RehearsedStatement, shapeHash } from '../../rehearsal/receipts/rehearsed.ts';
import type { GuardrailEvents } from './guardrail-events.ts';

/** What took less is over before anybody has read of it. */
const TOLD_FROM_MS = 1_000;

/** Says of a statement that was slow in the rehearsal where the run is, and how long it took there. */
export class ProgressTracker {
  readonly #happenings: GuardrailEvents;
  readonly #slow = new Map<string, RehearsedStatement[]>();
  readonly #of: number;
  /** Numbers of statements: one that is sent again is told once. */
  readonly #seen = new Set<number>();

  constructor({ statements }: Rehearsed, happenings: GuardrailEvents) {
    this.#happenings = happenings;
    this.#of = statements.length;
    for (const statement of statements) {
      if (statement.durationMs < TOLD_FROM_MS) continue;
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
    this.#happenings.say(
      `statement ${index} of ${this.#of}, ${formatDuration(durationMs)} in the rehearsal: ${this.#happenings.named(sql)}`,
    );
  }
}
