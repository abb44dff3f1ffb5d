import type { Socket } from 'node:net';
import type { PieceReader } from '../postgres/protocol/frame-reader.ts';
import type { Piece } from '../postgres/protocol/frames.ts';
import {
  commandTag,
  errorFields,
  movePosition,
  parameterStatus,
  SERVER,
  transactionStatus,
  withHint,
} from '../postgres/protocol/messages.ts';
import { WriteBuffer } from '../postgres/protocol/write-buffer.ts';
import { DeferredFrames, type HeldResponse } from './held-response.ts';
import type { Gate } from './observed.ts';
import type { PendingRequest, RequestQueue, ServerRequest } from './request-queue.ts';
import type { SessionTransaction } from './session-transaction.ts';

const READ_ONLY_TRANSACTION = '25006';
const WHY_READ_ONLY =
  'In a rehearsal safemigrate makes sessions in other databases than the rehearsed one read-only. Databases that the command makes can be ' +
  'made, changed and dropped from there, outside of a transaction block.';

/** The last answers to Parse, Bind, Close and Describe. */
const ACKNOWLEDGEMENTS: ReadonlySet<number> = new Set([
  SERVER.parseComplete,
  SERVER.bindComplete,
  SERVER.closeComplete,
  SERVER.noData,
  SERVER.rowDescription,
]);

/**
 * The server's half of a session: relays the answers to the client, and notifies the transaction of completions, errors and
 * ReadyForQuery. Frames go to the client as they came, except those that the request being answered keeps from it.
 */
export class ResponseRelay {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #requests: RequestQueue;
  readonly #transaction: SessionTransaction;
  readonly #outbox: WriteBuffer;
  readonly #parameters: Map<string, string>;
  readonly #deferred = new DeferredFrames();
  readonly #onCompleted: Gate['completed'];
  readonly #readOnly: boolean;

  constructor(
    client: Socket,
    upstream: { readonly socket: Socket; readonly parameters: ReadonlyMap<string, string> },
    requests: RequestQueue,
    transaction: SessionTransaction,
    onCompleted: Gate['completed'],
    readOnly: boolean,
  ) {
    this.#onCompleted = onCompleted;
    this.#readOnly = readOnly;
    this.#client = client;
    this.#server = upstream.socket;
    this.#parameters = new Map(upstream.parameters);
    this.#requests = requests;
    this.#transaction = transaction;
    this.#outbox = new WriteBuffer(client);
  }

  /** Relays what the server sends from now on. */
  listen(reader: PieceReader): void {
    reader.listen((pieces) => this.#relay(pieces));
  }

  /** Returns the server's last ParameterStatus of this name. */
  parameter(name: string): string | undefined {
    return this.#parameters.get(name);
  }

  /** Sends the client the completion that was held; more of its text follows. */
  releaseCompletion(): void {
    this.#forward(...this.#deferred.takeCompletion());
    this.#outbox.flush();
  }

  /** Ends a text that was sent in parts. The client gets the held completion only if its transaction has `committed`. */
  concludeText(committed: boolean): void {
    this.#forward(...this.#deferred.conclude(committed, this.#transaction.status));
    this.#outbox.flush();
  }

  /** Sends the client what is no part of a held answer, whatever becomes of the answer. */
  releaseAsides(held: HeldResponse): void {
    this.#forward(...held.takeAsides());
    this.#outbox.flush();
  }

  /** Sends the client a held error after all, with what was held before it. */
  deliverHeld({ request }: PendingRequest): void {
    const { held } = request;
    if (!held?.error) return;
    const { error, ready, status } = held;
    this.#forward(...held.release());
    this.#notifyFailed(request, error);
    if (status) this.#transaction.ready(status);
    this.#forward(...this.#deferred.takeAll());
    if (ready) this.#forward(ready);
    this.#outbox.flush();
  }

  /** The connection to the server is gone. */
  lose(): void {
    this.#forward(...(this.#held?.release() ?? []));
    this.#outbox.flush();
    this.#requests.lose();
  }

  #relay(pieces: Iterable<Piece>): void {
    try {
      for (const piece of pieces) {
        if (piece.kind === 'slice') this.#slice(piece.bytes);
        else (this.#handlers.get(piece.type) ?? this.#preliminary)(piece.bytes);
      }
    } finally {
      this.#requests.clock.settle();
      this.#outbox.flush();
    }
    if (!this.#client.writableNeedDrain) return;
    this.#server.pause();
    this.#client.once('drain', () => this.#server.resume());
  }

  /** All other types precede rows or a completion: ParseComplete, BindComplete, RowDescription, … */
  readonly #handlers: ReadonlyMap<number, (bytes: Buffer) => void> = new Map([
    [SERVER.commandComplete, (bytes) => this.#completed(bytes, commandTag(bytes))],
    [SERVER.emptyQuery, (bytes) => this.#completed(bytes, null)],
    [SERVER.functionCallResponse, (bytes) => this.#completed(bytes, null)],
    [SERVER.portalSuspended, (bytes) => this.#suspended(bytes)],
    [SERVER.errorResponse, (bytes) => this.#failed(bytes)],
    [SERVER.noticeResponse, (bytes) => this.#notice(bytes)],
    [SERVER.parameterStatus, (bytes) => this.#parameter(bytes)],
    [SERVER.notification, (bytes) => this.#asynchronous(bytes)],
    [SERVER.copyInResponse, (bytes) => this.#copyIn(bytes)],
    [SERVER.copyBothResponse, (bytes) => this.#copyIn(bytes)],
    [SERVER.copyOutResponse, (bytes) => this.#copyOut(bytes)],
    [SERVER.readyForQuery, (bytes) => this.#ready(bytes)],
  ]);

  /** Rows, and copied data. */
  #slice(bytes: Buffer): void {
    if (this.#held) this.#forward(...this.#held.slice(bytes));
    else if (this.#part !== 'own') this.#forward(bytes);
  }

  readonly #preliminary = (bytes: Buffer): void => {
    if (this.#held) this.#forward(...this.#held.preliminary(bytes));
    else if (this.#part !== 'own') this.#passOn(bytes);
    if (this.#request?.endsWith === 'acknowledgement' && ACKNOWLEDGEMENTS.has(bytes[0] ?? 0))
      this.#requests.end('succeeded');
  };

  #copyOut(bytes: Buffer): void {
    if (this.#held) this.#forward(...this.#held.copyOut(bytes));
    else this.#preliminary(bytes);
  }

  #completed(bytes: Buffer, tag: string | null): void {
    const pending = this.#requests.current;
    if (this.#held) this.#forward(...this.#held.result(bytes));
    else if (this.#part === 'last') this.#forward(...this.#deferred.replaceCompletion(bytes));
    else if (this.#part === 'inner' || this.#part === 'whole') this.#forward(bytes);
    if (!pending) return;
    pending.tag = tag;
    if (tag !== null) this.#onCompleted?.(tag, pending.request.statements?.current?.parsed ?? null);
    this.#chargeCurrent();
    pending.request.statements?.completed(tag);
    if (pending.request.endsTransaction) this.#transaction.completed(tag);
    if (pending.request.endsWith === 'completion') this.#requests.end('succeeded');
  }

  #suspended(bytes: Buffer): void {
    this.#forward(...(this.#held?.result(bytes) ?? [bytes]));
    this.#chargeCurrent();
    this.#request?.statements?.suspended(this.#request.limit ?? 0);
    if (this.#request?.endsWith === 'completion') this.#requests.end('succeeded');
  }

  #failed(bytes: Buffer): void {
    const pending = this.#requests.current;
    if (pending) pending.erred = true;
    if (this.#held?.keepError(bytes)) {
      this.#chargeCurrent();
      return;
    }
    this.#forward(...(this.#held?.release() ?? []));
    this.#requests.endCopyIn();
    this.#relayError(pending, bytes);
    if (this.#transaction.unsynced && !this.#requests.endsReady) this.#transaction.failedUnsynced();
    this.#requests.skipToReady();
  }

  #relayError(pending: PendingRequest | undefined, bytes: Buffer): void {
    const request = pending?.request;
    const refusal = request?.replacesError ?? this.#requests.refusalAhead;
    const moved = refusal ?? movePosition(bytes, request?.positionOffset?.() ?? 0);
    const isOurs = this.#readOnly && errorFields(moved).get('C') === READ_ONLY_TRANSACTION;
    const error = isOurs ? withHint(moved, WHY_READ_ONLY) : moved;
    const fields = errorFields(error);
    if (pending && request?.hidesError?.(fields.get('C') ?? '')) {
      pending.errorHidden = true;
      request.statements?.undo();
      return;
    }
    this.#notifyFailed(request, fields);
    this.#passOn(error);
  }

  #notifyFailed(request: ServerRequest | undefined, fields: ReadonlyMap<string, string>): void {
    const { begunAhead } = this.#requests;
    const ms = this.#requests.worked();
    if (request?.statements) {
      request.statements.worked(ms);
      request.statements.failed(fields);
    } else if (request?.prepares && begunAhead?.executes(request.prepares)) {
      begunAhead.worked(ms);
      begunAhead.failed(fields);
    } else {
      // The server skips it.
      begunAhead?.undo();
      if (request?.prepares) this.#transaction.failPreparing(request.prepares, fields, ms);
      else this.#transaction.failAtEnd(fields, ms);
    }
  }

  /** The server has ended something of the statement that runs. */
  #chargeCurrent(): void {
    const statements = this.#request?.statements;
    if (statements?.current) statements.worked(this.#requests.worked());
  }

  #notice(bytes: Buffer): void {
    const moved = movePosition(bytes, this.#request?.positionOffset?.() ?? 0);
    const fields = errorFields(bytes);
    if (fields.get('V') === 'WARNING') this.#request?.statements?.warned(fields);
    if (this.#held) this.#forward(...this.#held.aside(moved));
    else this.#passOn(moved);
  }

  #parameter(bytes: Buffer): void {
    const { name, value } = parameterStatus(bytes);
    this.#parameters.set(name, value);
    this.#asynchronous(bytes);
  }

  /** A ParameterStatus or a notification, which belong to no request. */
  #asynchronous(bytes: Buffer): void {
    if (this.#held) this.#forward(...this.#held.aside(bytes));
    else if (this.#part === 'whole') this.#forward(bytes);
    else this.#deferred.defer(bytes);
  }

  #copyIn(bytes: Buffer): void {
    this.#forward(...(this.#held?.release() ?? []));
    this.#passOn(bytes);
    this.#requests.beginCopyIn();
  }

  #ready(bytes: Buffer): void {
    this.#requests.endCopyIn();
    this.#requests.skipToReady();
    const pending = this.#requests.current;
    if (this.#held?.error) {
      this.#held.keepReady(bytes);
      this.#requests.end('failed');
      return;
    }
    this.#forward(...(this.#held?.release() ?? []));
    this.#transaction.ready(transactionStatus(bytes));
    if (this.#part === 'whole') this.#forward(...this.#deferred.takeAll(), bytes);
    this.#requests.end(pending?.erred ? 'failed' : 'succeeded');
  }

  get #request(): ServerRequest | undefined {
    return this.#requests.current?.request;
  }

  /** The held answer; if there is one, the request's part is `whole`. */
  get #held(): HeldResponse | undefined {
    return this.#request?.held;
  }

  /** The part of the answer that the client gets. */
  get #part(): ServerRequest['relay'] {
    return this.#request?.relay ?? 'whole';
  }

  /** A held completion that is followed by something of the same text was not the last. */
  #passOn(bytes: Buffer): void {
    if (this.#part === 'last') this.#forward(...this.#deferred.takeCompletion());
    this.#forward(bytes);
  }

  #forward(...frames: readonly Buffer[]): void {
    for (const bytes of frames) this.#outbox.add(bytes);
  }
}
