import { pbkdf2 } from 'node:crypto';
import { promisify } from 'node:util';

const KEY_BYTES = 32;

const known = new Map<string, Promise<Buffer>>();

/**
 * SCRAM-SHA-256's SaltedPassword (RFC 5802), 32 bytes. It takes as long as the server's `scram_iterations` want it to, so it is
 * kept, as the RFC lets a client do: a run opens a dozen connections, and its command may open more.
 * @param password normalised.
 */
export function saltedPassword(password: string, salt: Uint8Array, iterations: number): Promise<Buffer> {
  const of = JSON.stringify([password, Buffer.from(salt).toString('base64'), iterations]);
  const key = known.get(of) ?? promisify(pbkdf2)(password, salt, iterations, KEY_BYTES, 'sha256');
  known.set(of, key);
  return key;
}
