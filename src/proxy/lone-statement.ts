import { copiesData } from '../postgres/sql/classify-statement.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';
import type { Batch } from './batch.ts';
import { HeldResponse } from './held-response.ts';
import {
  onlyStatement,
  type PreparedStatement,
  REFUSED_PARSE,
  refusedRequest,
  startOfPrepared,
} from './prepared-statement.ts';
import { serveResendable } from './resend.ts';
import type { SessionContext } from './session-context.ts';
import type { SessionNames } from './session-names.ts';

/** The one statement of a batch: alone in its transaction, it may be sent again. */
export interface LoneStatement extends PreparedStatement {
  readonly parsed: ParsedStatement;
  /** The prepared statements that the batch's Parse messages make, with their names, in order. */
  readonly prepared: readonly (readonly [string, PreparedStatement])[];
}

/** Returns the statement that a batch runs, if it may be sent again. @param known prepared before the batch. */
export async function loneStatementOf(
  batch: Batch,
  known: SessionNames<PreparedStatement>,
  context: SessionContext,
): Promise<LoneStatement | undefined> {
  const prepared: [string, PreparedStatement][] = [];
  for (const { name, text } of batch.parses) {
    const { statements } = await context.parse(text);
    prepared.push([name, { sql: text.toString().trim(), parsed: onlyStatement(statements) }]);
  }
  const name = batch.executes;
  const statement = name === undefined ? undefined : (new Map(prepared).get(name) ?? known.get(name));
  const parsed = statement?.parsed;
  if (!statement || parsed?.role !== 'ordinary' || copiesData(parsed.node)) return undefined;
  return { sql: statement.sql, parsed, prepared };
}

/** Serves a batch that is one statement. @returns the prepared statements that the server has from it. */
export async function serveLoneStatement(
  batch: Batch,
  lone: LoneStatement,
  context: SessionContext,
): Promise<LoneStatement['prepared']> {
  const { requests, transaction } = context;
  await transaction.locks.settled();
  const canceled = await context.waitToBegin();
  if (requests.lost) return [];
  const refusal = canceled ?? (await context.refusal(lone.sql, lone.parsed));
  if (refusal) {
    const held = new HeldResponse();
    requests.expect({ ...refusedRequest(lone, refusal, context), endsWith: 'ready', held });
    await context.send(batch.bytes({ execute: REFUSED_PARSE }));
    await requests.drained();
    return lone.prepared.slice(0, held.parsesAnswered);
  }
  const answered = await serveResendable(context, {
    starts: [startOfPrepared(lone, context)],
    bytes: (withoutParses) => batch.bytes({ withoutParses }),
    heldBytes: undefined,
    only: context.intent(lone.sql, lone.parsed),
  });
  return lone.prepared.slice(0, answered);
}
