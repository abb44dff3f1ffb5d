import type { Worker } from 'node:worker_threads';
import { SafemigrateError } from '../errors.ts';
import type { SchemaChange } from '../model/report.ts';
import { startThread } from '../package.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Comparison } from './compare-schemas.ts';
import type { Failure, Request, Responses, ThreadMessage, VersionDifference } from './worker.ts';

type Outcome = Responses[Request['kind']] | Error;

const YOUNG_GENERATION_MB = 32;

/** Reads one database's schema before a command and after it, in a thread of its own. It connects for each reading, and holds no session in between. */
export class SchemaWatch {
  readonly #worker: Worker;
  readonly #pending = new Map<number, (outcome: Outcome) => void>();
  #requests = 0;
  #ended: SafemigrateError | undefined;

  constructor(audit?: Audit) {
    this.#worker = startThread('schema/worker', {
      name: 'safemigrate schema',
      // Most of what is read stays: with the default of 16 MB the garbage collector copies it again and again.
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB },
    });
    // Only a pending request keeps the process alive.
    this.#worker.unref();
    this.#worker.on('message', (message: ThreadMessage) => {
      if (message.type === 'audit') audit?.(message.entry);
      else if (message.type === 'done') this.#settle(message.id, message.value);
      else this.#settle(message.id, errorOf(message.failure));
    });
    this.#worker.on('error', (cause) =>
      this.#end(new SafemigrateError('SERVER', 'The thread that reads the schema failed.', { cause })),
    );
    this.#worker.on('exit', () =>
      this.#end(new SafemigrateError('INTERRUPTED', 'Reading the schema was interrupted.')),
    );
  }

  /** Reads the schema of this database and keeps it. @throws SafemigrateError as openSession does, or `SERVER` for a failed catalogue query. */
  async before(settings: ConnectionSettings, { run }: { run?: string } = {}): Promise<void> {
    await this.#ask({ kind: 'before', settings, run });
  }

  /** The fingerprint of the schema before, which can be compared with that of another database. */
  fingerprint(): Promise<string> {
    return this.#ask({ kind: 'fingerprint' });
  }

  /** Hashes of the objects of the schema before, by kind and name. */
  hashes(): Promise<Record<string, string>> {
    return this.#ask({ kind: 'hashes' });
  }

  /**
   * Reads the schema again and compares it with the schema before. May be called more than once.
   * @param options.inUse others work in the database: nothing is locked, so there is no rollback SQL after renames.
   */
  after({ inUse = false }: { inUse?: boolean } = {}): Promise<Comparison> {
    return this.#ask({ kind: 'after', inUse });
  }

  /** The changes from the schema before to that of another database, by names alone. */
  describe(settings: ConnectionSettings): Promise<SchemaChange[]> {
    return this.#ask({ kind: 'describe', settings });
  }

  /** The changes from the schema before to the same on another version, by names alone. @param settings of a superuser if possible. */
  upgraded(settings: ConnectionSettings): Promise<VersionDifference> {
    return this.#ask({ kind: 'upgraded', settings });
  }

  /** Ends the thread at once, whatever it does: calls that have not returned yet throw `INTERRUPTED`. Idempotent. */
  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #ask<Kind extends Request['kind']>(request: Request & { kind: Kind }): Promise<Responses[Kind]> {
    const response = new Promise<Responses[Request['kind']]>((resolve, reject) => {
      if (this.#ended) return reject(this.#ended);
      this.#requests += 1;
      this.#pending.set(this.#requests, (outcome) =>
        outcome instanceof Error ? reject(outcome) : resolve(outcome),
      );
      this.#worker.ref();
      this.#worker.postMessage({ id: this.#requests, request });
    });
    return response as Promise<Responses[Kind]>;
  }

  #settle(id: number, outcome: Outcome): void {
    const settle = this.#pending.get(id);
    this.#pending.delete(id);
    if (this.#pending.size === 0) this.#worker.unref();
    settle?.(outcome);
  }

  #end(error: SafemigrateError): void {
    this.#ended ??= error;
    for (const id of [...this.#pending.keys()]) this.#settle(id, error);
  }
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
