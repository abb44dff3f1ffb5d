import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/**
 * What becomes of the frontend message: passed on; kept, with all that follows on any connection; lost with its connection,
 * the others stay; or passed on and answered, and the answer is lost with its connection.
 */
export type Decision = 'forward' | 'hold' | 'cut' | Unheard;

export interface Unheard {
  /** Called when the server has answered, before the connection ends. */
  readonly onAnswer: () => Promise<void> | void;
}

/** @param index of the request, on all connections together. While it is waited for, its connection waits. */
export type Decide = (index: number, text: string) => Decision | Promise<Decision>;

export interface Relay {
  readonly port: number;
  /** The text of each request so far: SQL, `startup`, `cancel` or `terminate`. */
  readonly requests: string[];
  /** Connects whoever comes from now on to another server; those that are connected stay. */
  leadTo(serverUrl: string): void;
  /** Idempotent. */
  close(): Promise<void>;
}

const CANCEL_REQUEST = 80877102;
const STARTUP_VERSION = 196608;

/** A TCP relay before a server, which asks at each request of the client what is to become of it. No TLS. */
export async function startRelay(
  serverUrl: string,
  decide: Decide = () => 'forward',
  listen = '127.0.0.1',
): Promise<Relay> {
  let { hostname, port } = new URL(serverUrl);
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  let frozen = false;

  const serve = (client: Socket) => {
    const upstream = connect({ host: hostname, port: Number(port) });
    for (const [socket, peer] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('end', () => peer.end());
      socket.on('close', () => {
        sockets.delete(socket);
        peer.destroy();
      });
    }
    let unheard: Unheard | undefined;
    upstream.on('data', async (chunk) => {
      if (unheard) {
        await unheard.onAnswer();
        client.destroy();
      } else if (!frozen) client.write(chunk);
    });
    let buffer = Buffer.alloc(0);
    let [started, deciding] = [false, false];
    const pump = async () => {
      for (let length = frameLength(buffer, started); length <= buffer.length; ) {
        const frame = buffer.subarray(0, length);
        buffer = buffer.subarray(length);
        const text = requestText(frame, started);
        started ||= text === 'startup';
        if (text !== undefined) {
          requests.push(text);
          // A decision may freeze what it lets pass: that one message still goes.
          const decision = frozen ? 'hold' : await decide(requests.length - 1, text);
          if (decision === 'hold') frozen = true;
          if (decision === 'cut') client.destroy();
          if (typeof decision === 'object') unheard = decision;
        }
        if (!frozen && !client.destroyed) upstream.write(frame);
        length = frameLength(buffer, started);
      }
    };
    client.on('data', async (chunk) => {
      buffer = Buffer.concat([buffer, chunk]);
      if (deciding) return;
      deciding = true;
      await pump();
      deciding = false;
    });
  };

  const server = createServer(serve).listen(0, listen);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    leadTo(otherUrl) {
      ({ hostname, port } = new URL(otherUrl));
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      if (!server.listening) return;
      server.close();
      await once(server, 'close');
    },
  };
}

/** Infinity where not enough has come to tell. */
function frameLength(buffer: Buffer, started: boolean): number {
  if (!started) return buffer.length < 4 ? Number.POSITIVE_INFINITY : buffer.readInt32BE(0);
  return buffer.length < 5 ? Number.POSITIVE_INFINITY : 1 + buffer.readInt32BE(1);
}

function requestText(frame: Buffer, started: boolean): string | undefined {
  if (!started) {
    const code = frame.readInt32BE(4);
    if (code === CANCEL_REQUEST) return 'cancel';
    return code === STARTUP_VERSION ? 'startup' : undefined;
  }
  const type = String.fromCharCode(frame[0] ?? 0);
  if (type === 'X') return 'terminate';
  const [first = '', second = ''] = frame.subarray(5).toString('utf8').split('\0');
  if (type === 'Q') return first;
  return type === 'P' ? second : undefined;
}
