import { EventEmitter } from 'node:events';
import type { Traffic } from '../load/play-shapes.ts';
import type { EndedTransaction, TrafficLog } from '../load/traffic-log.ts';
import type { Observed, Observer } from '../proxy/observed.ts';
import {
  type CloneRun,
  type CloneSetup,
  type LocatedCommand,
  openWire,
  runThroughWire,
} from './run-on-clone.ts';

/** Load that a command of the user's makes. */
export interface CommandTraffic extends Traffic {
  /** Its run, after stop(). */
  run(): CloneRun | null;
}

/** Starts a shell command on the clone, connected to it through a proxy of its own, which sees its transactions. */
export async function startLoadCommand(
  setup: CloneSetup,
  { input, logins }: LocatedCommand,
  shell: string,
  log: TrafficLog,
): Promise<CommandTraffic> {
  const command: LocatedCommand = { input: { ...input, argv: ['sh', '-c', shell] }, logins };
  const interrupts = new EventEmitter<{ signal: ['SIGTERM'] }>();
  const settings = { interrupts, timeoutMs: 0 };
  const wire = await openWire(setup, command, { observer: transactionsInto(log), settings });
  let ended: CloneRun | null = null;
  let failure: string | null = null;
  const running = runThroughWire(setup, command, wire).then(
    (run) => {
      ended = run;
      const { exitCode, signal } = run.result;
      failure = `${shell} ended with ${signal ?? `exit code ${exitCode}`}`;
    },
    (error: unknown) => {
      failure = String(error);
    },
  );
  return {
    clients: 1,
    failure: async () => failure,
    async stop() {
      // A second one would kill it; SIGKILL follows by itself if it stays.
      if (failure === null) interrupts.emit('signal', 'SIGTERM');
      await running;
    },
    run: () => ended,
  };
}

/** Makes transactions of what the proxy sees: from the first statement of one to its end. */
export function transactionsInto(log: Pick<TrafficLog, 'add'>): Observer {
  const open = new Map<number, { startedMs: number; error: EndedTransaction['error'] }>();
  return (event: Observed) => {
    if (event.type === 'begin') {
      const { transaction } = event.statement;
      if (!open.has(transaction)) open.set(transaction, { startedMs: performance.now(), error: null });
    } else if (event.type === 'end' && event.outcome.error) {
      const { error } = event.outcome;
      const known = open.get(event.statement.transaction);
      if (known)
        known.error ??= {
          sqlstate: error.get('C') ?? '',
          message: error.get('M') ?? '',
          detail: error.get('D') ?? '',
        };
    } else if (event.type === 'transaction-end') {
      const known = open.get(event.transaction);
      open.delete(event.transaction);
      if (known) log.add({ ...known, endedMs: performance.now() });
    }
  };
}
