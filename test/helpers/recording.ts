import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** What went over one connection, in both directions. */
export interface Recording {
  readonly fromClient: Buffer;
  readonly fromServer: Buffer;
}

export interface Recorder {
  /** The server's URL, through here. */
  readonly url: string;
  /** In the order in which they were opened; whole once they are closed. */
  recordings(): Recording[];
  close(): Promise<void>;
}

/** A TCP relay before a server, which remembers every byte. @param piece so many bytes are passed on at a time. */
export async function startRecorder(serverUrl: string, piece = Number.POSITIVE_INFINITY): Promise<Recorder> {
  const through = new URL(serverUrl);
  const upstreamAt = { host: through.hostname, port: Number(through.port) };
  const connections: { fromClient: Buffer[]; fromServer: Buffer[] }[] = [];
  const sockets = new Set<Socket>();

  const serve = (client: Socket) => {
    const connection = { fromClient: [], fromServer: [] };
    connections.push(connection);
    const upstream = connect(upstreamAt);
    pass(client, upstream, connection.fromClient, piece);
    pass(upstream, client, connection.fromServer, piece);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
    }
  };

  const server = createServer({ allowHalfOpen: true, noDelay: true }, serve).listen(0, '127.0.0.1');
  await once(server, 'listening');
  through.hostname = '127.0.0.1';
  through.port = String((server.address() as AddressInfo).port);
  through.searchParams.set('sslmode', 'disable');
  return {
    url: through.href,
    recordings: () =>
      connections.map(({ fromClient, fromServer }) => ({
        fromClient: Buffer.concat(fromClient),
        fromServer: Buffer.concat(fromServer),
      })),
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Each piece goes in a turn of its own of the event loop, so that it is a packet of its own. */
function pass(from: Socket, to: Socket, kept: Buffer[], piece: number): void {
  to.setNoDelay(true);
  let sent: Promise<void> = Promise.resolve();
  from.on('data', (chunk: Buffer) => {
    kept.push(chunk);
    const send = async () => {
      for (let at = 0; at < chunk.length; at += piece) {
        to.write(chunk.subarray(at, at + piece));
        if (piece < chunk.length) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    sent = sent.then(send);
  });
  from.on('end', () => {
    sent = sent.then(() => void to.end());
  });
  from.on('close', () => {
    sent = sent.then(() => void to.end());
  });
}
