import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { messageOf, SafemigrateError } from '../errors.ts';
import { launchWatched, type WatchedFolder } from '../local-server/copied.ts';

/** Where programs of an upgrade run: in the sandbox of the copy, with its folder as the working directory. */
export interface UpgradeSandbox extends WatchedFolder {
  readonly signal: AbortSignal;
}

export interface SandboxedRun {
  readonly exitCode: number | null;
  readonly durationMs: number;
  /** `atMs`: when the line was complete, since the start. */
  readonly lines: readonly { readonly text: string; readonly atMs: number }[];
}

/**
 * Runs a program to its end. When the run is interrupted or killed, the watchdog of the folder ends the program.
 * @param variables of its environment, besides PATH.
 * @throws SafemigrateError `CLONE` if it cannot be started; the signal's reason.
 */
export async function runSandboxed(
  { signal, ...place }: UpgradeSandbox,
  argv: readonly string[],
  variables: NodeJS.ProcessEnv = {},
): Promise<SandboxedRun> {
  signal.throwIfAborted();
  const started = performance.now();
  // Its messages are parsed.
  const program = await launchWatched(place, argv, 'pipe', { LC_ALL: 'C', ...variables }).catch((cause) => {
    throw new SafemigrateError('CLONE', `${argv[0]} could not be started: ${messageOf(cause)}.`, { cause });
  });
  const closed = once(program, 'close') as Promise<[number | null]>;
  const lines: SandboxedRun['lines'][number][] = [];
  const note = (text: string) => lines.push({ text, atMs: performance.now() - started });
  for (const stream of [program.stdout, program.stderr]) if (stream) createInterface(stream).on('line', note);
  const [exitCode] = await untilAborted(closed, signal);
  return { exitCode, lines, durationMs: performance.now() - started };
}

/** Waits, but not beyond the end of the run. @throws the signal's reason. */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const settled = new AbortController();
  const aborted = once(signal, 'abort', { signal: settled.signal }).then(() => {
    throw signal.reason;
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    settled.abort();
  }
}

/** Runs a program that has to succeed. @throws SafemigrateError `CLONE` with the end of its output. */
export async function runWell(sandbox: UpgradeSandbox, argv: readonly string[]): Promise<SandboxedRun> {
  const done = await runSandboxed(sandbox, argv);
  if (done.exitCode === 0) return done;
  throw new SafemigrateError('CLONE', `${argv[0]} failed with exit code ${done.exitCode}: ${endOf(done)}`, {
    hint: 'The target was not touched by it.',
  });
}

/** Returns a run's message about its failure, in one line. */
export function endOf({ lines }: Pick<SandboxedRun, 'lines'>): string {
  return complaintIn(lines.map(({ text }) => text.split('\r').at(-1) ?? ''));
}

const COMPLAINT = /\b(error|fatal|panic|hint|detail):/i;
const LAST_LINES = 8;

/** Picks the lines that name an error, since the statement that failed may follow it on many more; else the last ones. */
export function complaintIn(output: readonly string[]): string {
  const said = output.map((line) => line.trim()).filter((line) => line !== '');
  const first = said.findIndex((line) => COMPLAINT.test(line));
  const complaints = said.slice(first, first + LAST_LINES).filter((line) => COMPLAINT.test(line));
  return (first < 0 ? said.slice(-LAST_LINES) : complaints).join('; ');
}
