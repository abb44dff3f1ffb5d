import { readFileSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { RawClient } from './raw-client.ts';

/** Clients that break the protocol, or keep a connection for nothing. */

/** What they need to know of the proxy. */
export interface Place {
  readonly host: string;
  readonly port: number;
  /** Through the proxy, with the secret. */
  readonly url: string;
}

export function startupPacket(version: number, parameters: string): Buffer {
  const packet = Buffer.alloc(8 + parameters.length);
  packet.writeUInt32BE(packet.length, 0);
  packet.writeUInt32BE(version, 4);
  packet.write(parameters, 8, 'latin1');
  return packet;
}

const STARTUP = startupPacket(0x0003_0000, 'user\0postgres\0\0');
const TLS_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);
const sending =
  (...chunks: Buffer[]) =>
  (socket: Socket) => {
    for (const chunk of chunks) socket.write(chunk);
  };

/** Each does something with a new socket and leaves it open, unless it says otherwise. */
const BEFORE_LOGIN: Readonly<Record<string, (socket: Socket) => void>> = {
  'says nothing': () => {},
  'sends half a start-up packet': sending(STARTUP.subarray(0, 11)),
  'sends noise': sending(Buffer.alloc(300, 0xa5)),
  'begins with TLS': sending(Buffer.from([0x16, 3, 1, 2, 0])),
  'says a length of nothing': sending(Buffer.from([0, 0, 0, 0])),
  'says a length of 2 GB': sending(Buffer.from([0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0])),
  'stops at the password': sending(STARTUP),
  'sends another message for the password': sending(STARTUP, Buffer.from('Q\0\0\0\x0dselect 1\0', 'latin1')),
  'sends an impossible message for the password': sending(STARTUP, Buffer.from([0x70, 0, 0, 0, 1])),
  'announces a password of 1 GB': sending(STARTUP, Buffer.from([0x70, 0x3f, 0xff, 0xff, 0xff, 0x41])),
  'speaks protocol 2': sending(startupPacket(0x0002_0000, 'x'.repeat(280))),
  'cancels what it does not know': sending(
    Buffer.from([0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 1, 0, 0, 0, 2]),
  ),
  'asks for encryption again and again': sending(TLS_REQUEST),
  'asks for encryption and goes on at once': sending(Buffer.concat([TLS_REQUEST, STARTUP])),
  'ends its half': (socket) => socket.end(STARTUP),
  'resets the connection': (socket) => {
    socket.once('connect', () => socket.resetAndDestroy());
  },
};

const AFTER_LOGIN: Readonly<Record<string, (client: RawClient) => void>> = {
  'sends a message of an unknown type': (client) => client.send(Buffer.from([0x01, 0, 0, 0, 4])),
  'sends a message of an impossible length': (client) => client.send(Buffer.from([0x51, 0, 0, 0, 1])),
  'sends half a message and goes': (client) => {
    client.send(Buffer.from([0x51, 0, 0, 1, 0, 0x41]));
    client.upstream.socket.end();
  },
  'resets the connection in a statement': (client) => {
    client.send(Buffer.from('Q\0\0\0\x18select pg_sleep(60)\0', 'latin1'));
    client.upstream.socket.resetAndDestroy();
  },
  'asks for rows, does not read them, and goes': (client) => {
    const { socket } = client.upstream;
    socket.pause();
    setTimeout(() => socket.destroy(), 500);
    client.send(Buffer.from(`Q\0\0\0\x34select repeat('x', 9999) from generate_series(1, 999)\0`, 'latin1'));
  },
};

export const BAD_CLIENTS = [...Object.keys(BEFORE_LOGIN), ...Object.keys(AFTER_LOGIN)];

/** One of every so many of `AFTER_LOGIN`: each costs a backend. */
const LOGGED_IN = 25;
/** So many keep their half open for ever, whatever the proxy does; the others go when it has ended the connection. */
const STUBBORN = 300;

/** Opens so many connections, `atOnce` at a time. @returns how to let go of those that are still open. */
export async function annoy(
  place: Place,
  { count, atOnce }: { count: number; atOnce: number },
): Promise<() => void> {
  const patient = new URL(place.url);
  patient.searchParams.set('connect_timeout', '60');
  const open = new Set<Socket>();
  const before = Object.values(BEFORE_LOGIN);
  const after = Object.values(AFTER_LOGIN);
  const follow = (socket: Socket, number: number) => {
    open.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => open.delete(socket));
    if (number >= STUBBORN) socket.on('end', () => socket.destroy());
  };
  const one = async (number: number) => {
    const misbehave = after[Math.floor(number / LOGGED_IN) % after.length];
    if (number % LOGGED_IN === 0 && misbehave) {
      const client = await RawClient.connect(patient.href);
      follow(client.upstream.socket, number);
      misbehave(client);
      return;
    }
    // An address has 28,000 ports, and each stays taken for a minute.
    const localAddress = `127.0.0.${2 + (number % 50)}`;
    const { host, port } = place;
    const socket = createConnection({ host, port, localAddress, allowHalfOpen: true });
    follow(socket, number);
    await new Promise<void>((resolve) => socket.once('connect', resolve).once('close', () => resolve()));
    socket.resume();
    before[number % before.length]?.(socket);
  };
  let next = 0;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (next < count) await one(next++);
    }),
  );
  return () => {
    for (const socket of open) socket.destroy();
  };
}

/** How many connections to a port of this machine its server has not closed. Those that it has closed belong to no process. */
export function connectionsOf(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const LISTEN = '0A';
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, address, , state, , , , , , inode]) => {
      return address?.endsWith(local) && state !== LISTEN && inode !== '0';
    }).length;
}
