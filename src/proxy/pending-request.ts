/** Something sent to the server that it answers, and what becomes of the answer. */
export interface PendingRequest {
  /** What ends it: the ReadyForQuery of a Query or Sync, or the completion of one Execute. */
  readonly ends: 'ready' | 'completion';
  /**
   * What of the answer the client gets.
   * - `whole`: everything.
   * - `inner`: a part of the client's text: all but the ReadyForQuery.
   * - `last`: as inner, and the last completion is held back until it is known that the transaction commits.
   * - `own`: our BEGIN, COMMIT, ROLLBACK or a setting: nothing but notices.
   */
  readonly relay: 'whole' | 'inner' | 'last' | 'own';
  /** Counts the characters of the client's text before what was sent. */
  readonly shift?: () => number;
  /** What the client gets in place of an error; undefined: nothing. */
  readonly onError?: (error: Buffer) => Buffer | undefined;
  /**
   * Whether an error is kept from the client until it is decided what becomes of it. Asked while the client has been told
   * nothing of this turn that could not be told again: up to the first row or completion its frames are kept as well.
   */
  readonly keepsError?: (fields: ReadonlyMap<string, string>) => boolean;
  /** So much of the answer is kept with the error, rows and completions among it, in bytes. Copied data is not. */
  readonly keepsBytes?: number;
  readonly onCompletion?: (tag: string | null) => void;
  readonly onSuspended?: () => void;
  readonly onFailure?: (fields: ReadonlyMap<string, string>) => void;
}

/** `failed` also where the turn was skipped because of an error before it. */
export type RequestState = 'open' | 'succeeded' | 'failed' | 'lost';

export interface Pending {
  readonly turn: PendingRequest;
  state: RequestState;
  /** An error came; a ReadyForQuery will follow. */
  erred: boolean;
  /** What the client has not been told yet, of a turn that may keep its error: the error is among it. */
  unsaid: Unsaid[] | undefined;
  unsaidBytes: number;
  kept: Kept | undefined;
}

export interface Unsaid {
  /** 0: a part of rows or of a large message, which begins and ends anywhere. */
  readonly type: number;
  readonly bytes: Buffer;
}

/** An error that was kept. */
export interface Kept {
  readonly fields: ReadonlyMap<string, string>;
  /** The ReadyForQuery behind it. */
  ready: Buffer | undefined;
}
