import type { StatementStart } from './begun-statement.ts';
import type { HeldResponse } from './held-response.ts';
import type { StatementSequence } from './statement-sequence.ts';

/** Something that is sent to the server and that it answers, and what happens with the answer. */
export interface ServerRequest {
  /** What ends the answer: the ReadyForQuery of a Query or Sync, the completion of an Execute, or the answer to another message. */
  readonly endsWith: 'ready' | 'completion' | 'acknowledgement';
  /**
   * Which part of the answer the client gets.
   * - `whole`: everything.
   * - `inner`: it is a part of the client's text: everything but the ReadyForQuery.
   * - `last`: as inner, and the last completion is held until it is known that the transaction commits.
   * - `own`: it is our BEGIN, COMMIT, ROLLBACK or a setting: notices and errors only.
   */
  readonly relay: 'whole' | 'inner' | 'last' | 'own';
  /** The statements that it runs, to be notified of their ends. */
  readonly statements?: StatementSequence;
  /** The statement that it prepares: it has not begun, but fails if the server refuses the message. */
  readonly prepares?: StatementStart;
  /** Notes whether the message has succeeded, or the server refused or skipped it. */
  readonly settle?: ((succeeded: boolean) => void) | undefined;
  /** It is our COMMIT or ROLLBACK: its completion ends the transaction. */
  readonly endsTransaction?: true;
  /** Counts the characters of the client's text before what was sent: positions in errors are moved by them. */
  readonly positionOffset?: () => number;
  /** The client gets this in place of the server's error. */
  readonly replacesError?: Buffer;
  /** Tells whether the client gets no error with this SQLSTATE, because we caused it. */
  readonly hidesError?: (sqlstate: string) => boolean;
  /** Holds the answer back, because the request may be sent again. */
  readonly held?: HeldResponse;
}

/** `failed` also if the server skipped the request because of an error before it. */
export type RequestState = 'open' | 'succeeded' | 'failed' | 'lost';

/** A request that was sent, and what came of it so far. */
export interface PendingRequest {
  readonly request: ServerRequest;
  state: RequestState;
  /** An error came; a ReadyForQuery will follow. */
  erred: boolean;
  /** The error was hidden from the client. */
  errorHidden: boolean;
  /** The tag of the last completion. */
  tag: string | null;
}
