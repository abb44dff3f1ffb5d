import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** What `npm run build` made. */
export const CLI = path.join(ROOT, 'dist/cli/main.js');

/** The words that start the command line: what was built, or else the single executable that SAFEMIGRATE_BIN names. */
export const PROGRAM: readonly [string, ...string[]] = process.env.SAFEMIGRATE_BIN
  ? [path.resolve(ROOT, process.env.SAFEMIGRATE_BIN)]
  : [process.execPath, CLI];

/** The tests run the single executable. */
export const IS_EXECUTABLE = PROGRAM.length === 1;

const RUN_SQL = fileURLToPath(new URL('commands/run-sql.mjs', import.meta.url));

/** A migration command that runs this SQL, exit code 7 if it fails; it prints the rows of the last statement. */
export function sqlCommand(sql: string, urlFile?: string): string[] {
  return [process.execPath, RUN_SQL, sql, ...(urlFile === undefined ? [] : [urlFile])];
}

export interface CliOptions {
  /** Beside PATH, HOME and the like; nothing else of this process's environment is passed on. */
  readonly env?: NodeJS.ProcessEnv;
  readonly folder?: string;
  /** Written to standard input, which then ends. */
  readonly input?: string;
  /**
   * What to type, each once what came since the one before looks as expected; a function does something first, and is
   * given all that was printed so far.
   */
  readonly typed?: readonly (readonly [
    when: RegExp,
    what: string | ((printed: string) => Promise<string>),
  ])[];
  readonly started?: (pid: number) => void;
  /** Passwords may be printed, by the command. */
  readonly commandTellsPasswords?: boolean;
}

export interface CliResult {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs the built command line as a user would, but that it clones inside the target's server where the test asks for no
 * other way: what `auto` takes depends on who is connected at that moment.
 * @throws when a password of its arguments or environment is printed.
 */
export async function safemigrate(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const env = { SAFEMIGRATE_CLONE: 'template', ...options.env };
  return runProgram([...PROGRAM, ...args], { ...options, env });
}

export async function runProgram(argv: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const [program = '', ...args] = argv;
  const env = { ...plainEnvironment(), ...options.env };
  const child = spawn(program, args, {
    cwd: options.folder,
    env,
    stdio: 'pipe',
    // Without a terminal, even where the tests are started from one.
    detached: true,
  });
  if (child.pid !== undefined) options.started?.(child.pid);
  const waiting = [...(options.typed ?? [])];
  let output = '';
  let seen = 0;
  const failures: unknown[] = [];
  const done: Promise<void>[] = [];
  // The program would wait for its answer, and the error would fail the whole suite, for which no second attempt makes up.
  const giveUp = (error: unknown) => {
    failures.push(error);
    child.kill();
  };
  const collect = (chunk: Buffer) => {
    output += chunk;
    const [next] = waiting;
    if (!next?.[0].test(output.slice(seen))) return;
    waiting.shift();
    seen = output.length;
    const [, what] = next;
    if (typeof what === 'string') child.stdin.write(what);
    else done.push(what(output).then((text) => void child.stdin.write(text), giveUp));
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  child.stdin.on('error', () => {});
  if (!options.typed) child.stdin.end(options.input);
  const closed = once(child, 'close');
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await closed;
  await Promise.all(done);
  if (failures.length > 0) throw failures[0];
  if (!options.commandTellsPasswords) {
    for (const password of passwordsIn([...args, ...Object.values(env)]))
      if (output.includes(password)) throw new Error(`a password was printed:\n${output}`);
  }
  return { exitCode: child.exitCode, signal: child.signalCode, stdout, stderr };
}

/** Why nothing can be run on a terminal here; null where it can. */
export const noTerminal = spawnSync('script', ['--version']).error
  ? 'script of util-linux is not installed'
  : null;

/** The same on a terminal, which `script` gives its command: what is written to it is typed there. */
export async function inTerminal(
  args: readonly string[],
  { env, ...options }: CliOptions = {},
): Promise<{ output: string; exitCode: number | null }> {
  const line = [...PROGRAM, ...args].map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
  const { stdout, exitCode } = await runProgram(
    ['script', '--quiet', '--return', '--command', line, '/dev/null'],
    {
      ...options,
      env: { SAFEMIGRATE_CLONE: 'template', TERM: 'xterm', SHELL: '/bin/sh', ...env },
      typed: options.typed ?? [],
    },
  );
  return { output: stdout, exitCode };
}

/** What a shell would have, without anything that decides about the target or the style of the output. */
export function plainEnvironment(): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR, XDG_STATE_HOME, PROCESS_OF_TEST_FILE } = process.env;
  const passed = { PATH, HOME, TMPDIR, XDG_STATE_HOME, PROCESS_OF_TEST_FILE, LANG: 'C.UTF-8' };
  return Object.fromEntries(Object.entries(passed).filter(([, value]) => value !== undefined));
}

/** Runs a line of sh in which `safemigrate` is the built command line, as on a machine where it is installed. */
export async function runLine(line: string, options: CliOptions = {}): Promise<CliResult> {
  const folder = temporaryFolder();
  symlinkSync(PROGRAM.at(-1) ?? CLI, path.join(folder, 'safemigrate'));
  const { PATH } = { ...plainEnvironment(), ...options.env };
  const env = { ...options.env, PATH: [folder, PATH].join(path.delimiter) };
  // bash takes the socket that is its standard input for a remote shell, and would read the user's start-up file.
  return runProgram(['bash', '--norc', '-c', line], { ...options, env });
}

/** An empty folder for one test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function passwordsIn(texts: readonly (string | undefined)[]): string[] {
  const found = texts.flatMap((each) => /:\/\/[^:@/\s]*:([^@/\s']{5,})@/.exec(each ?? '')?.[1] ?? []);
  return found.flatMap((password) =>
    /%(?![0-9a-f]{2})/i.test(password) ? [password] : [password, decodeURIComponent(password)],
  );
}
