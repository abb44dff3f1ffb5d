import type { Socket } from 'node:net';
import type { PieceReader } from '../postgres/protocol/frame-reader.ts';
import { CLIENT, FLUSH, type PostgresError } from '../postgres/protocol/messages.ts';
import { WriteBuffer } from '../postgres/protocol/write-buffer.ts';
import { type ParsedStatement, parseText, withoutRepetitions } from '../postgres/sql/parse.ts';
import type { Gate, Intent, Observe, StatementAttempt } from './observed.ts';
import type { Pending, RequestState } from './pending-request.ts';
import type { ResponseRelay } from './response-relay.ts';
import type { StatementRecorder } from './statement-recorder.ts';

const CANCELED: PostgresError = {
  sqlstate: '57014',
  message: 'canceling statement due to user request',
};

/** What both protocols, the simple and the extended, share of one session. */
export class SessionContext {
  readonly reader: PieceReader;
  readonly server: Socket;
  readonly exchange: ResponseRelay;
  readonly recorder: StatementRecorder;
  /** Asks the server to cancel what it runs for this session. */
  readonly cancel: () => void;
  readonly #observe: Observe;
  readonly #gate: Gate;
  readonly #outbox: WriteBuffer;
  #flushing = false;
  #waiting = new AbortController();
  readonly #given: boolean;
  readonly #who: Pick<Intent, 'session' | 'user' | 'database'>;

  constructor(parts: {
    reader: PieceReader;
    server: Socket;
    exchange: ResponseRelay;
    recorder: StatementRecorder;
    cancel: () => void;
    observe: Observe;
    gate: Gate;
    /** The session was begun with a lock_timeout that is not the client's. */
    lockTimeoutGiven: boolean;
    who: Pick<Intent, 'session' | 'user' | 'database'>;
  }) {
    this.reader = parts.reader;
    this.server = parts.server;
    this.#outbox = new WriteBuffer(parts.server);
    this.exchange = parts.exchange;
    this.recorder = parts.recorder;
    this.cancel = parts.cancel;
    this.#observe = parts.observe;
    this.#gate = parts.gate;
    this.#given = parts.lockTimeoutGiven;
    this.#who = parts.who;
  }

  /** The gate may have a statement sent again. */
  get retries(): boolean {
    return this.#gate.after !== undefined && !this.exact;
  }

  /** Neither a transaction nor anything unanswered: what comes next begins a transaction. */
  get between(): boolean {
    const { exchange } = this;
    return exchange.status === 'I' && !exchange.busy && !exchange.unsynced && !exchange.skipping;
  }

  /** The client asks for a cancel, or has gone: whoever waits on its behalf need not wait any more. */
  interrupt(): void {
    this.#waiting.abort();
    this.#waiting = new AbortController();
  }

  /** Waits for leave to begin a transaction. @returns what the client is told where it asked for a cancel meanwhile. */
  async pass(): Promise<PostgresError | undefined> {
    const { signal } = this.#waiting;
    await this.#gate.between?.(signal);
    return signal.aborted ? CANCELED : undefined;
  }

  /** Of a statement that has failed, and with it a transaction that is to be sent again as a whole. */
  async again(intent: Intent, attempt: Omit<StatementAttempt, 'signal'>): Promise<boolean> {
    const { signal } = this.#waiting;
    const answer = await this.#gate.after?.(intent, { ...attempt, signal });
    return answer === 'retry' && !signal.aborted && !this.exchange.lost;
  }

  /** Whether the statement runs without the lock_timeout that the session was given. */
  waitsForLocks(intent: Intent): boolean {
    return this.#given && this.#gate.waitsForLocks?.(intent) === true;
  }

  intent(sql: string, parsed: ParsedStatement | null): Intent {
    return { ...this.#who, sql, parsed };
  }

  /** Whether statements may be taken apart and held back. */
  get exact(): boolean {
    return this.#observe === 'exact' && this.readsAlike;
  }

  /** Whether the server reads texts as the parser does here. */
  get readsAlike(): boolean {
    const { exchange } = this;
    return (
      exchange.parameter('client_encoding') === 'UTF8' &&
      exchange.parameter('standard_conforming_strings') === 'on'
    );
  }

  /** The statements of a text, which is the client's own unless the gate puts another one in its place. */
  async read(text: Buffer): Promise<{ text: Buffer; statements: readonly ParsedStatement[] | null }> {
    const statements = await parseText(text);
    const other = statements
      ? await this.#gate.translate?.(text.toString(), withoutRepetitions(statements))
      : undefined;
    if (other === undefined) return { text, statements };
    const translated = Buffer.from(other);
    return { text: translated, statements: await parseText(translated) };
  }

  /** The gate's refusal, or undefined when the statement may run. */
  async refusal(sql: string, parsed: ParsedStatement | null): Promise<PostgresError | undefined> {
    const answer = await this.#gate.before(this.intent(sql, parsed));
    return answer === 'run' ? undefined : answer;
  }

  /** Sends to the server, at its pace; what is sent before anything is waited for goes as one. */
  async send(bytes: Buffer): Promise<void> {
    const { server } = this;
    this.#outbox.add(bytes);
    if (!this.#flushing) {
      this.#flushing = true;
      process.nextTick(() => this.flush());
    }
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

  /** At the latest before the connection is ended. */
  flush(): void {
    this.#flushing = false;
    this.#outbox.flush();
  }

  /** The end of a turn; where the server asks for copied data in it, the client's data goes there meanwhile. */
  async outcome(pending: Pending, protocol: 'simple' | 'extended'): Promise<RequestState> {
    let state = await this.exchange.settled(pending);
    while (state === 'open') {
      await this.#copyIn(protocol);
      state = await this.exchange.settled(pending);
    }
    return state;
  }

  /**
   * While the server copies in, it ignores Flush and Sync, which therefore go on as any other message does; in the
   * extended protocol the answer to the end of the data must be asked for. An error ends the copying; what the
   * client sends of its data behind one, the server drops.
   */
  async #copyIn(protocol: 'simple' | 'extended'): Promise<void> {
    const { exchange, reader } = this;
    const over = exchange.copyOver();
    while (exchange.copyingIn) {
      await Promise.race([reader.ready(), over]);
      if (!exchange.copyingIn) return;
      const piece = reader.take();
      if (!piece) {
        // The client has gone in the middle of its data, which the server must not take for the end.
        this.server.destroy();
        exchange.lose();
        return;
      }
      await this.send(piece.bytes);
      if (piece.kind === 'slice' || (piece.type !== CLIENT.copyDone && piece.type !== CLIENT.copyFail))
        continue;
      exchange.copyEnded();
      if (protocol === 'extended') await this.send(FLUSH);
    }
  }
}
