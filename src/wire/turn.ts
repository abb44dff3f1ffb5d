/** Something sent to the server that it answers, and what becomes of the answer. */
export interface Turn {
  /** What ends it: the ReadyForQuery of a Query or Sync, or the completion of one Execute. */
  readonly ends: 'ready' | 'completion';
  /**
   * What of the answer the client gets.
   * - `whole`: everything.
   * - `inner`: a part of the client's text: all but the ReadyForQuery.
   * - `last`: as inner, and the last completion is held back until it is known that the transaction commits.
   * - `own`: our BEGIN, COMMIT or ROLLBACK: neither completion nor ReadyForQuery.
   */
  readonly relay: 'whole' | 'inner' | 'last' | 'own';
  /** Counts the characters of the client's text before what was sent. */
  readonly shift?: () => number;
  /** What the client gets in place of an error; undefined: nothing. */
  readonly onError?: (error: Buffer) => Buffer | undefined;
  readonly onCompletion?: (tag: string | null) => void;
  readonly onSuspended?: () => void;
  readonly onFailure?: (fields: ReadonlyMap<string, string>) => void;
}

/** `failed` also where the turn was skipped because of an error before it. */
export type TurnState = 'open' | 'succeeded' | 'failed' | 'lost';

export interface Pending {
  readonly turn: Turn;
  state: TurnState;
  /** An error came; a ReadyForQuery will follow. */
  erred: boolean;
}
