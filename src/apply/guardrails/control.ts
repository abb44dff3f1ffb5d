import { chmod, mkdir, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import path from 'node:path';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { stateFolder } from '../../ownership/state-files.ts';

export const ORDERS = ['pause', 'resume', 'abort'] as const;
export type ManualOrder = (typeof ORDERS)[number];

/** Carries out an order. @returns the answer for the person who gave it. */
export type OrderHandler = (order: ManualOrder) => string;

const FOLDER_MODE = 0o700;
const SOCKET_MODE = 0o600;
const LONGEST_ORDER = 16;
/** An apply that does not answer within this time counts as gone. */
const ANSWER_WITHIN_MS = 5_000;

function socketOf(run: string, env: NodeJS.ProcessEnv): string {
  return path.join(stateFolder(env), 'applies', `${run}.sock`);
}

/**
 * Listens on a socket for orders of this user's other processes: pause, resume, abort.
 * @throws Node's error if the socket cannot be created (for example, for a path of more than about 100 bytes).
 */
export async function listenForOrders(
  run: string,
  env: NodeJS.ProcessEnv,
  handle: OrderHandler,
): Promise<{ close(): Promise<void> }> {
  const file = socketOf(run, env);
  await mkdir(path.dirname(file), { recursive: true, mode: FOLDER_MODE });
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    let text = '';
    // A client that went away has no use for the answer.
    socket.on('error', () => {});
    socket.setTimeout(ANSWER_WITHIN_MS, () => socket.destroy());
    socket.on('data', (chunk) => {
      text += chunk.toString();
      if (text.length > LONGEST_ORDER) socket.destroy();
    });
    socket.on('end', () => {
      const order = ORDERS.find((known) => known === text.trim());
      socket.end(order ? handle(order) : 'This version of safemigrate does not know this order.');
    });
  });
  server.unref();
  await listen(server, file);
  await chmod(file, SOCKET_MODE);
  return {
    close: async () => {
      await new Promise<void>((resolve) => server.close(() => resolve()));
      await rm(file, { force: true });
    },
  };
}

function listen(server: Server, file: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(file, resolve);
  });
}

/**
 * Gives an order to an apply that this user runs on this machine.
 * @returns its answer. @throws SafemigrateError `CONFIGURATION` if no such apply runs.
 */
export function order(run: string, what: ManualOrder, env: NodeJS.ProcessEnv = process.env): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path: socketOf(run, env), allowHalfOpen: true });
    const fail = (error: unknown) =>
      reject(
        new SafemigrateError(
          'CONFIGURATION',
          `No apply ${run} is running here: ${messageOf(error)}. Nothing was done.`,
          {
            cause: error,
            hint: 'The apply must run on this machine, as this user, with the same XDG_STATE_HOME.',
          },
        ),
      );
    let answer = '';
    socket.setTimeout(ANSWER_WITHIN_MS, () => socket.destroy(new Error('it does not answer')));
    socket.on('error', fail);
    socket.on('data', (chunk) => {
      answer += chunk.toString();
    });
    socket.on('end', () => resolve(answer));
    socket.end(what);
  });
}
