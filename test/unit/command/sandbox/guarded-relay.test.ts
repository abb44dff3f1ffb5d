import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { guardedRelay } from '../../../../src/command/sandbox/guarded-relay.ts';

/** Listens on a free port of this machine, and ends each connection. */
async function listening() {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

test('a permitted place is not reached if its address turns out to be the target', async () => {
  const place = await listening();
  const listener = await listening();
  const refused: string[] = [];
  const allowed = { host: 'localhost', port: place.port, postgres: true, inside: '127.0.0.9' };
  const target = [{ host: '127.0.0.1', port: place.port }];
  const relay = guardedRelay(listener.server, allowed, target, (why) => refused.push(why));
  const client = connect(listener.port, '127.0.0.1').on('error', () => {});
  await new Promise((resolve) => client.on('close', resolve));
  expect(refused).toEqual(['target']);
  for (const server of [relay, listener.server, place.server]) server.close();
});
