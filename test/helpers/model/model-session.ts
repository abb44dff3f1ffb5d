import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { PieceReader } from '../../../src/postgres/protocol/frame-reader.ts';
import { FROM_CLIENT, FROM_SERVER, FrameSplitter } from '../../../src/postgres/protocol/frames.ts';
import type { Gate, Observe, Observed, StatementReading } from '../../../src/proxy/observed.ts';
import { ProxySession } from '../../../src/proxy/proxy-session.ts';
import { ProxyState } from '../../../src/proxy/proxy-state.ts';
import { ModelServer } from './model-server.ts';

/** One end of a connection in memory: what is written here waits in `sent` until the test delivers it. */
class End extends Duplex {
  readonly sent: Buffer[] = [];

  constructor() {
    super({ allowHalfOpen: true, emitClose: true });
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.sent.push(chunk);
    done();
  }

  resetAndDestroy(): this {
    return this.destroy();
  }

  asSocket(): Socket {
    return this as unknown as Socket;
  }
}

/** Takes up to so many bytes from the front of a list of buffers. */
export function take(from: Buffer[], bytes: number): Buffer {
  const all = from.length === 1 && from[0] ? from[0] : Buffer.concat(from);
  from.length = 0;
  if (all.length > bytes) from.push(all.subarray(bytes));
  return all.subarray(0, bytes);
}

/** The time of performance.now() while a session runs, which goes on only between the moves, so that times can be added up. */
let nowMs = 0;
const TURN_MS = 10;

async function turn(): Promise<void> {
  await new Promise<void>((resolve) => setImmediate(resolve));
  nowMs += TURN_MS;
}

export type Lost = 'nobody' | 'client' | 'server';

export interface SessionPlan {
  /** The client's bytes, in order. */
  readonly script: Buffer;
  readonly observe: Observe;
  readonly gate: Gate;
  /** Which way is served next, and with how many bytes; when they are used up, everything goes as it comes. */
  readonly choices: readonly number[];
  /** Who goes after the choices. */
  readonly lost: Lost;
}

/** What a session of the proxy did between a client's script and a server of the model. */
export interface SessionRun {
  readonly received: Buffer;
  readonly events: readonly Observed[];
  readonly server: ModelServer;
  /** The session has ended. */
  readonly ended: boolean;
  readonly workedMs: number;
}

/** A session of the proxy, whose network, lock readings and cancel requests are moved by the test, in any order. */
export class ModelSession {
  readonly #client = new End();
  readonly #upstream = new End();
  readonly #server = new ModelServer(false);
  readonly #plan: SessionPlan;
  readonly #toClient: Buffer[] = [];
  readonly #fromClient: Buffer[];
  readonly #fromServer: Buffer[] = [];
  readonly #readings: (() => void)[] = [];
  readonly #events: Observed[] = [];
  readonly #session: ProxySession;
  #ended = false;

  constructor(plan: SessionPlan) {
    this.#plan = plan;
    this.#fromClient = [plan.script];
    this.#server.onSent = (bytes) => this.#fromServer.push(bytes);
    const parameters = ['client_encoding=UTF8', 'standard_conforming_strings=on', 'server_encoding=UTF8'];
    this.#session = new ProxySession({
      client: this.#client.asSocket(),
      reader: new PieceReader(this.#client.asSocket(), new FrameSplitter(FROM_CLIENT)),
      upstream: {
        socket: this.#upstream.asSocket(),
        reader: new PieceReader(this.#upstream.asSocket(), new FrameSplitter(FROM_SERVER)),
        greeting: [],
        parameters: new Map(parameters.map((each) => each.split('=') as [string, string])),
        pid: 1,
        key: Buffer.alloc(8),
        cancel: async () => this.#server.cancel(),
      },
      state: new ProxyState(
        (event) => this.#events.push(event),
        () => new Promise((resolve) => this.#readings.push(() => resolve(this.#reading()))),
      ),
      observe: plan.observe,
      gate: plan.gate,
      lockTimeoutGiven: false,
      readOnly: false,
      who: { session: 1, user: 'app', database: 'shop' },
    });
  }

  async run(): Promise<SessionRun> {
    const { now } = performance;
    performance.now = () => nowMs;
    try {
      return await this.#run();
    } finally {
      performance.now = now;
    }
  }

  async #run(): Promise<SessionRun> {
    const run = this.#session.run().then(() => {
      this.#ended = true;
    });
    for (const choice of this.#plan.choices) await this.#step(choice);
    if (this.#plan.lost === 'client') this.#client.destroy();
    if (this.#plan.lost === 'server') this.#upstream.destroy();
    await this.#settle();
    this.#client.destroy();
    this.#upstream.destroy();
    await this.#settle();
    const ended = this.#ended;
    if (ended) await run;
    const { workedMs } = this.#session;
    return {
      received: Buffer.concat(this.#toClient),
      events: this.#events,
      server: this.#server,
      ended,
      workedMs,
    };
  }

  /** Moves one thing on. */
  async #step(choice: number): Promise<void> {
    const bytes = choice % 7 === 0 ? 1 : choice % 7 === 1 ? 7 : choice;
    const ways = [
      () => this.#deliver(this.#fromClient, this.#client, bytes),
      () => this.#ask(bytes),
      () => this.#deliver(this.#fromServer, this.#upstream, bytes),
      () => this.#read(),
    ];
    if (choice % 31 === 0) await this.#session.cancel();
    for (let way = 0; way < ways.length; way++) if (ways[(choice + way) % ways.length]?.()) break;
    await turn();
  }

  /** Delivers everything, and cancels what sleeps, until nothing moves any more. */
  async #settle(): Promise<void> {
    for (let still = 0; still < 3; ) {
      await turn();
      const moved = [
        this.#deliver(this.#fromClient, this.#client, Number.POSITIVE_INFINITY),
        this.#ask(Number.POSITIVE_INFINITY),
        this.#deliver(this.#fromServer, this.#upstream, Number.POSITIVE_INFINITY),
        this.#read(),
      ].includes(true);
      still = moved ? 0 : still + 1;
      if (!moved && this.#server.sleeps) {
        await this.#session.cancel();
        still = 0;
      }
    }
  }

  #deliver(from: Buffer[], to: End, bytes: number): boolean {
    this.#toClient.push(...this.#client.sent.splice(0));
    if (from.length === 0 || to.destroyed) return false;
    to.push(take(from, bytes));
    return true;
  }

  /** Gives the server what the proxy has sent. */
  #ask(bytes: number): boolean {
    const { sent } = this.#upstream;
    if (sent.length > 0 && !this.#server.closed) {
      this.#server.receive(take(sent, bytes));
      return true;
    }
    if (!this.#server.closed || this.#fromServer.length > 0 || this.#upstream.destroyed) return false;
    this.#upstream.destroy();
    return true;
  }

  #read(): boolean {
    const reading = this.#readings.shift();
    reading?.();
    return reading !== undefined;
  }

  #reading(): StatementReading {
    const { locks } = this.#server;
    return { locks, xids: [], nextXid: 1, walPosition: 1, askedMs: performance.now() };
  }
}
