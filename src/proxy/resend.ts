import { ownStatement, SERVER } from '../postgres/protocol/messages.ts';
import type { Intent } from './observed.ts';
import type { Pending, PendingRequest, Unsaid } from './pending-request.ts';
import type { SessionContext } from './session-context.ts';
import type { Running } from './statement-recorder.ts';

/** What is a transaction by itself: one statement, or a text of several. */
export interface Resendable {
  /** Begins it anew. Without what keeps its error. */
  readonly turn: () => PendingRequest;
  /** Those that have begun since the turn did; the last one is under way, or has failed. */
  readonly begun: () => readonly Running[];
  /** What is sent. @param parsed so many Parse messages were answered already: a named statement outlives the failure. */
  readonly bytes: (parsed: number) => Buffer;
}

/** lock_not_available: the lock was not had in time, or not at once. */
const LOCK_NOT_AVAILABLE = '55P03';

// Where the command has set it by itself, the source is its session.
const WAIT_FOR_LOCKS = ownStatement(
  `SELECT pg_catalog.set_config('lock_timeout', '0', false) FROM pg_catalog.pg_settings
    WHERE name OPERATOR(pg_catalog.=) 'lock_timeout' AND source OPERATOR(pg_catalog.=) 'client'`,
);
/** Leads back to what the session was begun with. */
const RESET = ownStatement('RESET lock_timeout');

/**
 * Serves what is a transaction by itself: it is sent as it came; an error because of a lock is kept from the client, with
 * what was kept before it, while the gate has it sent again. The client hears of the last attempt alone.
 * @param only the statement, where it is one: it may be one that has to wait for locks.
 */
export async function serveResendable(
  line: SessionContext,
  { turn, begun, bytes }: Resendable,
  only?: Intent,
): Promise<void> {
  const { exchange, recorder } = line;
  const waits = only !== undefined && line.waitsForLocks(only) && (await own(line, WAIT_FOR_LOCKS));
  const startedMs = performance.now();
  let again = true;
  let parsed: readonly Unsaid[] = [];
  for (let number = 1; again; number++) {
    const pending: Pending = exchange.expect({
      ...turn(),
      keepsError: (fields) => fields.get('C') === LOCK_NOT_AVAILABLE,
    });
    pending.unsaid = [...parsed];
    await line.send(bytes(parsed.length));
    await line.outcome(pending, 'simple');
    const { kept } = pending;
    if (!kept) break;
    exchange.tellAside(pending);
    const failed = begun().at(-1);
    again =
      failed !== undefined &&
      exchange.status === 'I' &&
      (await line.again(line.intent(failed.statement.sql, failed.parsed), {
        number,
        sinceMs: performance.now() - startedMs,
        error: kept.fields,
      }));
    if (again) recorder.undo(begun());
    else if (!exchange.lost) exchange.tell(pending);
    parsed = answersToParse(pending);
  }
  if (waits && !exchange.lost) await own(line, RESET);
}

function answersToParse({ unsaid }: Pending): Unsaid[] {
  return (unsaid ?? []).filter(({ type }) => type === SERVER.parseComplete);
}

/** A statement of ours between the client's. @returns whether it did something to a row. */
async function own(line: SessionContext, statement: Buffer): Promise<boolean> {
  let did = false;
  const pending = line.exchange.expect({
    ends: 'ready',
    relay: 'own',
    onError: () => undefined,
    onCompletion: (tag) => {
      did = tag !== 'SELECT 0';
    },
  });
  await line.send(statement);
  return (await line.outcome(pending, 'simple')) === 'succeeded' && did;
}
