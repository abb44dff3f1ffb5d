import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { formatDuration } from '../format.ts';

export interface ShellOrder {
  readonly command: string;
  readonly folder: string;
  /** Variables added to our own environment. */
  readonly variables: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

const GRACE_MS = 5_000;
const MAX_OUTPUT = 1_000_000;
/** A background process may keep its output open forever. */
const DRAIN_MS = 500;

/**
 * Runs a command of the user by `sh -c` and waits for its end; its output is not shown.
 * @returns as `failure` null for success, else the failure with the end of its standard error.
 */
export async function runShell({
  command,
  folder,
  variables,
  timeoutMs,
  signal,
}: ShellOrder): Promise<{ stdout: string; failure: string | null }> {
  const child = spawn('/bin/sh', ['-c', command], {
    cwd: folder,
    detached: true,
    env: { ...process.env, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] = (output[name] + text).slice(-MAX_OUTPUT);
    });
  const closed = once(child, 'close').catch(() => undefined);
  let cut: string | undefined;
  const end = (why: string) => {
    cut ??= why;
    send(child.pid, 'SIGTERM');
    void delay(GRACE_MS, undefined, { ref: false }).then(() => send(child.pid, 'SIGKILL'));
  };
  const onAbort = () => end('was interrupted');
  const timer = setTimeout(() => end(`took longer than ${formatDuration(timeoutMs)}`), timeoutMs);
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted) onAbort();
  try {
    const [code, killedBy] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
    await Promise.race([closed, delay(DRAIN_MS)]);
    const ended = cut ?? (code === 0 ? null : `ended with ${code ?? killedBy}`);
    return { stdout: output.stdout, failure: ended === null ? null : explained(ended, output.stderr) };
  } catch (error) {
    return { stdout: '', failure: error instanceof Error ? error.message : String(error) };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
    child.stdout.destroy();
    child.stderr.destroy();
  }
}

function explained(ended: string, stderr: string): string {
  const lines = withoutPasswords(stderr).trim().split('\n').slice(-6).join('\n  ');
  return lines === '' ? ended : `${ended}:\n  ${lines}`;
}

/** Removes passwords: programs that fail often repeat their URL, their settings or their arguments. */
export function withoutPasswords(text: string): string {
  return text
    .replace(/(:\/\/[^:@/\s]*):[^@/\s]*@/g, '$1:***@')
    .replace(/(\b\w*(?:password|passwd|secret|token|api_?key)"?\s*[=:]\s*"?)[^\s"',;]+/gi, '$1***');
}

function send(pid: number | undefined, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // It has ended by itself.
  }
}
