/**
 * Every failure that safemigrate foresees, as one closed set. The command line derives its exit code from
 * the code (src/cli/exit-codes.ts), so a new code is added there in the same change.
 */
export type ErrorCode =
  /** The words on the command line do not make sense together. */
  | 'USAGE'
  /** The configuration (file, environment, URL) is wrong; every mistake is in the one message. */
  | 'CONFIGURATION'
  /** The command cannot be started: not found, not executable. Found before anything is touched. */
  | 'COMMAND'
  /** The command cannot be sandboxed, and must not run without that. */
  | 'SANDBOX'
  /** The server cannot be reached, or does not let us in. */
  | 'CONNECTION'
  /** The server is not one we can rehearse on: too old, a pooler, a standby. */
  | 'SERVER'
  /** The role lacks a privilege. */
  | 'PRIVILEGE'
  /** Sessions on the target are in the way of the clone. */
  | 'SESSIONS'
  /** Making the clone would make connections to the target wait longer than allowed. */
  | 'STALL'
  /** There is no room for the clone. */
  | 'DISK'
  /** The clone could not be made, for a reason of its own. */
  | 'CLONE'
  /** A connection that the run depends on was lost in the middle. */
  | 'LOST'
  /** The target was changed, and there is no report that could say so. */
  | 'TARGET_CHANGED'
  /** An apply or a swap was refused, or was aborted and fully undone. */
  | 'REFUSED'
  /** A thing that was to be dropped is not provably ours. */
  | 'NOT_OURS'
  /** Ended by a signal or an abort. */
  | 'INTERRUPTED';

/** A foreseeable failure: its message stands alone, without a stack trace. */
export class SafemigrateError extends Error {
  override readonly name = 'SafemigrateError';
  readonly code: ErrorCode;
  /** The next step, in the imperative. */
  readonly hint: string | undefined;
  /** PostgreSQL's own code if the failure came from the server. */
  readonly sqlstate: string | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    details: { readonly hint?: string; readonly sqlstate?: string; readonly cause?: unknown } = {},
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.hint = details.hint;
    this.sqlstate = details.sqlstate ?? sqlstateOf(details.cause);
  }
}

/** The SQLSTATE of a server's error, or undefined for anything else (Node's own codes, such as EPIPE, look alike). */
export function sqlstateOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('severity' in error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** The code of an error of the operating system (`ENOENT`); empty for anything else. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join('; ');
  return error instanceof Error ? error.message : String(error);
}
