import { formatDuration } from '../format.ts';
import type { Caveat } from '../model/report.ts';
import type { Observed } from '../proxy/observed.ts';

/** Two measurements of one time that differ by more than both are not of the same thing. */
const TOLERATED_SHARE = 0.1;
const TOLERATED_MS = 50;

/** Tells whether a time is shorter than another one that it includes, by more than measuring explains. */
export function isTooShort(ms: number, includedMs: number): boolean {
  return includedMs - ms > Math.max(TOLERATED_MS, includedMs * TOLERATED_SHARE);
}

/**
 * Compares the times of each session's statements with the time for which its connection had work for the server, which the proxy counts apart
 * from the statements. If they disagree, neither is known.
 */
export class SessionTimes {
  readonly #statementsMs = new Map<number, number>();
  readonly #workedMs = new Map<number, number>();

  /** To be given every event of the proxy. */
  observe(event: Observed): void {
    if (event.type === 'session-end') this.#workedMs.set(event.session, event.workedMs);
    if (event.type !== 'end') return;
    const { statement, outcome } = event;
    const before = this.#statementsMs.get(statement.session) ?? 0;
    this.#statementsMs.set(statement.session, before + outcome.durationMs - (outcome.preparedMs ?? 0));
  }

  /** Tells whether the times of this session's statements are not known. */
  areDoubted(session: number): boolean {
    const worked = this.#workedMs.get(session);
    const statements = this.#statementsMs.get(session) ?? 0;
    return worked !== undefined && (isTooShort(statements, worked) || isTooShort(worked, statements));
  }

  get caveats(): Caveat[] {
    return [...this.#workedMs].flatMap(([session, worked]): Caveat[] => {
      if (!this.areDoubted(session)) return [];
      const statements = formatDuration(this.#statementsMs.get(session) ?? 0);
      return [
        unknownTimes(
          `the statements of session ${session} add up to ${statements}, but the server worked on them for ${formatDuration(worked)}`,
        ),
      ];
    });
  }
}

/** Says why times of statements are not known. A limit that depends on them is not met. */
export function unknownTimes(reason: string): Caveat {
  return { path: 'statements[].durationMs', kind: 'unmeasured', reason };
}
