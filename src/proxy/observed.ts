import type { StatementNote } from '../model/report.ts';
import type { PostgresError } from '../postgres/protocol/messages.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';

/**
 * The exactness with which the locks of a statement are known.
 * - `exact`: they were read after its end, before its transaction's end.
 * - `group`: it is one of several like DML statements, whose locks were read once.
 * - `sampled`: it went through as it came; a sampler saw what it held now and then, if at all.
 * - `unknown`: it failed, and its locks were gone with it, or they could not be read.
 */
export type Exactness = 'exact' | 'group' | 'sampled' | 'unknown';

export type Observe = 'exact' | 'sampled' | 'off';

/** A relation lock as pg_lock_status() has it. */
export interface RelationLock {
  /** OID of the database; 0 for a shared relation. */
  readonly database: number;
  readonly relation: number;
  /** `AccessExclusiveLock`, … */
  readonly mode: string;
}

/** One reading of the server's state: a backend's locks, and figures of the whole server, null if they may not be read. */
export interface StatementReading {
  readonly locks: readonly RelationLock[];
  /** Ids of the backend's transaction and of its open savepoints, in the 32 bits that rows carry. */
  readonly xids: readonly number[];
  /** A 64-bit transaction id: whatever began to write later has this one or a higher one, whatever ended a lower one. */
  readonly nextXid: number | null;
  /** The position in the WAL, in bytes. */
  readonly walPosition: number | null;
  /** The time of performance.now() before the query was sent. */
  readonly askedMs: number;
}

/** One statement that the command sends. */
export interface Statement {
  /** Counts from 1 in the order of beginning, over all sessions of the proxy. */
  readonly id: number;
  readonly session: number;
  /** Process id of the session's backend. */
  readonly pid: number;
  /** The client's own text, or a note in brackets if there is none to show. */
  readonly sql: string;
  /** Why `sql` is a note; null if it is the client's text. */
  readonly note: StatementNote | null;
  /** The text that the statements of a loop have in common: the normalised text of DML, and else the text. */
  readonly shape: string;
  /** Counts from 1 over all sessions of the proxy. */
  readonly transaction: number;
  /** Within the command's own BEGIN … COMMIT. */
  readonly explicit: boolean;
  /** The values of its parameters as SQL; null if they cannot be written so, undefined if it has none. */
  readonly values?: readonly string[] | null | undefined;
  readonly startedAt: Date;
}

export interface Outcome {
  readonly tag: string | null;
  readonly rows: number | null;
  /** The fields of PostgreSQL's error by their protocol letters; null when it succeeded. */
  readonly error: ReadonlyMap<string, string> | null;
  /** For so long the server worked on it, in milliseconds (server-clock.ts). */
  readonly durationMs: number;
  /** The part of it before `startedAt`, in which the statement was prepared; missing: none. */
  readonly preparedMs?: number;
  /** The fields of the server's first warnings; missing: there were none. */
  readonly warnings?: readonly ReadonlyMap<string, string>[];
}

/** Events that the proxy reports while it runs, in the order in which they happen within a session. */
export type Observed =
  | {
      type: 'session';
      session: number;
      pid: number;
      user: string;
      database: string;
      application: string;
      /** The client's start-up parameters: `options`, and settings by their names. */
      parameters: readonly (readonly [name: string, value: string])[];
    }
  /** `workedMs`: for so long the server had statements of the client to work on that had begun. */
  | { type: 'session-end'; session: number; pid: number; at: Date; workedMs: number }
  | { type: 'begin'; statement: Statement }
  | { type: 'end'; statement: Statement; outcome: Outcome }
  /**
   * The locks of statements that have ended: those that they added to their transaction's, or, for one that was not observed
   * by itself, those that a statement with the same normalised text added.
   */
  | {
      type: 'locks';
      statements: readonly Statement[];
      exactness: Exactness;
      locks: readonly RelationLock[] | null;
      /** WAL of the whole server while they ran. */
      walBytes: number | null;
    }
  /**
   * A transaction was rolled back without the client's knowledge, and is sent again: everything that was reported of these
   * statements is void. They begin again with the same numbers, in the same transaction.
   */
  | { type: 'undone'; session: number; transaction: number; statements: readonly Statement[] }
  /** A reading of the server's state, for the statements of a transaction or for none. */
  | { type: 'reading'; transaction: number | null; reading: StatementReading }
  | {
      type: 'transaction-end';
      session: number;
      transaction: number;
      at: Date;
      outcome: 'committed' | 'rolled back' | 'prepared';
      /** The connection broke in it, so that the server may still run it. */
      lost: boolean;
    };

export type Observer = (event: Observed) => void;

/** A statement before it is sent. */
export interface Intent {
  readonly session: number;
  readonly user: string;
  /** The name by which the command calls it. */
  readonly database: string;
  readonly sql: string;
  /** null if the parser did not accept the text, or it was too large to be parsed (over 2 MB). */
  readonly parsed: ParsedStatement | null;
}

/**
 * Decides whether statements may run; a refusal is answered as an error of the server's would be, with everything that
 * follows from one. It is not asked about a repetition of DML that was let through.
 */
export interface Gate {
  /** Statements need not be read if they are not observed: nothing would be refused, or the server's sandbox holds it back. */
  readonly open?: boolean;
  before(intent: Intent): GateAnswer | Promise<GateAnswer>;
  /**
   * Takes note of the command tag with which the server ends a statement. @param parsed the statement that was sent, as far as that
   * is known; null: it was not parsed, or none was expected.
   */
  completed?(tag: string, parsed: ParsedStatement | null): void;
  /** Begins to read a text that is too large to be held, and is sent on as it comes; a refusal ends the session. */
  unread?(database: string): UnreadText;
  /** Decides whether a session may begin with these settings. */
  begins?(settings: readonly (readonly [name: string, value: string])[]): GateAnswer;
  /** Tells whether sessions of this database are forced to be read-only. */
  readsOnly?(database: string): boolean;
  /** Tells whether this statement may write in such a session. */
  mayWrite?(intent: Intent): boolean;
  /** Decides about a call of a function by its OID: the protocol's fast path. */
  calls?(oid: number, database: string): GateAnswer;
  /** Returns the text to send in place of one that names something which has another name here, if there is one. */
  translate?(text: string, statements: readonly ParsedStatement[]): Promise<string | undefined>;
  /**
   * Holds back the first message of a transaction until it resolves. The signal aborts if the client asks for a cancel or
   * has gone.
   */
  between?(signal: AbortSignal): Promise<void>;
  /**
   * Tells whether this statement, alone in its transaction, is to run without the lock_timeout that the session was given
   * at its start. One that the command has set by itself stays.
   */
  waitsForLocks?(intent: Intent): boolean;
  /**
   * Decides about a statement that has failed, before the client knows, if nothing of it stays: it was alone in its
   * transaction, or in a text that was one. On `retry` the same bytes are sent again. It may wait before it answers. Only
   * used if statements go as they came (not `exact`); such a gate does not translate.
   */
  after?(intent: Intent, attempt: StatementAttempt): Promise<'deliver' | 'retry'>;
}

/** A text that the parser does not read, and that comes in parts. */
export interface UnreadText {
  /** Decides about the text up to here. */
  push(bytes: Buffer): GateAnswer;
  /** Decides about all of it, of which these are the last bytes. */
  end(bytes: Buffer): GateAnswer;
}

export interface StatementAttempt {
  /** Counts from 1. */
  readonly number: number;
  /** Since the first one was sent. */
  readonly sinceMs: number;
  /** The fields of PostgreSQL's error by their protocol letters. */
  readonly error: ReadonlyMap<string, string>;
  /** The client asks for a cancel, or has gone. */
  readonly signal: AbortSignal;
}

export type GateAnswer = 'run' | PostgresError;

/** Reads a backend's relation locks now; null if they cannot be read. Never rejects. */
export type ReadLocks = (pid: number) => Promise<StatementReading | null>;
