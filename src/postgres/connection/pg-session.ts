import { setMaxListeners } from 'node:events';
import type { Client, QueryResult } from 'pg';
import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import type { Audit } from './audit.ts';
import type { ConnectionSettings, HostAndPort } from './connection-settings.ts';
import type { Link } from './dial.ts';
import { openLink } from './link.ts';
import { recordOwnBackend } from './own-backends.ts';
import { READER_MARK } from './reader-mark.ts';
import type { Session } from './session.ts';
import { pooler } from './supported-versions.ts';

interface BackendKey {
  readonly processID: number;
  readonly secretKey: number;
}

const QUERY_CANCELED = '57014';
const CANCEL_REQUEST_CODE = 80877102;
const CLOSE_TIMEOUT_MS = 2_000;
/** Time for an answer beyond the statement_timeout, which a session may also set for some statements. */
const LATE_MS = 60_000;

/** A Session over a `pg` client, created by connect.ts before the client logs in. */
export class PgSession implements Session {
  readonly database: string;
  readonly address: HostAndPort;
  readonly client: Client;
  readonly #settings: ConnectionSettings;
  readonly #link: Link;
  readonly #signal: AbortSignal | undefined;
  readonly #throughPooler: boolean;
  readonly #pipelined: boolean;
  readonly #mark: string;
  /** 0: statements may take any time. */
  readonly #answerWithinMs: number;
  readonly #listeners: ((reason: string) => void)[] = [];
  readonly #onAbort = () => void this.cancel();
  #key: BackendKey | undefined;
  #pid = 0;
  #transactions = 0;
  /** Queries sent and not yet answered by ReadyForQuery. */
  #running = 0;
  /** pg takes one query at a time; later ones wait for this promise. */
  #turn: Promise<unknown> = Promise.resolve();
  #cancelling: Promise<void> | undefined;
  #lost: string | undefined;
  #forget: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  constructor(
    client: Client,
    settings: ConnectionSettings,
    link: Link,
    options: {
      purpose: string;
      audit?: Audit;
      signal?: AbortSignal;
      throughPooler?: boolean;
      pipelined?: boolean;
      marked?: boolean;
      statementTimeoutMs: number;
    },
  ) {
    this.client = client;
    this.database = settings.database;
    this.address = link.address;
    this.#settings = settings;
    this.#link = link;
    this.#signal = options.signal;
    this.#throughPooler = options.throughPooler ?? false;
    this.#pipelined = options.pipelined ?? false;
    this.#mark = options.marked ? ` ${READER_MARK}` : '';
    this.#answerWithinMs = options.statementTimeoutMs === 0 ? 0 : options.statementTimeoutMs + LATE_MS;
    this.#watch();
    this.#auditEverything(options.purpose, options.audit);
  }

  get pid(): number {
    return this.#pid;
  }

  get transactions(): number {
    return this.#transactions;
  }

  /**
   * Applies the session's settings; called once after the login.
   * @param sql takes the process that the login announced, and returns that of the backend.
   * @throws SafemigrateError `SERVER` if a pooler is in between.
   */
  async setUp(sql: string): Promise<void> {
    const announced = this.#key?.processID ?? 0;
    const rows = await this.query<{ pid: number }>(sql, [announced]);
    this.#pid = rows[0]?.pid ?? 0;
    // A pooler announces its own cancel keys.
    if (announced !== this.#pid && !this.#throughPooler) throw pooler(this.address);
    if (!this.#signal) return;
    // One signal ends the whole run with all its sessions: more listeners than Node's warning allows.
    setMaxListeners(0, this.#signal);
    this.#signal.addEventListener('abort', this.#onAbort);
  }

  query<Row extends object = Record<string, unknown>>(
    sql: string,
    values: readonly unknown[] = [],
  ): Promise<Row[]> {
    return this.#inTurn(async () => (await this.#send<QueryResult<Row>>(sql, values)).rows);
  }

  async queryAll<Row extends object = Record<string, unknown>>(
    statements: readonly string[],
  ): Promise<Row[][]> {
    if (statements.length === 0) return [];
    // A comment at the end of one statement must not swallow the next.
    const send = () => this.#send<QueryResult<Row> | QueryResult<Row>[]>(statements.join('\n;'), []);
    const sent = this.#pipelined ? send() : this.#inTurn(send);
    return [await sent].flat().map(({ rows }) => rows);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {});
    return result;
  }

  onLost(listener: (reason: string) => void): void {
    if (this.#lost === undefined) this.#listeners.push(listener);
    else if (!this.#closing) listener(this.#lost);
  }

  cancel(): Promise<void> {
    if (this.#running === 0 || this.#key === undefined || this.#lost !== undefined) return Promise.resolve();
    const request = Buffer.alloc(16);
    request.writeInt32BE(16, 0);
    request.writeInt32BE(CANCEL_REQUEST_CODE, 4);
    request.writeInt32BE(this.#key.processID, 8);
    request.writeInt32BE(this.#key.secretKey, 12);
    this.#cancelling ??= this.#sendCancel(request).finally(() => {
      this.#cancelling = undefined;
    });
    return this.#cancelling;
  }

  abandon(reason: string): void {
    this.#link.socket.destroy(new Error(reason));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #send<Result>(sql: string, values: readonly unknown[]): Promise<Result> {
    // A cancel request under way must not hit the next query.
    await this.#cancelling;
    if (this.#lost !== undefined) throw this.#lostError();
    const overdue = this.#untilOverdue();
    try {
      // For several statements in one text, the client returns a list of results.
      return (await this.client.query(`${sql}${this.#mark}`, [...values])) as Result;
    } catch (error) {
      throw this.#explain(error);
    } finally {
      clearInterval(overdue);
    }
  }

  /** The server itself ends a statement that takes too long. If no answer comes even then, none will: somebody else may have read it. */
  #untilOverdue(): NodeJS.Timeout | undefined {
    const ms = this.#answerWithinMs;
    if (ms === 0) return undefined;
    // In two steps: after a stop of our own process the answer may be there already.
    let step = 0;
    return setInterval(() => {
      step += 1;
      if (step === 2) this.abandon(`no answer came for ${ms / 1000} s`);
    }, ms / 2);
  }

  #explain(error: unknown): unknown {
    const sqlstate = sqlstateOf(error);
    if (sqlstate === QUERY_CANCELED && this.#signal?.aborted)
      return new SafemigrateError('INTERRUPTED', 'Interrupted while a query ran.', { cause: error });
    const fatal = isFatal(error);
    if (fatal) this.#lose(messageOf(error));
    return fatal || sqlstate === undefined ? this.#lostError(error) : error;
  }

  #lostError(cause?: unknown): SafemigrateError {
    const { host, port } = this.address;
    return new SafemigrateError(
      'LOST',
      `The connection to the database "${this.database}" at ${host}:${port} was lost: ${this.#lost ?? messageOf(cause)}`,
      { ...(cause === undefined ? {} : { cause }) },
    );
  }

  #watch(): void {
    const { client } = this;
    client.connection.on('backendKeyData', (key: BackendKey) => {
      this.#key = key;
      this.#forget = recordOwnBackend({
        address: this.address,
        database: this.database,
        pid: key.processID,
      });
    });
    client.connection.on('readyForQuery', ({ status }: { status: string }) => {
      this.#running = Math.max(0, this.#running - 1);
      if (status === 'I') this.#transactions += 1;
    });
    client.on('error', (error) => this.#lose(messageOf(error)));
    client.on('end', () => this.#lose('the connection was closed'));
  }

  #lose(reason: string): void {
    if (this.#lost !== undefined) return;
    this.#lost = reason;
    this.#forget?.();
    this.#signal?.removeEventListener('abort', this.#onAbort);
    if (!this.#closing) for (const listener of this.#listeners) listener(reason);
  }

  /** Audits at the client, because libraries use it directly. */
  #auditEverything(purpose: string, audit: Audit | undefined): void {
    const { client, database } = this;
    const send = client.query as (...args: unknown[]) => unknown;
    const observed = (...args: unknown[]): unknown => {
      const { sql, values } = statementOf(args);
      audit?.({ at: new Date().toISOString(), database, purpose, sql, values });
      this.#running += 1;
      return send.apply(client, args);
    };
    client.query = observed as Client['query'];
  }

  async #sendCancel(request: Buffer): Promise<void> {
    const { address, encrypted } = this.#link;
    try {
      const socket = await openLink(this.#settings, address, encrypted ? 'tls' : 'plain');
      await new Promise<void>((resolve) => {
        socket.on('error', () => {});
        socket.once('close', () => resolve());
        // The server answers by closing the connection, which only a reader notices.
        socket.resume();
        socket.end(request);
      });
    } catch {
      // The query then ends by its statement_timeout.
    }
  }

  async #close(): Promise<void> {
    if (this.#lost !== undefined) return;
    await this.cancel();
    this.#signal?.removeEventListener('abort', this.#onAbort);
    const { socket } = this.#link;
    const timer = setTimeout(() => socket.destroy(), CLOSE_TIMEOUT_MS);
    try {
      await this.client.end();
    } catch {
      socket.destroy();
    } finally {
      clearTimeout(timer);
    }
  }
}

function statementOf([first, second]: readonly unknown[]): { sql: string; values: readonly unknown[] } {
  const config =
    typeof first === 'object' && first !== null ? (first as { text?: unknown; values?: unknown }) : {};
  const sql = typeof first === 'string' ? first : String(config.text ?? '');
  const values = Array.isArray(second) ? second : config.values;
  return { sql, values: Array.isArray(values) ? values : [] };
}

/** Errors that end the session: shutdown, crash, dropped database, the timeouts for idle sessions. */
const FATAL: ReadonlySet<string> = new Set(['57P01', '57P02', '57P03', '57P04', '57P05', '25P03', '25P04']);

function isFatal(error: unknown): boolean {
  return FATAL.has(sqlstateOf(error) ?? '');
}
