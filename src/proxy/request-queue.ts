import type { StatementStart } from './begun-statement.ts';
import type { HeldResponse } from './held-response.ts';
import { ServerClock } from './server-clock.ts';
import type { StatementSequence } from './statement-sequence.ts';

/** Something that is sent to the server and that it answers, and what happens with the answer. */
export interface ServerRequest {
  /** The message that ends the answer: the ReadyForQuery of a Query or Sync, the completion of an Execute, or the answer to another message. */
  readonly endsWith: 'ready' | 'completion' | 'acknowledgement';
  /**
   * The part of the answer that the client gets.
   * - `whole`: everything.
   * - `inner`: it is a part of the client's text: everything but the ReadyForQuery.
   * - `last`: as inner, and the last completion is held until it is known that the transaction commits.
   * - `own`: it is our BEGIN, COMMIT, ROLLBACK or a setting: notices and errors only.
   */
  readonly relay: 'whole' | 'inner' | 'last' | 'own';
  /** The statements that it runs, to be notified of their ends. */
  readonly statements?: StatementSequence;
  /** An Execute fetches at most so many rows; missing or 0: all. */
  readonly limit?: number;
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
  /** By performance.now(). */
  readonly sentMs: number;
}

/** Requests that were sent to the server and are not yet answered, in order. */
export class RequestQueue {
  readonly clock = new ServerClock();
  #pending: PendingRequest[] = [];
  /** The request whose statements were begun last. */
  #begun: PendingRequest | undefined;
  #waiting: (() => void)[] = [];
  #lost = false;
  #copyingIn = false;

  /** The request that the server answers now. */
  get current(): PendingRequest | undefined {
    return this.#pending[0];
  }

  /** An answer is outstanding. */
  get busy(): boolean {
    return this.#pending.length > 0;
  }

  /** The error of a refusal that the server has not reached: it skips it if something before fails, and the refusal counts. */
  get refusalAhead(): Buffer | undefined {
    const end = this.#pending.findIndex(({ request }) => request.endsWith === 'ready');
    const skipped = end === -1 ? this.#pending : this.#pending.slice(0, end);
    return skipped.find(({ request }) => request.replacesError)?.request.replacesError;
  }

  /** A ReadyForQuery is outstanding. */
  get endsReady(): boolean {
    return this.#pending.some(({ request }) => request.endsWith === 'ready');
  }

  /** The server waits for copied data. */
  get copyingIn(): boolean {
    return this.#copyingIn;
  }

  /** The connection to the server is gone. */
  get lost(): boolean {
    return this.#lost;
  }

  /** Expects the answer to a request; to be called together with sending it. */
  expect(request: ServerRequest): PendingRequest {
    const state = this.#lost ? 'lost' : 'open';
    const sentMs = performance.now();
    const pending: PendingRequest = { request, state, erred: false, errorHidden: false, tag: null, sentMs };
    if (this.#lost) return pending;
    this.#pending.push(pending);
    this.clock.busy(true);
    this.#beginNext();
    return pending;
  }

  /** The current request has ended. */
  end(state: Exclude<RequestState, 'open'>): void {
    const { current } = this;
    if (current?.request.endsWith === 'ready') this.clock.ready(current.sentMs);
    else if (current?.request.endsWith === 'acknowledgement')
      this.clock.prepared(current.sentMs, current.request.prepares?.preparation);
    this.#shift(state);
    this.#beginNext();
    this.#wake();
  }

  /** The server has ended something of the current request. @returns for how long it worked on it, in milliseconds. */
  worked(): number {
    const { current } = this;
    return current ? this.clock.worked(current.sentMs, current.request.statements?.preparation) : 0;
  }

  /** The statements that have begun although messages before them, which prepare them or others, are not answered. */
  get begunAhead(): StatementSequence | undefined {
    const { current } = this;
    if (this.#begun === current || !this.#begun || !this.#pending.includes(this.#begun)) return undefined;
    return this.#begun.request.statements;
  }

  /** Ends everything before the next ReadyForQuery: the server skips it because of an error. */
  skipToReady(): void {
    while (this.current && this.current.request.endsWith !== 'ready') this.#shift('failed');
    this.#beginNext();
    this.#wake();
  }

  /** The server asks for copied data. */
  beginCopyIn(): void {
    this.#copyingIn = true;
    this.#wake();
  }

  /** The copied data is complete, or the COPY has failed. */
  endCopyIn(): void {
    this.#copyingIn = false;
    this.#wake();
  }

  /** Nothing will be answered any more. */
  lose(): void {
    this.#lost = true;
    this.#begun?.request.statements?.worked(this.worked());
    for (const pending of this.#pending) {
      // The server may have run it all the same.
      if (pending !== this.#begun) pending.request.statements?.begin(pending.sentMs);
      pending.state = 'lost';
    }
    this.#pending = [];
    this.clock.busy(false);
    this.endCopyIn();
  }

  /** Resolves when the request has ended, or the server waits for copied data in it: then its state is `open`. */
  async settled(pending: PendingRequest): Promise<RequestState> {
    while (pending.state === 'open' && !this.#copyingIn) await this.#change();
    return pending.state;
  }

  /** Resolves when every request has ended, or the server waits for copied data. */
  async drained(): Promise<void> {
    while (this.#pending.length > 0 && !this.#copyingIn) await this.#change();
  }

  /** Resolves when the server no longer waits for copied data. */
  async copyInEnded(): Promise<void> {
    while (this.#copyingIn) await this.#change();
  }

  #shift(state: RequestState): void {
    const pending = this.#pending.shift();
    if (!pending) return;
    pending.state = state;
    pending.request.settle?.(state === 'succeeded');
    if (this.#pending.length === 0) this.clock.busy(false);
  }

  /** Begins the statements that the server works on: before them there may be messages that prepare them, whose answers it keeps until it sends theirs. */
  #beginNext(): void {
    const next = this.#pending.find(({ request }) => request.endsWith !== 'acknowledgement') ?? this.current;
    if (!this.current || next === this.#begun) return;
    this.#begun = next;
    next?.request.statements?.begin(this.clock.beganAtMs(this.current.sentMs));
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}
