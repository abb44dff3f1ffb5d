import { chmod, mkdir, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import path from 'node:path';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { stateFolder } from '../../ownership/state-files.ts';

export const ORDERS = ['pause', 'resume', 'abort'] as const;
export type ManualOrder = (typeof ORDERS)[number];

/** What a running apply answers, for people. */
export type Obey = (order: ManualOrder) => string;

const FOLDER_MODE = 0o700;
const SOCKET_MODE = 0o600;
const LONGEST_ORDER = 16;
/** An apply that has stopped reading is not there any more. */
const ANSWER_WITHIN_MS = 5_000;

function socketOf(run: string, env: NodeJS.ProcessEnv): string {
  return path.join(stateFolder(env), 'applies', `${run}.sock`);
}

/**
 * Lets this user's other processes pause, resume and abort the run.
 * @throws Node's error where no socket can be made there (a path of more than about 100 bytes, for one).
 */
export async function listenForOrders(
  run: string,
  env: NodeJS.ProcessEnv,
  obey: Obey,
): Promise<{ close(): Promise<void> }> {
  const file = socketOf(run, env);
  await mkdir(path.dirname(file), { recursive: true, mode: FOLDER_MODE });
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    let text = '';
    socket.on('error', () => {});
    socket.setTimeout(ANSWER_WITHIN_MS, () => socket.destroy());
    socket.on('data', (chunk) => {
      text += chunk.toString();
      if (text.length > LONGEST_ORDER) socket.destroy();
    });
    socket.on('end', () => {
      const order = ORDERS.find((known) => known === text.trim());
      socket.end(order ? obey(order) : 'This version of safemigrate does not know that.');
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
 * Tells a running apply of this user on this machine what to do.
 * @returns its answer. @throws SafemigrateError `CONFIGURATION` where no such apply runs.
 */
export function order(run: string, what: ManualOrder, env: NodeJS.ProcessEnv = process.env): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path: socketOf(run, env), allowHalfOpen: true });
    const fail = (error: unknown) =>
      reject(
        new SafemigrateError(
          'CONFIGURATION',
          `No apply of the name ${run} runs here: ${messageOf(error)}. Nothing was done.`,
          { cause: error, hint: 'It must run on this machine, as this user, with the same XDG_STATE_HOME.' },
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
