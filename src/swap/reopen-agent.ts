import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { SafemigrateError } from '../errors.ts';
import type { RunId } from '../ownership/run-id.ts';
import { wordsOfProgram } from '../package.ts';
import type { ClosedTarget } from './reopen-target.ts';

/** Order that the agent reads from its standard input, as one line of JSON: a password appears in no argument and no file. */
export interface ReopenOrder extends Pick<ClosedTarget, 'settings' | 'server' | 'run' | 'consoles'> {
  readonly database: string;
  readonly lockDatabaseOid: number;
  /** The server's port in the configuration of the PgBouncers. */
  readonly port: number;
  /** Runs that may have a replication slot, which fills the disk of production if it is left. */
  readonly replicating: readonly RunId[];
}

/** The last line to the agent: there is nothing to do, or it ends the way back at its time. */
export const LAST_WORDS = ['done', 'end the way back'] as const;
export type LastWord = (typeof LAST_WORDS)[number];

export interface ReopenAgent {
  readonly pid: number | null;
  /** Tells it that the target was reopened or swapped. An agent that ends a way back outlives us. */
  dismiss(word: LastWord): Promise<void>;
}

/** An agent that dies is noticed at once. On a busy machine a process may take many seconds to start, and nothing is closed yet. */
const READY_MS = 60_000;

/**
 * Starts a process that reopens the target if we die, however that happens: its standard input ends then. It is started before
 * the target is closed.
 * @throws SafemigrateError `REFUSED` if it cannot be started.
 */
export async function startReopenAgent(order: ReopenOrder): Promise<ReopenAgent> {
  const [program, ...words] = wordsOfProgram('swap/reopen-agent-process');
  const agent = spawn(program, words, {
    cwd: '/',
    detached: true,
    env: {},
    stdio: ['pipe', 'ignore', 'ignore', 'ipc'],
  });
  if (!agent.stdin) throw new Error('the reopen agent has no standard input');
  const { stdin } = agent;
  const ended = new Promise<void>((resolve) => agent.once('close', () => resolve()));
  // An agent that died is noticed by `ended`; the broken pipe says nothing more.
  stdin.on('error', () => {});
  stdin.write(`${JSON.stringify(order)}\n`);
  const ready = await new Promise<boolean>((resolve) => {
    const settle = (value: boolean) => {
      // The agent acts once we have ended, so nothing here may keep us alive.
      clearTimeout(timer);
      resolve(value);
    };
    const timer = setTimeout(() => settle(false), READY_MS);
    agent.once('error', () => settle(false));
    agent.once('message', () => settle(true));
    void ended.then(() => settle(false));
  });
  if (!ready) {
    agent.kill('SIGKILL');
    throw new SafemigrateError(
      'REFUSED',
      'The process that reopens the target if this one dies cannot be started.',
      { hint: 'Nothing was touched.' },
    );
  }
  agent.unref();
  // Node's types do not say that a child's pipe is a Socket.
  if (stdin instanceof Socket) stdin.unref();
  return {
    pid: agent.pid ?? null,
    async dismiss(word) {
      agent.ref();
      const told = new Promise<void>((resolve) => stdin.end(word, resolve));
      await (word === 'done' ? ended : told);
      agent.unref();
    },
  };
}
