import { once } from 'node:events';
import { createServer } from 'node:net';

/** A TCP port that is free at this moment. */
export async function freePort(host: string): Promise<number> {
  const listener = createServer().listen(0, host);
  await once(listener, 'listening');
  const address = listener.address();
  listener.close();
  await once(listener, 'close');
  if (address === null || typeof address === 'string')
    throw new Error('a TCP listener has an address with a port');
  return address.port;
}

export async function isFree(host: string, port: number): Promise<boolean> {
  const listener = createServer().listen(port, host);
  try {
    await once(listener, 'listening');
  } catch {
    return false;
  }
  listener.close();
  await once(listener, 'close');
  return true;
}
