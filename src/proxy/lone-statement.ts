import { SYNC } from '../postgres/protocol/messages.ts';
import { copiesData } from '../postgres/sql/classify-statement.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';
import type { Batch } from './batch.ts';
import {
  onlyStatement,
  type PreparedStatement,
  REFUSED_PARSE,
  refusedRequest,
  startOfPrepared,
} from './prepared-statement.ts';
import { serveResendable } from './resend.ts';
import type { SessionContext } from './session-context.ts';

/** The one statement of a batch: alone in its transaction, it may be sent again. */
export interface LoneStatement extends PreparedStatement {
  readonly parsed: ParsedStatement;
  /** The prepared statements that the batch's Parse messages make, by their names. */
  readonly prepared: ReadonlyMap<string, PreparedStatement>;
}

/** Returns the statement that a batch runs, if it may be sent again. @param known prepared before the batch. */
export async function loneStatementOf(
  batch: Batch,
  known: ReadonlyMap<string, PreparedStatement>,
  context: SessionContext,
): Promise<LoneStatement | undefined> {
  const prepared = new Map<string, PreparedStatement>();
  for (const { name, text } of batch.parses) {
    const { statements } = await context.parse(text);
    prepared.set(name, { sql: text.toString().trim(), parsed: onlyStatement(statements) });
  }
  const name = batch.executes;
  const statement = name === undefined ? undefined : (prepared.get(name) ?? known.get(name));
  const parsed = statement?.parsed;
  if (!statement || parsed?.role !== 'ordinary' || copiesData(parsed.node)) return undefined;
  return { sql: statement.sql, parsed, prepared };
}

/** Serves a batch that is one statement. @returns whether it was sent; false if it was refused. */
export async function serveLoneStatement(
  batch: Batch,
  lone: LoneStatement,
  context: SessionContext,
): Promise<boolean> {
  const { requests, transaction } = context;
  await transaction.locks.settled();
  const canceled = await context.waitToBegin();
  if (requests.lost) return false;
  const refusal = canceled ?? (await context.refusal(lone.sql, lone.parsed));
  if (refusal) {
    requests.expect({ ...refusedRequest(lone, refusal, context), endsWith: 'ready' });
    await context.send(Buffer.concat([REFUSED_PARSE, SYNC]));
    await requests.drained();
    return false;
  }
  await serveResendable(context, {
    starts: [startOfPrepared(lone, context)],
    bytes: (parsesAnswered) => batch.bytes(parsesAnswered),
    heldBytes: undefined,
    only: context.intent(lone.sql, lone.parsed),
  });
  return true;
}
