import { execFile, spawn } from 'node:child_process';
import { chown, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { type CopiedServer, startCopied } from '../../../src/local-server/copied.ts';
import { programsOf } from '../../helpers/own-server.ts';
import { SERVER_UID } from '../../helpers/placed-server.ts';
import { enterableFolder } from '../../helpers/private-clone.ts';

const run = promisify(execFile);

/** It runs beside the server, and its number gets into `server.pid`, which the server's user can write. */
let stranger: ReturnType<typeof spawn>;

beforeEach(() => {
  stranger = spawn('sleep', ['60']);
  onTestFinished(() => void stranger.kill('SIGKILL'));
});

/** A server in a folder of its own. @param through words in front of its own. */
async function started(through: readonly string[]): Promise<{ server: CopiedServer; folder: string }> {
  const { path: folder, remove } = await enterableFolder();
  onTestFinished(remove);
  const user = SERVER_UID === undefined ? undefined : { uid: SERVER_UID, gid: SERVER_UID };
  if (user) await chown(folder, user.uid, user.gid);
  const programs = await programsOf(18);
  const words = ['-D', path.join(folder, 'data'), '-U', 'postgres', '--auth=trust', '--no-sync'];
  await run(path.join(programs, 'initdb'), words, { cwd: '/', ...user });
  const settings = { listen_addresses: '', unix_socket_directories: folder, shared_buffers: '16MB' };
  const { signal } = new AbortController();
  return { folder, server: await startCopied({ folder, programs, settings, through, user, signal }) };
}

test('a server is stopped if another number is written where its own was', async () => {
  const { server, folder } = await started([]);
  await writeFile(path.join(folder, 'server.pid'), `${stranger.pid}\n`);
  await server.stop();
  expect(await server.ended).toContain('database system is shut down');
  expect(stranger.signalCode).toBeNull();
});

test('no process of others is signalled if its number was there from the beginning', async () => {
  const forging = ['sh', '-c', 'number=$1; shift; echo $number > server.pid; exec "$@"', 'sh'];
  const { server, folder } = await started([...forging, String(stranger.pid)]);
  await expect(server.stop()).rejects.toMatchObject({
    code: 'CLONE',
    message: expect.stringContaining('is not the server in'),
  });
  expect(stranger.signalCode).toBeNull();
  const [pid] = (await readFile(path.join(folder, 'data', 'postmaster.pid'), 'utf8')).split('\n');
  process.kill(Number(pid), 'SIGQUIT');
  await server.ended;
});
