import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { ServerIdentity } from '../database/server-identity.ts';
import { SafemigrateError } from '../errors.ts';
import type { RunId } from '../ownership/run-id.ts';
import { builtFile } from '../package.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';

/** What the guard is told over its input, in one line; a password stands in no argument and no file. */
export interface Watched {
  readonly settings: ConnectionSettings;
  readonly database: string;
  /** On which the target is closed. */
  readonly server: ServerIdentity;
  readonly run: RunId;
  readonly lockDatabaseOid: number;
  /** Consoles of PgBouncers whose clients may be waiting. */
  readonly pgbouncer: readonly ConnectionSettings[];
  /** On which those know the target. */
  readonly port: number;
}

export interface ReopenAgent {
  /** The target is open again, or swapped: there is nothing more to watch over. */
  dismiss(): Promise<void>;
}

const DISMISSED = 'done\n';
const READY_MS = 10_000;

/**
 * A small process of its own that opens the target again if we die, in whatever way: its input ends then. It is started
 * before the target is closed. @throws SafemigrateError `REFUSED` where it cannot be started.
 */
export async function startReopenAgent(watched: Watched): Promise<ReopenAgent> {
  const guard = spawn(process.execPath, [fileURLToPath(builtFile('swap/reopen-agent-process.js'))], {
    cwd: '/',
    detached: true,
    env: {},
    stdio: ['pipe', 'ignore', 'ignore', 'ipc'],
  });
  if (!guard.stdin) throw new Error('the guard has no input');
  const { stdin } = guard;
  const ended = new Promise<void>((resolve) => guard.once('close', () => resolve()));
  stdin.on('error', () => {});
  stdin.write(`${JSON.stringify(watched)}\n`);
  const ready = await new Promise<boolean>((resolve) => {
    const settle = (value: boolean) => {
      // Nothing of this may keep us alive: the guard acts once we have ended.
      clearTimeout(timer);
      resolve(value);
    };
    const timer = setTimeout(() => settle(false), READY_MS);
    guard.once('error', () => settle(false));
    guard.once('message', () => settle(true));
    void ended.then(() => settle(false));
  });
  if (!ready) {
    guard.kill('SIGKILL');
    throw new SafemigrateError(
      'REFUSED',
      'The process that opens the target again if this one dies cannot be started.',
      {
        hint: 'Nothing was touched.',
      },
    );
  }
  guard.unref();
  // Node's types do not say that a child's pipe is a socket.
  if (stdin instanceof Socket) stdin.unref();
  return {
    async dismiss() {
      guard.ref();
      stdin.end(DISMISSED);
      await ended;
    },
  };
}
