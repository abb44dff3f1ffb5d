import type { Socket } from 'node:net';
import type { PieceReader } from '../postgres/protocol/frame-reader.ts';
import type { Piece } from '../postgres/protocol/frames.ts';
import { CLIENT, FLUSH, type PostgresError } from '../postgres/protocol/messages.ts';
import { WriteBuffer } from '../postgres/protocol/write-buffer.ts';
import { type ParsedStatement, parseText, withoutRepetitions } from '../postgres/sql/parse.ts';
import type { Gate, Intent, Observe, StatementAttempt } from './observed.ts';
import type { ProxyState } from './proxy-state.ts';
import { type PendingRequest, RequestQueue, type RequestState } from './request-queue.ts';
import { ResponseRelay } from './response-relay.ts';
import { SessionTransaction } from './session-transaction.ts';
import type { Upstream } from './upstream.ts';

const CANCELED: PostgresError = {
  sqlstate: '57014',
  message: 'canceling statement due to user request',
};

export interface SessionParts {
  readonly client: Socket;
  readonly reader: PieceReader;
  readonly upstream: Upstream;
  readonly state: ProxyState;
  readonly observe: Observe;
  readonly gate: Gate;
  /** The session was begun with a lock_timeout that is not the client's. */
  readonly lockTimeoutGiven: boolean;
  /** Its transactions are read-only, but for statements that the gate excepts. */
  readonly readOnly: boolean;
  readonly who: Pick<Intent, 'session' | 'user' | 'database'>;
}

/** The part of a session that both protocols share, the simple and the extended: sending, and the gate's decisions. */
export class SessionContext {
  readonly requests = new RequestQueue();
  readonly transaction: SessionTransaction;
  readonly relay: ResponseRelay;
  readonly #parts: SessionParts;
  readonly #server: Socket;
  readonly #outbox: WriteBuffer;
  #flushing = false;
  #waiting = new AbortController();

  constructor(parts: SessionParts) {
    const { client, upstream, state, who, gate, readOnly } = parts;
    this.#parts = parts;
    this.#server = upstream.socket;
    this.#outbox = new WriteBuffer(upstream.socket);
    this.transaction = new SessionTransaction(state, who.session, upstream.pid, who.database);
    const completed: Gate['completed'] = (tag, parsed) => gate.completed?.(tag, parsed);
    this.relay = new ResponseRelay(client, upstream, this.requests, this.transaction, completed, readOnly);
  }

  /** The gate may have a statement sent again. */
  get retries(): boolean {
    return this.#parts.gate.after !== undefined && !this.exact;
  }

  /** Statements are reported. */
  get observes(): boolean {
    return this.#parts.observe !== 'off';
  }

  /** Neither a transaction nor anything unanswered: what comes next begins a transaction. */
  get idle(): boolean {
    return this.transaction.idle && !this.requests.busy;
  }

  /** Statements may be taken apart and held back. */
  get exact(): boolean {
    return this.#parts.observe === 'exact' && this.readsAlike;
  }

  /** The server reads texts as the parser does here. */
  get readsAlike(): boolean {
    return (
      this.relay.parameter('client_encoding') === 'UTF8' &&
      this.relay.parameter('standard_conforming_strings') === 'on'
    );
  }

  get #knowsNewerGrammar(): boolean {
    return Number.parseInt(this.relay.parameter('server_version') ?? '', 10) >= 19;
  }

  /** Reads the locks of what has ended before something is sent that could change or release them. */
  async readLocks(): Promise<void> {
    if (this.exact) await this.transaction.readLocks();
  }

  /** Asks the server to cancel what it runs for this session. */
  cancel(): void {
    // No client waits for a cancel request, which never rejects.
    void this.#parts.upstream.cancel();
  }

  /** The client asks for a cancel, or has gone: whoever waits on its behalf need not wait any more. */
  interrupt(): void {
    this.#waiting.abort();
    this.#waiting = new AbortController();
  }

  /** Waits until the gate lets a transaction begin. @returns the client's error if it asked for a cancel in the meantime. */
  async waitToBegin(): Promise<PostgresError | undefined> {
    const { signal } = this.#waiting;
    await this.#parts.gate.between?.(signal);
    return signal.aborted ? CANCELED : undefined;
  }

  /** Tells whether a transaction that has failed with this statement is to be sent again as a whole. */
  async mayRetry(intent: Intent, attempt: Omit<StatementAttempt, 'signal'>): Promise<boolean> {
    const { signal } = this.#waiting;
    const answer = await this.#parts.gate.after?.(intent, { ...attempt, signal });
    return answer === 'retry' && !signal.aborted && !this.requests.lost;
  }

  /** Tells whether the statement runs without the lock_timeout that the session was given. */
  runsWithoutLockTimeout(intent: Intent): boolean {
    return this.#parts.lockTimeoutGiven && this.#parts.gate.waitsForLocks?.(intent) === true;
  }

  /** The session's transactions are read-only, but for statements that the gate excepts. */
  get readOnly(): boolean {
    return this.#parts.readOnly;
  }

  /** Tells whether the statement may write, though the session is read-only. */
  mayWrite(intent: Intent): boolean {
    return this.readOnly && this.#parts.gate.mayWrite?.(intent) === true;
  }

  /** Ends the connection to the server, since the session might not be read-only any more. */
  breakOff(): void {
    this.#server.destroy();
  }

  /** Describes a statement to the gate. */
  intent(sql: string, parsed: ParsedStatement | null): Intent {
    // Each by its name: it is made for every statement, and a spread takes a microsecond.
    const { session, user, database } = this.#parts.who;
    return { session, user, database, sql, parsed };
  }

  /** Parses a text, which is the client's own unless the gate puts another one in its place. */
  async parse(text: Buffer): Promise<{ text: Buffer; statements: readonly ParsedStatement[] | null }> {
    const read = await parseText(text);
    const statements = read?.some(({ newer }) => newer) && !this.#knowsNewerGrammar ? null : read;
    const other = statements
      ? await this.#parts.gate.translate?.(text.toString(), withoutRepetitions(statements))
      : undefined;
    if (other === undefined) return { text, statements };
    const translated = Buffer.from(other);
    return { text: translated, statements: await parseText(translated) };
  }

  /**
   * Returns what the parser said of DML with this normalised text, if it need not be parsed and checked again: the gate let it
   * through, and, in an exact observation, its locks are known.
   */
  repetition(normalised: string | null | undefined): ParsedStatement | undefined {
    if (this.exact) return this.transaction.repetition(normalised);
    return normalised == null || this.retries || !this.readsAlike
      ? undefined
      : this.transaction.dml.get(normalised)?.parsed;
  }

  /** Returns the gate's refusal, or undefined if the statement may run. */
  async refusal(sql: string, parsed: ParsedStatement | null): Promise<PostgresError | undefined> {
    const answer = await this.#parts.gate.before(this.intent(sql, parsed));
    if (answer !== 'run') return answer;
    if (parsed?.shape != null && !this.exact)
      this.#parts.state.keepDml(this.transaction.dml, parsed.shape, { parsed, locks: null });
    return undefined;
  }

  /** Sends to the server, at its pace; what is sent before anything is waited for goes as one. */
  async send(bytes: Buffer): Promise<void> {
    const server = this.#server;
    this.queue(bytes);
    if (this.#outbox.waitingBytes < server.writableHighWaterMark) return;
    this.flush();
    if (!server.writableNeedDrain || server.destroyed) return;
    await new Promise<void>((resolve) => {
      const settle = () => {
        server.off('drain', settle).off('close', settle);
        resolve();
      };
      server.on('drain', settle).on('close', settle);
    });
  }

  /** Has these pieces of the client's taken again. */
  putBack(pieces: readonly Piece[]): void {
    this.#parts.reader.putBack(pieces);
  }

  /** Waits for the answers to messages that no Sync follows: if one of them fails, the server skips what is sent up to a Sync. */
  async answeredUnsynced(): Promise<void> {
    if (this.transaction.skipping) return;
    await this.send(FLUSH);
    await this.requests.drained();
  }

  /** Sends a few bytes together with what follows. */
  queue(bytes: Buffer): void {
    this.#outbox.add(bytes);
    if (this.#flushing) return;
    this.#flushing = true;
    process.nextTick(() => this.flush());
  }

  /** Sends what waits; to be called before the connection is ended. */
  flush(): void {
    this.#flushing = false;
    this.#outbox.flush();
  }

  /** Waits for the end of a request; if the server asks for copied data in it, the client's data goes there in the meantime. */
  async outcome(pending: PendingRequest, protocol: 'simple' | 'extended'): Promise<RequestState> {
    let state = await this.requests.settled(pending);
    while (state === 'open') {
      await this.#copyIn(protocol);
      state = await this.requests.settled(pending);
    }
    return state;
  }

  /**
   * While the server copies in, it ignores Flush and Sync, which therefore go on as any other message does; in the
   * extended protocol the answer to the end of the data must be asked for. An error ends the copying; data that the
   * client sends behind one, the server drops.
   */
  async #copyIn(protocol: 'simple' | 'extended'): Promise<void> {
    const { requests } = this;
    const { reader } = this.#parts;
    const ended = requests.copyInEnded();
    while (requests.copyingIn) {
      await Promise.race([reader.ready(), ended]);
      if (!requests.copyingIn) return;
      const piece = reader.take();
      if (!piece) {
        // The client has gone in the middle of its data, which the server must not take for the end.
        this.#server.destroy();
        this.relay.lose();
        return;
      }
      await this.send(piece.bytes);
      if (piece.kind === 'slice' || (piece.type !== CLIENT.copyDone && piece.type !== CLIENT.copyFail))
        continue;
      requests.endCopyIn();
      if (protocol === 'extended') await this.send(FLUSH);
    }
  }
}
