import { ownStatement } from '../postgres/protocol/messages.ts';
import type { StatementStart } from './begun-statement.ts';
import { HeldResponse } from './held-response.ts';
import type { Intent } from './observed.ts';
import type { PendingRequest } from './request-queue.ts';
import type { SessionContext } from './session-context.ts';
import { StatementSequence } from './statement-sequence.ts';

/** A transaction that is sent in one go: one statement, or a text of several. */
export interface Resendable {
  readonly starts: readonly StatementStart[];
  /** Builds what is sent, without the first Parse messages that were answered already. */
  readonly bytes: (parsesAnswered: number) => Buffer;
  /** So many bytes of the answer are held, rows and completions among them; undefined: what precedes these. */
  readonly heldBytes: number | undefined;
  /** The statement, if it is one: it may be one that has to wait for locks. */
  readonly only: Intent | undefined;
  /** It may write, though the session is read-only. */
  readonly writes?: boolean;
}

// A lock_timeout that the command has set by itself has its session as the source.
const WAIT_FOR_LOCKS = ownStatement(
  `SELECT pg_catalog.set_config('lock_timeout', '0', false) FROM pg_catalog.pg_settings
    WHERE name OPERATOR(pg_catalog.=) 'lock_timeout' AND source OPERATOR(pg_catalog.=) 'client'`,
);
/** Restores the value that the session was begun with. */
const RESET = ownStatement('RESET lock_timeout');
const READ_WRITE = ownStatement('SET default_transaction_read_only = off');
const READ_ONLY = ownStatement('SET default_transaction_read_only = on');

/**
 * Sends a transaction as it came. An error because of a lock is held, with what was held before it, while the gate has the
 * transaction sent again: the client gets the answer to the last attempt only. @returns how many Parse messages have succeeded.
 */
export async function serveResendable(context: SessionContext, resendable: Resendable): Promise<number> {
  const { requests } = context;
  const { only, writes = false } = resendable;
  const waits =
    only !== undefined && context.runsWithoutLockTimeout(only) && (await changesRow(context, WAIT_FOR_LOCKS));
  if (writes) await changesRow(context, READ_WRITE);
  const startedMs = performance.now();
  let held = new HeldResponse(resendable.heldBytes);
  for (let number = 1; await failsAgain(context, resendable, { number, startedMs, held }); number++)
    held = new HeldResponse(resendable.heldBytes, held.parseAnswers);
  if (waits && !requests.lost) await changesRow(context, RESET);
  // A cancel request may have come too late for the statement.
  if (writes && !requests.lost && !(await changesRow(context, READ_ONLY))) context.breakOff();
  return held.parsesAnswered;
}

/** Sends it once. @returns whether it failed, and is to be sent again. */
async function failsAgain(
  context: SessionContext,
  { starts, bytes }: Resendable,
  { number, startedMs, held }: { number: number; startedMs: number; held: HeldResponse },
): Promise<boolean> {
  const { requests, relay, transaction } = context;
  const statements = new StatementSequence(transaction, starts);
  const pending = requests.expect({ endsWith: 'ready', relay: 'whole', statements, held });
  await context.send(bytes(held.parseAnswers.length));
  await context.outcome(pending, 'simple');
  const { error } = held;
  if (!error) return false;
  relay.releaseAsides(held);
  const failed = statements.last;
  const again =
    failed !== undefined &&
    held.status === 'I' &&
    (await context.mayRetry(context.intent(failed.statement.sql, failed.parsed), {
      number,
      sinceMs: performance.now() - startedMs,
      error,
    }));
  if (again) statements.undo();
  else if (!requests.lost) relay.deliverHeld(pending);
  return again;
}

/** Sends a statement of ours between the client's. @returns whether it succeeded, and was no SELECT of nothing. */
async function changesRow(context: SessionContext, statement: Buffer): Promise<boolean> {
  const pending: PendingRequest = context.requests.expect({
    endsWith: 'ready',
    relay: 'own',
    hidesError: () => true,
  });
  await context.send(statement);
  return (await context.outcome(pending, 'simple')) === 'succeeded' && pending.tag !== 'SELECT 0';
}
