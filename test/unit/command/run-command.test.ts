import { EventEmitter } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type Interrupts, type RunOptions, runCommand } from '../../../src/command/run-command.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'run-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function run(script: string, more: Partial<RunOptions> = {}) {
  const interrupts: Interrupts = new EventEmitter();
  const result = runCommand({
    argv: ['sh', '-c', script],
    env: { PATH: process.env.PATH ?? '' },
    folder,
    stdout: 'inherit',
    terminal: false,
    timeoutMs: 0,
    interrupts,
    ...more,
  });
  return { interrupts, result };
}

const written = (name: string): string =>
  existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8').trim() : '';

const appears = (name: string): Promise<string> =>
  vi.waitFor(() => {
    const text = written(name);
    if (text === '') throw new Error(`${name} is not there yet`);
    return text;
  }, 60_000);

function lives(pid: string | number): boolean {
  try {
    process.kill(Number(pid), 0);
  } catch {
    return false;
  }
  // What is only not collected yet has ended all the same.
  return !/^\d+ \(.*\) Z/s.test(readStat(pid));
}

function readStat(pid: string | number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return '';
  }
}

// Ignores SIGTERM, and has a child in the background that does so too, and one more that its parent has left alone.
const STUBBORN = `
trap '' TERM
sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 0.1; done' &
(sh -c 'trap "" TERM; echo $$ > orphan; while :; do sleep 0.1; done' &)
echo $$ > root
while :; do sleep 0.1; done`;

describe('a command that ends by itself', () => {
  test.each([0, 1, 3, 127])('gives its exit code %i', async (code) => {
    const { result } = run(`exit ${code}`);
    expect(await result).toMatchObject({ exitCode: code, signal: null, timedOut: false });
  });

  test('gives the signal that ended it', async () => {
    const { result } = run('kill -KILL $$');
    expect(await result).toMatchObject({ exitCode: null, signal: 'SIGKILL', timedOut: false });
  });

  test('gets exactly the environment that it is given, in the folder', async () => {
    const { result } = run('pwd > where; env > variables', {
      env: { PATH: process.env.PATH ?? '', ONLY: 'this' },
    });
    await result;
    expect(written('where')).toBe(folder);
    expect(written('variables')).toContain('ONLY=this');
    expect(written('variables')).not.toContain('HOME=');
  });

  test('gets its arguments untouched', async () => {
    const { result } = run('', {
      argv: ['sh', '-c', 'printf "%s|" "$@" > words', 'sh', 'a b', '', '$X', '*', 'é"\''],
    });
    await result;
    expect(written('words')).toBe('a b||$X|*|é"\'|');
  });

  test('leaves no listener behind', async () => {
    const { interrupts, result } = run('exit 0');
    await result;
    expect(interrupts.listenerCount('signal')).toBe(0);
  });
});

test('a program that does not exist is a COMMAND error', async () => {
  const { result } = run('', { argv: ['/no/such/program'] });
  await expect(result).rejects.toMatchObject({ code: 'COMMAND' });
});

describe('the process group', () => {
  /** Without ps, which a small machine lacks: only the leader's number is that of a group. */
  const leads = async (terminal: boolean) => {
    const { result } = run('if kill -s 0 -- -$$ 2> /dev/null; then echo yes; else echo no; fi > leads', {
      terminal,
    });
    await result;
    return written('leads').trim();
  };

  test("is the command's own without a terminal", async () => {
    expect(await leads(false)).toBe('yes');
  });

  test('is ours on a terminal, which it could not use otherwise', async () => {
    expect(await leads(true)).toBe('no');
  });
});

describe('a signal to us', () => {
  test('that came before the command ran, or while it was started, ends it', async () => {
    const { result } = run('sleep 60', { interrupted: AbortSignal.abort() });
    expect(await result).toMatchObject({ signal: 'SIGTERM', timedOut: false });
  });

  test.each([
    ['SIGINT', 'INT'],
    ['SIGTERM', 'TERM'],
    ['SIGHUP', 'TERM'],
  ] as const)('%s reaches the command without a terminal, as %s', async (signal, name) => {
    const script = `trap 'echo got > got; exit 9' ${name}; echo r > ready; while :; do sleep 0.05; done`;
    const { interrupts, result } = run(script);
    await appears('ready');
    interrupts.emit('signal', signal);
    expect(await result).toMatchObject({ exitCode: 9 });
    expect(written('got')).toBe('got');
  });

  test('SIGINT is not sent a second time on a terminal, where it reaches the command by itself', async () => {
    const script = `trap 'exit 9' INT; trap 'exit 5' USR1; echo $$ > ready; while :; do sleep 0.05; done`;
    const { interrupts, result } = run(script, { terminal: true });
    const pid = Number(await appears('ready'));
    interrupts.emit('signal', 'SIGINT');
    process.kill(pid, 'SIGUSR1');
    expect(await result).toMatchObject({ exitCode: 5 });
  });

  test.each([false, true])(
    'the second kills everything that the command started (terminal: %s)',
    async (terminal) => {
      const { interrupts, result } = run(STUBBORN, { terminal });
      const pids = await Promise.all(['root', 'child'].map(appears));
      const orphan = await appears('orphan');
      interrupts.emit('signal', 'SIGTERM');
      expect(pids.every(lives)).toBe(true);
      interrupts.emit('signal', 'SIGINT');
      expect(await result).toMatchObject({ exitCode: null, signal: 'SIGKILL' });
      expect(pids.filter(lives)).toEqual([]);
      // Without a group of its own nothing links the orphan to the command once its parent has ended.
      if (!terminal) expect(lives(orphan)).toBe(false);
      else if (lives(orphan)) process.kill(Number(orphan), 'SIGKILL');
    },
  );
});

describe('a command that takes too long', () => {
  test('is asked to end', async () => {
    const { result } = run(`trap 'exit 7' TERM; echo r > ready; while :; do sleep 0.05; done`, {
      timeoutMs: 500,
    });
    expect(await result).toMatchObject({ exitCode: 7, timedOut: true });
  });

  test('is killed with all that it started when it does not', async () => {
    const { result } = run(STUBBORN, { timeoutMs: 700, graceMs: 200 });
    expect(await result).toMatchObject({ exitCode: null, signal: 'SIGKILL', timedOut: true });
    const pids = ['root', 'child', 'orphan'].map(written);
    expect(pids.every((pid) => pid !== '')).toBe(true);
    expect(pids.filter(lives)).toEqual([]);
  });

  test('ends on an abort', async () => {
    const abort = new AbortController();
    const { result } = run(STUBBORN, { signal: abort.signal, graceMs: 100 });
    const pids = await Promise.all(['root', 'child', 'orphan'].map(appears));
    abort.abort();
    expect(await result).toMatchObject({ signal: 'SIGKILL', timedOut: false });
    expect(pids.filter(lives)).toEqual([]);
  });

  test('is over at once if the abort came before', async () => {
    const { result } = run('sleep 60', { signal: AbortSignal.abort() });
    expect(await result).toMatchObject({ signal: 'SIGTERM' });
  });
});
