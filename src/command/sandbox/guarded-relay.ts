import { connect, createServer, type Server, type Socket } from 'node:net';
import type { HostAndPort } from '../../postgres/connection/connection-settings.ts';
import type { AllowedHost } from './allowed-places.ts';
import { readFirstBytes } from './first-bytes.ts';
import { isTargetAddress } from './target-addresses.ts';

/** Why an allowed place was not reached all the same. */
type RelayRefusal = 'target' | 'postgres';

/** A first message of a client that is longer than this is none that a server takes. */
const MOST_HELD_BYTES = 128 * 1024;

/**
 * Connects what arrives at the listener to a host outside: never to the target's addresses, and clients of PostgreSQL only if the place
 * was allowed as one for them. The target may have more addresses than can be known: behind a pooler, a tunnel or a balancer.
 */
export function guardedRelay(
  listener: Server,
  place: AllowedHost,
  target: readonly HostAndPort[],
  onRefused: (why: RelayRefusal) => void,
): Server {
  const server = createServer({ allowHalfOpen: true }, (inner) => {
    const outer = connect({ host: place.host, port: place.port, allowHalfOpen: true });
    const refuse = (why: RelayRefusal) => {
      onRefused(why);
      outer.destroy();
      inner.resetAndDestroy();
    };
    inner.on('error', () => outer.destroy());
    outer.on('error', () => inner.destroy());
    outer.once('connect', () => {
      const { remoteAddress: host = '' } = outer;
      if (isTargetAddress({ host, port: place.port }, target)) return refuse('target');
      outer.pipe(inner);
      if (place.postgres) inner.pipe(outer);
      else afterFirstBytes(inner, outer, () => refuse('postgres'));
    });
  });
  return server.listen(listener);
}

/** Holds the client's first bytes until its protocol is known. */
function afterFirstBytes(inner: Socket, outer: Socket, onPostgres: () => void): void {
  let held = Buffer.alloc(0);
  const go = () => {
    inner.off('data', onData).off('end', go);
    outer.write(held);
    if (inner.readableEnded) outer.end();
    else inner.pipe(outer);
  };
  const onData = (chunk: Buffer) => {
    held = Buffer.concat([held, chunk]);
    const found = readFirstBytes(held);
    if (found === 'other') go();
    else if (found === 'postgres' || held.length > MOST_HELD_BYTES) onPostgres();
  };
  inner.on('data', onData).on('end', go);
}
