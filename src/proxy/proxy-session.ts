import type { Socket } from 'node:net';
import type { PieceReader } from '../postgres/protocol/frame-reader.ts';
import { type Piece, ProtocolError } from '../postgres/protocol/frames.ts';
import { CLIENT, errorResponse, parameterStatusMessage } from '../postgres/protocol/messages.ts';
import { ExtendedProtocol } from './extended.ts';
import type { Gate, Observe } from './observed.ts';
import type { ProxyState } from './proxy-state.ts';
import { ResponseRelay } from './response-relay.ts';
import { SessionContext } from './session-context.ts';
import { SimpleProtocol } from './simple.ts';
import { StatementRecorder } from './statement-recorder.ts';
import type { Upstream } from './upstream.ts';

export interface SessionParts {
  readonly client: Socket;
  readonly reader: PieceReader;
  readonly upstream: Upstream;
  readonly run: ProxyState;
  readonly observe: Observe;
  readonly gate: Gate;
  /** The session was begun with a lock_timeout that is not the client's. */
  readonly lockTimeoutGiven: boolean;
  readonly who: { readonly session: number; readonly user: string; readonly database: string };
}

const PROTOCOL_VIOLATION = '08P01';
/** A parameter that every server reports: telling its value again is a message without a meaning. */
const REPORTED = 'server_encoding';
const PROBE_INTERVAL_MS = 50;
const CANCEL_INTERVAL_MS = 100;

/**
 * One client and its backend, from the greeting to the end of either.
 *
 * The client's messages are taken one at a time. Each is sent on and becomes a *turn*: what the server still owes.
 * The server's answers go back as they come (exchange.ts). The states in which the next message is taken:
 *
 *   idle       nothing is owed. A Query is split into segments and served to its end (simple.ts).
 *   unsynced   extended messages were sent without a Sync. An Execute is waited for, so that its locks can be read
 *              before anything else happens; a Sync waits for ReadyForQuery (extended.ts). A repetition of DML that
 *              was observed is not waited for.
 *   skipping   an error came: the server ignores everything up to Sync. Nothing is waited for, or it would be for ever.
 *   copying    the server takes data, and ignores Flush and Sync: the client's messages go through until its data ends,
 *              and nothing is owed but the COPY's completion.
 *   lost       the server has gone: what it said last goes to the client, then the connection is closed.
 *
 * What the client sends while a turn is waited for stays in the reader, which pauses the socket when it is much.
 * A client that ends its half still gets its answers; one that is gone altogether has its statement cancelled.
 */
export class ProxySession {
  readonly #client: Socket;
  readonly #reader: PieceReader;
  readonly #upstream: Upstream;
  readonly #exchange: ResponseRelay;
  readonly #recorder: StatementRecorder;
  readonly #line: SessionContext;
  readonly #simple: SimpleProtocol;
  readonly #extended: ExtendedProtocol;
  /** A message is being looked at, and will be sent. */
  #taking = false;

  constructor({ client, reader, upstream, run, observe, gate, lockTimeoutGiven, who }: SessionParts) {
    this.#client = client;
    this.#reader = reader;
    this.#upstream = upstream;
    this.#recorder = new StatementRecorder(run, who.session, upstream.pid, who.database);
    this.#exchange = new ResponseRelay(
      client,
      upstream.socket,
      upstream.parameters,
      (status) => this.#recorder.status(status),
      (fields) => this.#extended.strayError(fields),
    );
    this.#line = new SessionContext({
      reader,
      server: upstream.socket,
      exchange: this.#exchange,
      recorder: this.#recorder,
      cancel: () => void upstream.cancel(),
      observe,
      gate,
      lockTimeoutGiven,
      who,
    });
    this.#simple = new SimpleProtocol(this.#line);
    this.#extended = new ExtendedProtocol(this.#line);
  }

  /** Serves the client until it or the server goes. Never rejects. */
  async run(): Promise<void> {
    const { socket, reader } = this.#upstream;
    socket.on('close', () => this.#serverGone());
    socket.on('error', () => {});
    this.#client.on('end', () => this.#probe());
    this.#client.on('close', () => this.#clientGone());
    this.#exchange.listen(reader);
    if (socket.destroyed) this.#serverGone();
    try {
      for (
        let piece = await this.#reader.next();
        piece && !this.#exchange.lost;
        piece = await this.#reader.next()
      )
        await this.#serve(piece);
      await this.#exchange.drained();
    } catch (error) {
      this.#refuse(error);
    }
    await this.#end();
    await this.#recorder.settle();
  }

  /** What the client asks for over another connection. */
  async cancel(): Promise<void> {
    this.#simple.cancelRequested();
    this.#line.interrupt();
    await this.#upstream.cancel();
  }

  /**
   * The server does not answer any more, and the client has gone: nothing more is sent there, not even what the network has
   * kept back so far.
   */
  abandon(): void {
    this.#upstream.socket.resetAndDestroy();
  }

  async #serve(piece: Piece): Promise<void> {
    this.#taking = true;
    for (const taken of await this.#extended.gather(piece)) await this.#take(taken);
    this.#taking = false;
  }

  async #take(piece: Piece): Promise<void> {
    // Copied data, or the rest of a message that was too large to be held.
    if (piece.kind === 'slice') return await this.#line.send(piece.bytes);
    switch (piece.type) {
      case CLIENT.query:
        return await this.#simple.query(piece);
      case CLIENT.parse:
        return await this.#extended.parse(piece);
      case CLIENT.bind:
        return await this.#extended.bind(piece);
      case CLIENT.execute:
        return await this.#extended.execute(piece);
      case CLIENT.close:
        return await this.#extended.close(piece);
      case CLIENT.sync:
        return await this.#extended.sync(piece);
      case CLIENT.describe:
      case CLIENT.flush:
        return await this.#extended.pass(piece);
      case CLIENT.functionCall:
        return await this.#extended.functionCall(piece);
      case CLIENT.copyDone:
      case CLIENT.copyFail:
        this.#exchange.copyEnded();
        return await this.#line.send(piece.bytes);
      default:
        return await this.#line.send(piece.bytes);
    }
  }

  /** The stream cannot be read on: whatever it was meant to be, it must not reach the server. */
  #refuse(error: unknown): void {
    const message =
      error instanceof ProtocolError ? error.message : `The connection failed: ${String(error)}`;
    if (this.#client.writable)
      this.#client.write(errorResponse({ severity: 'FATAL', sqlstate: PROTOCOL_VIOLATION, message }));
  }

  async #end(): Promise<void> {
    const { socket } = this.#upstream;
    this.#line.flush();
    this.#client.end();
    const closed = socket.closed ? undefined : new Promise<void>((resolve) => socket.once('close', resolve));
    socket.end();
    await closed;
  }

  #serverGone(): void {
    this.#exchange.lose();
    this.#recorder.lost();
    this.#client.end();
  }

  /**
   * The client sends no more. Whether somebody still listens is only to be learnt by writing, and a second time: an
   * orphaned socket answers the first with a reset, of which the next write hears.
   */
  #probe(): void {
    if (!(this.#exchange.busy || this.#taking) || !this.#client.writable) return;
    if (this.#exchange.busy && this.#upstream.reader.atBoundary)
      this.#client.write(parameterStatusMessage(REPORTED, this.#exchange.parameter(REPORTED) ?? ''));
    setTimeout(() => this.#probe(), PROBE_INTERVAL_MS).unref();
  }

  /** A request that overtakes its statement is lost, so it is made until the server has nothing left to do. */
  #cancelToTheEnd(): void {
    if (!this.#exchange.busy || this.#upstream.socket.closed) return;
    void this.#upstream
      .cancel()
      .then(() => setTimeout(() => this.#cancelToTheEnd(), CANCEL_INTERVAL_MS).unref());
  }

  /** Nobody waits for what the server still does, and it would hold its locks to the end of it. */
  #clientGone(): void {
    this.#line.interrupt();
    this.#cancelToTheEnd();
    // What the client did not take any more must be read all the same, up to the end of the connection.
    this.#upstream.socket.resume();
    this.#line.flush();
    this.#upstream.socket.end();
  }
}
