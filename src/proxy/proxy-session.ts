import { setTimeout as pause } from 'node:timers/promises';
import { type Piece, ProtocolError } from '../postgres/protocol/frames.ts';
import { CLIENT, errorResponse, functionOf } from '../postgres/protocol/messages.ts';
import { probeClient } from './client-probe.ts';
import { ExtendedProtocol } from './extended.ts';
import { LargeText } from './large-text.ts';
import { SessionContext, type SessionParts } from './session-context.ts';
import { REFUSED, SimpleProtocol } from './simple.ts';
import { StatementSequence } from './statement-sequence.ts';

const PROTOCOL_VIOLATION = '08P01';
const CANCEL_INTERVAL_MS = 100;

/**
 * One client and its backend, from the greeting to the end of either.
 *
 * The client's messages are taken one at a time. Each is sent on and becomes a pending request (request-queue.ts); the
 * server's answers go back as they come (response-relay.ts). How the next message is served depends on the session's
 * state (session-transaction.ts):
 *
 *   idle       A Query is split into segments and served to its end (simple.ts).
 *   unsynced   An Execute is waited for, so that its locks can be read before anything else happens; a Sync waits for
 *              ReadyForQuery (extended.ts). A repetition of DML that was observed is not waited for.
 *   skipping   Nothing is waited for, or it would be for ever.
 *   copying    The server takes data, and ignores Flush and Sync: the client's messages go through until its data ends,
 *              and nothing is owed but the COPY's completion.
 *   lost       What the server said last goes to the client, then the connection is closed.
 *
 * Messages that the client sends while an answer is waited for stay in the reader, which pauses the socket when it is much.
 * A client that ends its half still gets its answers; one that is gone altogether has its statement cancelled.
 */
export class ProxySession {
  readonly #parts: SessionParts;
  readonly #context: SessionContext;
  readonly #simple: SimpleProtocol;
  readonly #extended: ExtendedProtocol;
  #largeText: LargeText | undefined;
  /** A message is being checked, and will be sent. */
  #taking = false;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.#context = new SessionContext(parts);
    this.#simple = new SimpleProtocol(this.#context);
    this.#extended = new ExtendedProtocol(this.#context);
  }

  /** Serves the client until it or the server goes. Never rejects. */
  async run(): Promise<void> {
    const { client, reader, upstream } = this.#parts;
    const { requests, relay, transaction } = this.#context;
    upstream.socket.on('close', () => this.#serverGone());
    upstream.socket.on('error', () => {});
    client.on('end', () => probeClient(client, upstream, () => this.#mayAnswer()));
    client.on('close', () => this.#clientGone());
    relay.listen(upstream.reader);
    if (upstream.socket.destroyed) this.#serverGone();
    try {
      for (let piece = await reader.next(); piece && !requests.lost; piece = await reader.next()) {
        this.#taking = true;
        await this.#take(piece);
        this.#taking = false;
      }
      await requests.drained();
    } catch (error) {
      this.#refuse(error);
    }
    await this.#end();
    await transaction.locks.settled();
  }

  /** For so long the server had statements of the client to work on, and none of ours; in milliseconds. */
  get workedMs(): number {
    const { requests, transaction } = this.#context;
    return requests.clock.busyMs - requests.clock.elsewhereMs - transaction.undoneMs;
  }

  /** Cancels what the session runs, because the client asks for it over another connection. */
  async cancel(): Promise<void> {
    this.#simple.cancelRequested();
    this.#context.interrupt();
    await this.#parts.upstream.cancel();
  }

  /**
   * Gives the server up that does not answer any more, after the client has gone: nothing more is sent there, not even
   * what the network has kept back so far.
   */
  abandon(): void {
    this.#parts.upstream.socket.resetAndDestroy();
  }

  async #take(piece: Piece): Promise<void> {
    const { requests } = this.#context;
    this.#readLarge(piece);
    if (piece.kind !== 'slice' && ExtendedProtocol.serves(piece.type))
      return await this.#extended.take(piece);
    if (this.#extended.gathers) return await this.#extended.takeOneByOne(piece);
    // Copied data, or the rest of a message that was too large to be held.
    if (piece.kind === 'slice') return await this.#context.send(piece.bytes);
    switch (piece.type) {
      case CLIENT.query:
        return await this.#simple.query(piece);
      case CLIENT.functionCall:
        return await this.#callFunction(piece);
      case CLIENT.copyDone:
      case CLIENT.copyFail:
        requests.endCopyIn();
        break;
      default:
        break;
    }
    await this.#context.send(piece.bytes);
  }

  /** Reads a text that is sent on before it is complete. @throws ProtocolError if the gate refuses it. */
  #readLarge(piece: Piece): void {
    if (piece.kind === 'slice') {
      this.#largeText?.take(piece.bytes);
      return;
    }
    this.#largeText = undefined;
    const { gate, who } = this.#parts;
    const isText = piece.type === CLIENT.query || piece.type === CLIENT.parse;
    if (piece.kind !== 'head' || !isText || gate.open) return;
    const text = gate.unread?.(who.database);
    if (text) this.#largeText = new LargeText(text, piece);
  }

  /** Serves the fast path, which calls a function by its OID. */
  async #callFunction(piece: Exclude<Piece, { kind: 'slice' }>): Promise<void> {
    const { requests, transaction } = this.#context;
    if (transaction.unsynced) await this.#context.answeredUnsynced();
    if (transaction.skipping) return await this.#context.send(piece.bytes);
    transaction.synced();
    await requests.drained();
    // Its end is that of a transaction.
    if (!transaction.inBlock) await this.#context.readLocks();
    const oid = functionOf(piece.bytes);
    const answer = this.#parts.gate.calls?.(oid, this.#parts.who.database) ?? 'run';
    const sql = `[a call of the function with OID ${oid}]`;
    const statements = new StatementSequence(transaction, [
      { sql, note: 'function call', parsed: null, sent: 'through' },
    ]);
    if (answer === 'run') {
      requests.expect({ endsWith: 'ready', relay: 'whole', statements });
      return await this.#context.send(piece.bytes);
    }
    // Its arguments are still to come, and nothing else can be read before them.
    if (piece.kind === 'head') throw new ProtocolError(answer.message);
    requests.expect({ endsWith: 'ready', relay: 'whole', statements, replacesError: errorResponse(answer) });
    await this.#context.send(REFUSED);
  }

  /** The stream cannot be read on: whatever it was meant to be, it must not reach the server. */
  #refuse(error: unknown): void {
    const { client } = this.#parts;
    const message =
      error instanceof ProtocolError ? error.message : `The connection failed: ${String(error)}`;
    if (client.writable)
      client.write(errorResponse({ severity: 'FATAL', sqlstate: PROTOCOL_VIOLATION, message }));
  }

  async #end(): Promise<void> {
    const { client, upstream } = this.#parts;
    this.#context.flush();
    client.end();
    const { socket } = upstream;
    const closed = socket.closed ? undefined : new Promise<void>((resolve) => socket.once('close', resolve));
    socket.end();
    await closed;
  }

  #serverGone(): void {
    this.#context.relay.lose();
    this.#context.transaction.lost();
    this.#parts.client.end();
  }

  #mayAnswer(): 'yes' | 'later' | 'no' {
    if (this.#context.requests.busy) return 'yes';
    return this.#taking ? 'later' : 'no';
  }

  /** A request that overtakes its statement is lost, so it is made until the server has nothing left to do. */
  async #cancelToTheEnd(): Promise<void> {
    const { upstream } = this.#parts;
    while (this.#context.requests.busy && !upstream.socket.closed) {
      await upstream.cancel();
      await pause(CANCEL_INTERVAL_MS, undefined, { ref: false });
    }
  }

  /** No client waits for what the server still does, and it would hold its locks to the end of it. */
  #clientGone(): void {
    const { upstream } = this.#parts;
    this.#context.interrupt();
    // It never rejects, and ends with the connection to the server, which the session waits for.
    void this.#cancelToTheEnd();
    // What the client did not take any more must be read all the same, up to the end of the connection.
    upstream.socket.resume();
    this.#context.flush();
    upstream.socket.end();
  }
}
