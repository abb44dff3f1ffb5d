import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bundled } from '../../helpers/bundled.ts';

const SCRIPT = `
const { startServer } = await import(process.argv[2]);
process.stdout.write('starting\\n');
const server = await startServer({ parent: process.argv[1] });
process.stdout.write('ready ' + server.port + '\\n');
setInterval(() => {}, 1000);`;

let parent: string;
let built: string;
beforeAll(async () => {
  parent = await mkdtemp(path.join(tmpdir(), 'killed-'));
  await chmod(parent, 0o755);
  built = bundled('src/local-server/embedded.ts');
});
afterAll(() => rm(built));
afterAll(() => rm(parent, { recursive: true }));

function owner(): ChildProcess {
  return spawn(process.execPath, ['--input-type=module', '-e', SCRIPT, parent, built], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within 20 s: ${what}`);
    await delay(5);
  }
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

const STAGES: [string, (entries: string[]) => boolean][] = [
  [
    'while the programs are put in place',
    (entries) => entries.includes('installation') || entries.includes('socket'),
  ],
  ['while initdb runs', (entries) => entries.includes('data')],
  ['while the server starts', (entries) => entries.includes('data') && !entries.includes('password')],
];

test.each(STAGES)('a process killed %s leaves no folder and no process', async (stage, reached) => {
  const child = owner();
  await until(stage, async () => {
    const [folder] = await readdir(parent);
    return folder !== undefined && reached(await readdir(path.join(parent, folder)).catch(() => []));
  });
  await kill(child);
  await until('the folder is gone', async () => (await readdir(parent)).length === 0);
});

test('a process killed with its server running takes the server with it', async () => {
  const child = owner();
  let output = '';
  child.stdout?.on('data', (data) => {
    output += data;
  });
  await until('the server is ready', async () => output.includes('ready'));
  await kill(child);
  await until('the folder is gone', async () => (await readdir(parent)).length === 0);
});

test('a process that ends without a word takes the server with it, and is not held up by it', async () => {
  const script = SCRIPT.replace(/setInterval.*$/, '');
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, parent, built], {
    stdio: 'ignore',
  });
  expect(await once(child, 'exit')).toEqual([0, null]);
  await until('the folder is gone', async () => (await readdir(parent)).length === 0);
});
