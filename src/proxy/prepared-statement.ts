import { serialize } from 'pg-protocol';
import type { StatementNote } from '../model/report.ts';
import { errorResponse, type PostgresError } from '../postgres/protocol/messages.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';
import type { StatementStart } from './begun-statement.ts';
import type { ServerRequest } from './request-queue.ts';
import type { Preparation } from './server-clock.ts';
import type { SessionContext } from './session-context.ts';
import { StatementSequence } from './statement-sequence.ts';

/** A statement that the client has prepared by a Parse. */
export interface PreparedStatement {
  readonly sql: string;
  /** Says why `sql` is a note, if it is not the client's text. */
  readonly note?: StatementNote | undefined;
  readonly parsed: ParsedStatement | null;
  /** OIDs of the types that the client declared for its parameters. */
  readonly types?: readonly number[];
  /** The gate's answer to a text that is too large to be kept. */
  readonly refusal?: PostgresError | undefined;
  readonly preparation?: Preparation | undefined;
}

/** Fails in the server as the refused statement would have; the error's words are replaced. */
export const REFUSED_PARSE = serialize.parse({ name: 'safemigrate_refused', text: 'refused by safemigrate' });

/** Describes the execution of a prepared statement. */
export function startOfPrepared(
  { sql, note, parsed, preparation }: PreparedStatement,
  context: SessionContext,
  values?: readonly string[] | null,
): StatementStart {
  return { sql, note, parsed, values, preparation, sent: context.exact ? 'observed' : 'through' };
}

/** Describes what is sent in place of a refused statement; begins it. */
export function refusedRequest(
  prepared: PreparedStatement,
  refusal: PostgresError,
  context: SessionContext,
): Omit<ServerRequest, 'endsWith'> {
  const statements = new StatementSequence(context.transaction, [startOfPrepared(prepared, context)]);
  return { relay: 'whole', statements, replacesError: errorResponse(refusal) };
}

/** Returns the one statement of a text; null if it has none or several, or was not parsed. */
export function onlyStatement(
  statements: readonly ParsedStatement[] | null | undefined,
): ParsedStatement | null {
  return statements?.length === 1 ? (statements[0] ?? null) : null;
}

/**
 * The names of a session's prepared statements, or of its portals, and what each stands for. The client need not wait for answers:
 * a name has its new meaning at once for what is sent behind the change, and for good when the server has answered it.
 */
export class SessionNames<Value> {
  readonly #answered = new Map<string, Value>();
  /**
   * Changes that the server has not answered yet. A Sync was sent behind those `beforeSync`: if the server refuses or skips one, what
   * comes now meets the former meaning.
   */
  readonly #changes: { name: string; value: Value | undefined; beforeSync: boolean }[] = [];

  get(name: string): Value | undefined {
    const change = this.#lastChange(name);
    return change ? change.value : this.#answered.get(name);
  }

  /** Sets what the server has answered already. */
  set(name: string, value: Value | undefined): void {
    if (value === undefined) this.#answered.delete(name);
    else this.#answered.set(name, value);
  }

  /** Notes a change that is sent. @returns to be called with the server's answer, in the order of the changes: whether it counts. */
  change(name: string, value?: Value): (succeeded: boolean) => void {
    this.#changes.push({ name, value, beforeSync: false });
    return (succeeded) => {
      this.#changes.shift();
      if (succeeded) this.set(name, value);
    };
  }

  synced(): void {
    for (const change of this.#changes) change.beforeSync = true;
  }

  /** Tells whether the name may still stand for something else: its last change may not have happened. */
  isUncertain(name: string): boolean {
    return this.#lastChange(name)?.beforeSync === true;
  }

  #lastChange(name: string) {
    return this.#changes.findLast((change) => change.name === name);
  }
}
