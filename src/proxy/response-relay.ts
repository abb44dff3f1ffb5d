import type { Socket } from 'node:net';
import type { PieceReader } from '../postgres/protocol/frame-reader.ts';
import type { Piece } from '../postgres/protocol/frames.ts';
import {
  commandTag,
  encodeMessage,
  errorFields,
  movePosition,
  parameterStatus,
  SERVER,
  type TransactionStatus,
  transactionStatus,
} from '../postgres/protocol/messages.ts';
import { WriteBuffer } from '../postgres/protocol/write-buffer.ts';
import type { Pending, PendingRequest, RequestState, Unsaid } from './pending-request.ts';

/**
 * The server's half of a session: what has been sent and is not yet answered, in order, and the relay of the answers.
 *
 * Frames go to the client as they came, but for those that a turn keeps from it. A turn that ends makes way for the
 * next. After an error the server skips everything up to the next Sync, and so do the turns up to the next `ready`.
 * ParameterStatus and notifications within a split text wait for the ReadyForQuery at its end, where the server would
 * have sent them.
 */
export class ResponseRelay {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #outbox: WriteBuffer;
  readonly #parameters: Map<string, string>;
  #pending: Pending[] = [];
  #held: Buffer | undefined;
  readonly #parametersToTell = new Map<string, Buffer>();
  #notifications: Buffer[] = [];
  #wake: (() => void) | undefined;
  #status: TransactionStatus = 'I';
  #lost = false;
  #copyingIn = false;
  readonly #onStatus: (status: TransactionStatus) => void;
  readonly #onStrayError: (fields: ReadonlyMap<string, string>) => void;

  constructor(
    client: Socket,
    server: Socket,
    parameters: ReadonlyMap<string, string>,
    onStatus: (status: TransactionStatus) => void,
    /** An error that no statement's turn is there for: of a Parse or Bind, or of the commit at a Sync. */
    onStrayError: (fields: ReadonlyMap<string, string>) => void,
  ) {
    this.#client = client;
    this.#outbox = new WriteBuffer(client);
    this.#server = server;
    this.#parameters = new Map(parameters);
    this.#onStatus = onStatus;
    this.#onStrayError = onStrayError;
  }

  /** Relays what the server sends from now on. */
  listen(reader: PieceReader): void {
    reader.listen((pieces) => this.#relay(pieces));
  }

  /** As of the last ReadyForQuery. */
  get status(): TransactionStatus {
    return this.#status;
  }

  /** Extended messages have been sent, and no Sync behind them. */
  unsynced = false;
  /** The server skips everything up to the next Sync. */
  skipping = false;

  /** The server waits for copied data. */
  get copyingIn(): boolean {
    return this.#copyingIn;
  }

  get lost(): boolean {
    return this.#lost;
  }

  /** Whether an answer is outstanding. */
  get busy(): boolean {
    return this.#pending.length > 0;
  }

  parameter(name: string): string | undefined {
    return this.#parameters.get(name);
  }

  /** To be called together with sending what the turn is about. */
  expect(turn: PendingRequest): Pending {
    const pending: Pending = {
      turn,
      state: this.#lost ? 'lost' : 'open',
      erred: false,
      unsaid: turn.keepsError ? [] : undefined,
      unsaidBytes: 0,
      kept: undefined,
    };
    if (!this.#lost) this.#pending.push(pending);
    return pending;
  }

  /** Resolves when the turn has ended, or the server waits for copied data in it: then its state is `open`. */
  async settled(pending: Pending): Promise<RequestState> {
    while (pending.state === 'open' && !this.#copyingIn) await this.#change();
    return pending.state;
  }

  /** Resolves when every turn has ended, or the server waits for copied data. */
  async drained(): Promise<void> {
    while (this.#pending.length > 0 && !this.#copyingIn) await this.#change();
  }

  /** Resolves when the server no longer waits for copied data. */
  async copyOver(): Promise<void> {
    while (this.#copyingIn) await this.#change();
  }

  /** The client has said that the copied data is complete, or has failed. */
  copyEnded(): void {
    this.#copyingIn = false;
  }

  /** The completion that was held back goes to the client; more of its text follows. */
  release(): void {
    this.#deliverHeld();
    this.#outbox.flush();
  }

  /**
   * The end of a text that was sent in parts. The completion that was held back goes to the client only if its
   * transaction has `committed`.
   */
  conclude(committed: boolean): void {
    if (committed) this.#deliverHeld();
    this.#held = undefined;
    this.#deliverDeferred();
    this.#forward(encodeMessage(SERVER.readyForQuery, this.#status));
    this.#outbox.flush();
  }

  /**
   * Of a turn whose error was kept: what is none of its answer goes to the client, whatever becomes of the rest. Values
   * of parameters are those that the session has now, behind a rollback.
   */
  tellAside(pending: Pending): void {
    for (const { bytes } of pending.unsaid?.filter(isAside) ?? []) this.#forward(bytes);
    pending.unsaid = pending.unsaid?.filter((each) => !isAside(each));
    this.#outbox.flush();
  }

  /** The error that was kept goes to the client after all, with what was unsaid before it. */
  tell(pending: Pending): void {
    const { kept } = pending;
    if (!kept) return;
    pending.kept = undefined;
    this.#say(pending);
    (pending.turn.onFailure ?? this.#onStrayError)(kept.fields);
    this.#onStatus(this.#status);
    this.#deliverDeferred();
    if (kept.ready) this.#forward(kept.ready);
    this.#outbox.flush();
  }

  /** The server's side is gone: nothing will be answered any more. */
  lose(): void {
    const [current] = this.#pending;
    if (current) this.#say(current);
    this.#outbox.flush();
    this.#lost = true;
    for (const pending of this.#pending) pending.state = 'lost';
    this.#pending = [];
    this.#copyingIn = false;
    this.#wake?.();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #relay(pieces: Iterable<Piece>): void {
    try {
      for (const piece of pieces) {
        if (piece.kind === 'slice') this.#slice(piece.bytes);
        else this.#frame(piece.type, piece.bytes);
      }
    } finally {
      this.#outbox.flush();
    }
    if (!this.#client.writableNeedDrain) return;
    this.#server.pause();
    this.#client.once('drain', () => this.#server.resume());
  }

  /** Rows, and copied data. */
  #slice(bytes: Buffer): void {
    if (this.#turn()?.relay === 'own') return;
    if (!this.#keeps(bytes, 'result', 0)) this.#forward(bytes);
  }

  /**
   * Whether the client is not told it yet; else it is told all that was kept before. A `result` cannot be taken back
   * once it is told, so with it the turn's error is no more to be kept, unless results are kept as well.
   */
  #keeps(bytes: Buffer, what: 'lead' | 'result', type = bytes[0] ?? 0): boolean {
    const pending = this.#pending[0];
    if (!pending?.unsaid) return false;
    const { keepsBytes } = pending.turn;
    pending.unsaidBytes += bytes.length;
    const tooMuch = keepsBytes === undefined ? what === 'result' : pending.unsaidBytes > keepsBytes;
    if (tooMuch && !pending.kept) {
      this.#say(pending);
      return false;
    }
    pending.unsaid.push({ type, bytes });
    return true;
  }

  /** The same of what may come at any time; told at once where nothing is unsaid: a notice of progress is of no use later. */
  #keepsAside(bytes: Buffer): boolean {
    const { unsaid, turn } = this.#pending[0] ?? {};
    return (
      unsaid !== undefined &&
      (unsaid.length > 0 || turn?.keepsBytes !== undefined) &&
      this.#keeps(bytes, 'lead')
    );
  }

  #say(pending: Pending): void {
    const { unsaid } = pending;
    pending.unsaid = undefined;
    for (const { bytes } of unsaid ?? []) this.#forward(bytes);
  }

  #forward(bytes: Buffer): void {
    this.#outbox.add(bytes);
  }

  #deliverHeld(): void {
    if (this.#held) this.#forward(this.#held);
    this.#held = undefined;
  }

  /** What the server would have said together with the last ReadyForQuery. */
  #deliverDeferred(): void {
    if (this.#notifications.length === 0 && this.#parametersToTell.size === 0) return;
    for (const frame of [...this.#notifications, ...this.#parametersToTell.values()]) this.#forward(frame);
    this.#notifications = [];
    this.#parametersToTell.clear();
  }

  #frame(type: number, bytes: Buffer): void {
    switch (type) {
      case SERVER.commandComplete:
        this.#completed(bytes, commandTag(bytes));
        break;
      case SERVER.emptyQuery:
        this.#completed(bytes, null);
        break;
      case SERVER.portalSuspended:
        this.#suspended(bytes);
        break;
      case SERVER.errorResponse:
        this.#failed(bytes);
        break;
      case SERVER.noticeResponse:
        this.#notice(movePosition(bytes, this.#turn()?.shift?.() ?? 0));
        break;
      case SERVER.parameterStatus:
        this.#parameter(bytes);
        break;
      case SERVER.notification:
        this.#notified(bytes);
        break;
      case SERVER.copyInResponse:
      case SERVER.copyBothResponse:
        this.#copyIn(bytes);
        break;
      case SERVER.readyForQuery:
        this.#ready(bytes);
        break;
      case SERVER.copyOutResponse:
        this.#copyOut(bytes);
        break;
      default:
        this.#answer(bytes);
        break;
    }
  }

  #notice(bytes: Buffer): void {
    if (!this.#keepsAside(bytes)) this.#passOn(bytes);
  }

  /** What leads to rows or a completion: ParseComplete, BindComplete, RowDescription, … */
  #answer(bytes: Buffer): void {
    if (this.#turn()?.relay === 'own') return;
    if (!this.#keeps(bytes, 'lead')) this.#passOn(bytes);
  }

  #copyOut(bytes: Buffer): void {
    const pending = this.#pending[0];
    if (pending?.turn.keepsBytes !== undefined) this.#say(pending);
    this.#answer(bytes);
  }

  #turn(): PendingRequest | undefined {
    return this.#pending[0]?.turn;
  }

  /** A completion that was held and is followed by something of the same text was not the last. */
  #passOn(bytes: Buffer): void {
    if (this.#turn()?.relay === 'last') this.#deliverHeld();
    this.#forward(bytes);
  }

  #completed(bytes: Buffer, tag: string | null): void {
    const turn = this.#turn();
    const kept = this.#keeps(bytes, 'result');
    turn?.onCompletion?.(tag);
    if (turn?.relay === 'last') {
      this.#deliverHeld();
      this.#held = bytes;
    } else if (turn?.relay !== 'own' && !kept) this.#forward(bytes);
    if (turn?.ends === 'completion') this.#end('succeeded');
  }

  #suspended(bytes: Buffer): void {
    if (!this.#keeps(bytes, 'result')) this.#forward(bytes);
    this.#turn()?.onSuspended?.();
    if (this.#turn()?.ends === 'completion') this.#end('succeeded');
  }

  #failed(bytes: Buffer): void {
    const pending = this.#pending[0];
    if (pending && this.#keep(pending, bytes)) return;
    const moved = movePosition(bytes, pending?.turn.shift?.() ?? 0);
    const told = pending?.turn.onError ? pending.turn.onError(moved) : moved;
    if (told) (pending?.turn.onFailure ?? this.#onStrayError)(errorFields(told));
    else pending?.turn.onFailure?.(errorFields(moved));
    this.#copyingIn = false;
    if (told) this.#passOn(told);
    if (this.unsynced && !this.#pending.some(({ turn }) => turn.ends === 'ready')) this.skipping = true;
    if (!pending) return;
    pending.erred = true;
    while (this.#turn()?.ends === 'completion') this.#end('failed');
    this.#wake?.();
  }

  #keep(pending: Pending, error: Buffer): boolean {
    if (pending.unsaid) {
      const fields = errorFields(error);
      if (pending.turn.keepsError?.(fields)) {
        pending.unsaid.push({ type: SERVER.errorResponse, bytes: error });
        pending.kept = { fields, ready: undefined };
        pending.erred = true;
        return true;
      }
    }
    this.#say(pending);
    return false;
  }

  #parameter(bytes: Buffer): void {
    const { name, value } = parameterStatus(bytes);
    this.#parameters.set(name, value);
    if (this.#keepsAside(bytes)) return;
    const relay = this.#turn()?.relay ?? 'whole';
    if (relay === 'whole') this.#forward(bytes);
    else this.#parametersToTell.set(name, bytes);
  }

  #notified(bytes: Buffer): void {
    if (this.#keepsAside(bytes)) return;
    if ((this.#turn()?.relay ?? 'whole') === 'whole') this.#forward(bytes);
    else this.#notifications.push(bytes);
  }

  /** What was sent behind the COPY before this, the server ignores: Sync and Flush, where clients send them ahead. */
  #copyIn(bytes: Buffer): void {
    const pending = this.#pending[0];
    if (pending) this.#say(pending);
    this.#passOn(bytes);
    this.#copyingIn = true;
    for (const ignored of this.#pending.splice(1)) ignored.state = 'succeeded';
    this.#wake?.();
  }

  #ready(bytes: Buffer): void {
    this.#copyingIn = false;
    this.#status = transactionStatus(bytes);
    while (this.#turn()?.ends === 'completion') this.#end('failed');
    const pending = this.#pending[0];
    if (pending?.kept) {
      pending.kept.ready = bytes;
      this.#end('failed');
      return;
    }
    if (pending) this.#say(pending);
    this.#onStatus(this.#status);
    if ((pending?.turn.relay ?? 'whole') === 'whole') {
      this.#deliverDeferred();
      this.#forward(bytes);
    }
    if (pending) this.#end(pending.erred ? 'failed' : 'succeeded');
  }

  #end(state: RequestState): void {
    const pending = this.#pending.shift();
    if (pending) pending.state = state;
    this.#wake?.();
  }
}

function isAside({ type }: Unsaid): boolean {
  return type === SERVER.parameterStatus || type === SERVER.notification;
}
