import type { Socket } from 'node:net';
import { errorResponse } from '../../postgres/protocol/messages.ts';
import { ENCRYPTION_REQUEST_BYTES, ENCRYPTION_REQUESTS, readFirstBytes } from './first-bytes.ts';

/** A client that waits for the server's first word is not kept waiting for longer. */
const WAIT_MS = 100;
const REFUSED_CONNECTION = '08004';
const NOT_ENCRYPTED = 'N';

/**
 * Closes a connection that the sandbox does not allow: a client of PostgreSQL gets an error that says why, any other one a reset.
 * @param onPostgres is called if it is a client of PostgreSQL.
 */
export function closeWithWords(
  socket: Socket,
  { host, port }: { readonly host: string; readonly port: number },
  onPostgres: () => void,
): void {
  let held = Buffer.alloc(0);
  const timer = setTimeout(() => socket.resetAndDestroy(), WAIT_MS);
  socket.on('close', () => clearTimeout(timer));
  socket.on('end', () => socket.destroy());
  socket.on('data', (chunk) => {
    held = Buffer.concat([held, chunk]);
    if (isEncryptionRequest(held)) {
      held = held.subarray(ENCRYPTION_REQUEST_BYTES);
      socket.write(NOT_ENCRYPTED);
      timer.refresh();
    }
    const found = readFirstBytes(held);
    if (found === 'undecided') return;
    if (found === 'other') {
      socket.resetAndDestroy();
      return;
    }
    onPostgres();
    socket.end(
      errorResponse({
        severity: 'FATAL',
        sqlstate: REFUSED_CONNECTION,
        message: `the sandbox of this rehearsal does not let the command connect to ${host}:${port}`,
        hint: 'The report of safemigrate says what to do.',
      }),
    );
  });
}

function isEncryptionRequest(bytes: Buffer): boolean {
  return bytes.length === ENCRYPTION_REQUEST_BYTES && ENCRYPTION_REQUESTS.includes(bytes.readUInt32BE(4));
}
