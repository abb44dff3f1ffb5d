import type { StatementNote } from '../model/report.ts';
import { LARGEST_TEXT_BYTES } from '../postgres/protocol/frames.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';
import type { Statement } from './observed.ts';
import type { Preparation } from './server-clock.ts';

/** A statement that is about to be sent. */
export interface StatementStart {
  readonly sql: string;
  /** Says why `sql` is a note, if it is not the client's text. */
  readonly note?: StatementNote | undefined;
  readonly parsed: ParsedStatement | null;
  /** The values of its parameters as SQL; null if they cannot be written so. */
  readonly values?: readonly string[] | null | undefined;
  /**
   * The way in which it is sent.
   * - `wrapped`: by itself, between our BEGIN and COMMIT.
   * - `observed`: by itself, in a transaction that goes on behind it, or as a repetition of DML that was observed.
   * - `through`: by itself, as it came.
   * - `together`: as it came, with other statements of its text; the server tells their ends together.
   */
  readonly sent: 'wrapped' | 'observed' | 'through' | 'together';
  /** The prepared statement that it executes, by identity; its first execution has the time of its Parse. */
  readonly preparation?: Preparation | undefined;
}

/**
 * The way in which the locks of a statement become known.
 * - `read`: they are read after its end.
 * - `like`: it takes those of the statement of the same normalised text that was observed before.
 * - `none`: it begins or ends a transaction, and takes none.
 * - `sampled`: they are not read; a sampler may see some.
 */
export type LockSource = 'read' | 'like' | 'none' | 'sampled';

export interface BegunStatement {
  readonly statement: Statement;
  readonly parsed: ParsedStatement | null;
  readonly lockSource: LockSource;
  /** The server's position in the WAL when the statement began. */
  readonly walPosition: number | null;
  /** For so long the server has worked on it so far. */
  durationMs: number;
  /** The part of it before it began. */
  readonly preparedMs: number;
  /** Rows of the parts of a portal that were fetched so far: the server's tag has those of the last part. */
  fetchedRows: number;
  /** The ledger has it. */
  inLedger: boolean;
  /** The fields of the server's first warnings about it, by their protocol letters. */
  readonly warnings: ReadonlyMap<string, string>[];
}

/** Returns a statement's text as the report has it: the text itself, or a note if it is too large to be parsed. */
export function shownText(text: Buffer): Pick<StatementStart, 'sql' | 'note'> {
  return text.length > LARGEST_TEXT_BYTES ? unreadText(text.length) : { sql: text.toString().trim() };
}

export function unreadText(bytes: number): Pick<StatementStart, 'sql' | 'note'> {
  return { sql: `[a text of ${bytes} bytes]`, note: 'unread' };
}
