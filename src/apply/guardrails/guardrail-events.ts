import type { Emit } from '../../events.ts';
import type { DuringSection } from '../../model/report.ts';
import { normalizeSql } from '../../postgres/sql/normalize.ts';
import { statementWithoutSecrets } from '../../postgres/sql/statement-secrets.ts';

type Entry<K extends 'retries' | 'cancelled' | 'diverged' | 'ownTimeouts' | 'blockers'> =
  DuringSection[K][number];

const SHOWN_CHARACTERS = 70;

/** Records what the guardrails do to the command, for the report, and emits notices. */
export class GuardrailEvents {
  readonly #emit: Emit;
  readonly #redact: boolean;
  readonly #section: DuringSection = {
    retries: [],
    cancelled: [],
    diverged: [],
    ownTimeouts: [],
    blockers: [],
    pausedMs: 0,
    laggedMs: 0,
  };

  constructor(emit: Emit, redact: boolean) {
    this.#emit = emit;
    this.#redact = redact;
  }

  get section(): DuringSection {
    return this.#section;
  }

  say(message: string): void {
    this.#emit({ type: 'notice', message });
  }

  /** Says what holds for a moment only. */
  mention(message: string): void {
    this.#emit({ type: 'notice', message, passing: true });
  }

  /** Shows for whom the command waits, and for how long, until `unblocked()`. */
  waitsFor(blocker: Pick<Entry<'blockers'>, 'pid' | 'user' | 'application' | 'since'>, ways: string): void {
    const { pid, user, application, since } = blocker;
    const names = [user, application].filter((name) => name !== null && name !== '');
    this.#emit({ type: 'blocked', who: names.length === 0 ? `pid ${pid}` : names.join('/'), since, ways });
  }

  unblocked(): void {
    this.#emit({ type: 'unblocked' });
  }

  /** Formats a statement for the report. */
  shown(sql: string): string {
    return this.#redact ? normalizeSql(sql) : statementWithoutSecrets(sql);
  }

  /** Formats a statement as one short line without literals, for notices. */
  named(sql: string): string {
    const line = normalizeSql(statementWithoutSecrets(sql));
    return line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS)}…` : line;
  }

  retried(entry: Entry<'retries'>): void {
    this.#section.retries.push({ ...entry, sql: this.shown(entry.sql) });
  }

  cancelled(entry: Entry<'cancelled'>): void {
    this.#section.cancelled.push({ ...entry, sql: this.shown(entry.sql) });
  }

  diverged(entry: Entry<'diverged'>): void {
    this.#section.diverged.push({ ...entry, sql: this.shown(entry.sql) });
  }

  ownTimeout(entry: Entry<'ownTimeouts'>): void {
    const same = ({ setting, value, where }: Entry<'ownTimeouts'>) =>
      setting === entry.setting && value === entry.value && where === entry.where;
    if (!this.#section.ownTimeouts.some(same)) this.#section.ownTimeouts.push(entry);
  }

  /** Records a blocker. @returns its entry, which the caller updates if it terminates the session. */
  blocked(entry: Entry<'blockers'>): Entry<'blockers'> {
    const query = entry.query === null ? null : this.shown(entry.query);
    const kept = { ...entry, query, blocked: this.shown(entry.blocked) };
    this.#section.blockers.push(kept);
    return kept;
  }

  paused(durationMs: number): void {
    this.#section.pausedMs += durationMs;
  }

  lagged(durationMs: number): void {
    this.#section.laggedMs += durationMs;
  }
}
