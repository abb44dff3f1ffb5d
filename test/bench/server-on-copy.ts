import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SERVER_UID } from '../helpers/placed-server.ts';

/**
 * Starts a server on a copied data directory as one does by hand, and waits until it accepts sessions.
 * @returns a function that ends it.
 */
export async function startOnCopy(
  program: string,
  data: string,
  settings: readonly string[] = [],
): Promise<() => Promise<void>> {
  const all = ['listen_addresses=', `unix_socket_directories=${data}`, ...settings];
  const server = spawn(program, ['-D', data, ...all.flatMap((words) => ['-c', words])], {
    stdio: 'ignore',
    cwd: data,
    ...(SERVER_UID === undefined ? {} : { uid: SERVER_UID, gid: SERVER_UID }),
  });
  const ended = once(server, 'exit');
  while (!(await isReady(data))) {
    if (server.exitCode !== null) throw new Error('the server on the copy did not start');
    await delay(5);
  }
  return async () => {
    server.kill('SIGQUIT');
    await ended;
  };
}

async function isReady(data: string): Promise<boolean> {
  const text = await readFile(path.join(data, 'postmaster.pid'), 'utf8').catch(() => '');
  return text.split('\n')[7]?.trim() === 'ready';
}
