import type { StatementNote } from '../model/report.ts';
import type { PostgresError } from '../postgres/protocol/messages.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';

/**
 * How well the locks of a statement are known.
 * - `exact`: read after its end, before its transaction's end.
 * - `group`: it is one of a run of like DML, whose locks were read once.
 * - `sampled`: it went through as it came; what it held was seen by looking now and then, if at all.
 * - `unknown`: it failed, and its locks were gone with it, or the observer was not there.
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

/** What one look at the server shows, of one backend and of everything. Both numbers are null where they may not be had. */
export interface StatementReading {
  readonly locks: readonly RelationLock[];
  /** Ids of the backend's transaction and of its open savepoints, in the 32 bits that rows carry. */
  readonly xids: readonly number[];
  /** A transaction id in 64 bits: all that began to write later have this one or a higher one, all that ended a lower one. */
  readonly nextXid: number | null;
  /** Bytes of WAL since the cluster was made. */
  readonly walPosition: number | null;
  /** By the clock of performance.now(), before the server was asked. */
  readonly askedMs: number;
}

/** One statement that the command sends. */
export interface Statement {
  /** Counts from 1 in the order of beginning, over all sessions of the proxy. */
  readonly id: number;
  readonly session: number;
  /** The client's own text, or a note in brackets if there is none to show. */
  readonly sql: string;
  /** Why `sql` is a note; null if it is the client's text. */
  readonly note: StatementNote | null;
  /** Counts from 1 over all sessions of the proxy. */
  readonly transaction: number;
  /** Within the command's own BEGIN … COMMIT. */
  readonly explicit: boolean;
  readonly startedAt: Date;
}

export interface Outcome {
  readonly tag: string | null;
  readonly rows: number | null;
  /** The fields of PostgreSQL's error by their protocol letters; null when it succeeded. */
  readonly error: ReadonlyMap<string, string> | null;
  readonly durationMs: number;
}

/** What the proxy tells while it goes on, in the order in which it happens within a session. */
export type Observed =
  | {
      type: 'session';
      session: number;
      pid: number;
      user: string;
      database: string;
      application: string;
      /** Of the client's startup message: `options`, and settings by their names. */
      parameters: readonly (readonly [name: string, value: string])[];
    }
  | { type: 'session-end'; session: number; at: Date }
  | { type: 'begin'; statement: Statement }
  | { type: 'end'; statement: Statement; outcome: Outcome }
  /**
   * What is known of the locks of statements that have ended: those that they added to their transaction's.
   * `like`: the statement of the same shape that was observed in their place.
   */
  | {
      type: 'locks';
      statements: readonly Statement[];
      exactness: Exactness;
      locks: readonly RelationLock[] | null;
      /** WAL of the whole server while they ran. */
      walBytes: number | null;
      like?: Statement;
    }
  /**
   * A transaction was rolled back without the client's hearing of it, and what it consisted of is sent again: all that was
   * told of these statements is void. They begin anew with the same numbers, in the same transaction.
   */
  | { type: 'undone'; session: number; transaction: number; statements: readonly Statement[] }
  /** A look at the server, for the sake of a transaction's statements or of none. */
  | { type: 'reading'; transaction: number | null; reading: StatementReading }
  | {
      type: 'transaction-end';
      session: number;
      transaction: number;
      at: Date;
      outcome: 'committed' | 'rolled back';
      /** The connection broke in it, so that the server may still be at it. */
      lost: boolean;
    };

export type Observer = (event: Observed) => void;

/** A statement before it is sent. */
export interface Intent {
  readonly session: number;
  readonly user: string;
  /** As the command names it. */
  readonly database: string;
  readonly sql: string;
  /** null where the parser did not accept the text, or it was too large to be read. */
  readonly parsed: ParsedStatement | null;
}

/**
 * Decides of each statement whether it may run; a refusal is answered as an error of the server's would be, with
 * all that follows from one. Not asked: a text over 2 MB, and a repetition of DML that was let through.
 */
export interface Gate {
  before(intent: Intent): GateAnswer | Promise<GateAnswer>;
  /** The text that takes the place of one that names something which is called otherwise here; undefined: none. */
  translate?(text: string, statements: readonly ParsedStatement[]): Promise<string | undefined>;
  /**
   * Waited for before the first message of a transaction is sent; holds it back for as long as it likes. The signal tells
   * that the client asks for a cancel or has gone.
   */
  between?(signal: AbortSignal): Promise<void>;
  /**
   * Whether this statement, alone in its transaction, is to run without the lock_timeout that the session was given at
   * its start. One that the command has set by itself stays.
   */
  waitsForLocks?(intent: Intent): boolean;
  /**
   * Asked of a statement that has failed, before the client hears of it, where nothing stays: it was alone in its
   * transaction, or in a text that was one. On `retry` the same bytes are sent again. May take its time for a pause. Only
   * where statements go as they came (not `exact`); such a gate does not translate.
   */
  after?(intent: Intent, attempt: StatementAttempt): Promise<'deliver' | 'retry'>;
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

/** Looks at a backend's relation locks now; null where they cannot be had. Never rejects. */
export type ReadLocks = (pid: number) => Promise<StatementReading | null>;
