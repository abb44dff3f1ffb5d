import { Worker } from 'node:worker_threads';
import { SafemigrateError } from '../errors.ts';
import type { SchemaChange } from '../model/report.ts';
import { builtFile } from '../package.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Comparison } from './compare-schemas.ts';
import type { Failure, Job, Message, Room, WorkerAnswers } from './worker.ts';

/**
 * One database's schema, before a command and after it. Reading goes faster with a second session: one is opened when
 * `room` settles, if there is any.
 */
export interface SchemaWatch {
  /** Reads the schema of this database and keeps it. @throws SafemigrateError as openSession does, or `SERVER` for a failed catalogue query. */
  before(settings: ConnectionSettings, options?: { run?: string; room?: Promise<unknown> }): Promise<void>;
  /** Of the schema before, for comparing it with that of another database. */
  fingerprint(): Promise<string>;
  /**
   * Reads the schema again and compares. May be called more than once; before() must have been.
   * @param options.inUse others work there: nothing is locked, so that after renames there is no way back.
   * @param options.onRead called when the schema is read; renames, if there are any, are still to be taken back.
   * @param options.onLeft called when there is only the comparing left to do, and no session any more.
   */
  after(options?: Listeners & { room?: Promise<unknown>; inUse?: boolean }): Promise<Comparison>;
  /** What another database has different from the schema before, by names alone. */
  describe(settings: ConnectionSettings): Promise<SchemaChange[]>;
  /** Ends the thread at once, with what it is doing: whoever waits gets `INTERRUPTED`. Idempotent. */
  close(): Promise<void>;
}

interface Listeners {
  readonly onRead?: () => void;
  readonly onLeft?: () => void;
}

const YOUNG_MB = 32;

let early: Worker | undefined;

/** Starts the thread that openSchemaWatch() will use, which loads while the program does. */
export function startEarly(): void {
  early ??= startThread();
}

function startThread(): Worker {
  const worker = new Worker(builtFile('schema/worker.js'), {
    name: 'safemigrate schema',
    // Most of what is read stays: with the default of 16 MB it is copied about by the collector again and again.
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
  });
  // Only a task that is under way keeps the process alive.
  worker.unref();
  return worker;
}

/** Has a thread do the reading. It connects for each task anew, so that it holds no session meanwhile. */
export async function openSchemaWatch(audit?: Audit): Promise<SchemaWatch> {
  const worker = early ?? startThread();
  early = undefined;
  let run: string | undefined;
  let ended: SafemigrateError | undefined;
  let waiting:
    | (Listeners & {
        resolve(value: WorkerAnswers[Job['kind']]): void;
        reject(error: Error): void;
      })
    | undefined;
  let last: Promise<unknown> = Promise.resolve();

  const settle = (use: (waiter: NonNullable<typeof waiting>) => void) => {
    worker.unref();
    const waiter = waiting;
    waiting = undefined;
    if (waiter) use(waiter);
  };
  const end = (error: SafemigrateError) => {
    ended ??= error;
    settle(({ reject }) => reject(error));
  };
  worker.on('message', (message: Message) => {
    if (message.type === 'audit') audit?.(message.entry);
    else if (message.type === 'read') waiting?.onRead?.();
    else if (message.type === 'left') waiting?.onLeft?.();
    else if (message.type === 'done') settle(({ resolve }) => resolve(message.value));
    else settle(({ reject }) => reject(errorOf(message.failure)));
  });
  worker.on('error', (cause) =>
    end(new SafemigrateError('SERVER', 'The thread that reads the schema failed.', { cause })),
  );
  worker.on('exit', () => end(new SafemigrateError('INTERRUPTED', 'Reading the schema was interrupted.')));

  /** One task at a time: the thread has one schema in its hands. */
  function ask<Kind extends Job['kind']>(
    job: Job & { kind: Kind },
    { room, ...listeners }: Listeners & { room?: Promise<unknown> } = {},
  ): Promise<WorkerAnswers[Kind]> {
    const answer = last.then(
      () =>
        new Promise<WorkerAnswers[Job['kind']]>((resolve, reject) => {
          if (ended) return reject(ended);
          const waiter = { resolve, reject, ...listeners };
          waiting = waiter;
          worker.ref();
          worker.postMessage({ ...job, ...(run === undefined ? {} : { run }) });
          const makeRoom = () => {
            if (waiting === waiter) worker.postMessage({ kind: 'room' } satisfies Room);
          };
          void room?.then(makeRoom, makeRoom);
        }),
    );
    last = answer.catch(() => undefined);
    return answer as Promise<WorkerAnswers[Kind]>;
  }

  return {
    before: async (settings, options = {}) => {
      run = options.run;
      await ask({ kind: 'before', settings }, options);
    },
    fingerprint: () => ask({ kind: 'fingerprint' }),
    after: ({ inUse = false, ...options } = {}) => ask({ kind: 'after', inUse }, options),
    describe: (other) => ask({ kind: 'describe', settings: other }),
    close: async () => {
      await worker.terminate();
    },
  };
}

function errorOf({ code, message, hint, sqlstate, stack }: Failure): Error {
  const details = {
    ...(hint === undefined ? {} : { hint }),
    ...(sqlstate === undefined ? {} : { sqlstate }),
  };
  const error = code === null ? new Error(message) : new SafemigrateError(code, message, details);
  if (stack !== undefined) error.stack = stack;
  return error;
}
