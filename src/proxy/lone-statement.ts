import type { Piece } from '../postgres/protocol/frames.ts';
import { bindMessage, CLIENT, parseMessage, SYNC, withParseText } from '../postgres/protocol/messages.ts';
import { copiesData } from '../postgres/sql/classify-statement.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';
import { HeldResponse } from './held-response.ts';
import {
  onlyStatement,
  type PreparedStatement,
  REFUSED_PARSE,
  refusedRequest,
  type SessionNames,
} from './prepared-statement.ts';
import { serveResendable } from './resend.ts';
import type { SessionContext } from './session-context.ts';

type Frame = Extract<Piece, { kind: 'frame' }>;

const GATHERED: ReadonlySet<number> = new Set([CLIENT.parse, CLIENT.bind, CLIENT.describe, CLIENT.execute]);

/** The messages of the extended protocol between two Syncs, as long as they may run one statement once. */
export class Batch {
  readonly #frames: Frame[] = [];

  /** Tells whether a batch may begin with this message. */
  static begins(piece: Piece): boolean {
    return piece.kind === 'frame' && (piece.type === CLIENT.parse || piece.type === CLIENT.bind);
  }

  /** Adds a message. @returns false if it does not belong to the batch, which ends before it. */
  add(piece: Piece): boolean {
    if (piece.kind !== 'frame' || !GATHERED.has(piece.type)) return false;
    const once = piece.type === CLIENT.bind || piece.type === CLIENT.execute;
    if (once && this.#of(piece.type).length > 0) return false;
    // It could give the name that was bound to another statement.
    if (piece.type === CLIENT.parse && this.#of(CLIENT.bind).length > 0) return false;
    this.#frames.push(piece);
    return true;
  }

  get pieces(): readonly Frame[] {
    return this.#frames;
  }

  /** Its Parse messages. */
  get parses(): readonly Frame[] {
    return this.#of(CLIENT.parse);
  }

  /** Puts another text into a Parse message. */
  translate(frame: Frame, text: Buffer): void {
    this.#frames[this.#frames.indexOf(frame)] = { ...frame, bytes: withParseText(frame.bytes, text) };
  }

  /** The name of the prepared statement that is executed; undefined if none is. */
  get executes(): string | undefined {
    const [bind] = this.#of(CLIENT.bind);
    const [execute] = this.#of(CLIENT.execute);
    return bind && execute ? bindMessage(bind.bytes).statement : undefined;
  }

  /** Builds what is sent: with the Sync, without the first so many Parse messages, and with something in place of the Execute. */
  bytes({ withoutParses = 0, execute }: { withoutParses?: number; execute?: Buffer }): Buffer {
    const left = new Set(this.#of(CLIENT.parse).slice(0, withoutParses));
    const frames = this.#frames.filter((frame) => !left.has(frame));
    const sent = frames.map(({ type, bytes }) => (type === CLIENT.execute && execute ? execute : bytes));
    return Buffer.concat([...sent, SYNC]);
  }

  #of(type: number): Frame[] {
    return this.#frames.filter((frame) => frame.type === type);
  }
}

/** The one statement of a batch: alone in its transaction, it may be sent again. */
export interface LoneStatement extends PreparedStatement {
  readonly parsed: ParsedStatement;
  /** It may write, though the session is read-only. */
  readonly writes: boolean;
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
  for (const frame of batch.parses) {
    const { name, text: given } = parseMessage(frame.bytes);
    const { text, statements } = await context.parse(given);
    if (text !== given) batch.translate(frame, text);
    prepared.push([name, { sql: text.toString().trim(), parsed: onlyStatement(statements) }]);
  }
  const name = batch.executes;
  const statement = name === undefined ? undefined : (new Map(prepared).get(name) ?? known.get(name));
  const parsed = statement?.parsed;
  if (!statement || parsed?.role !== 'ordinary' || copiesData(parsed.node)) return undefined;
  const writes = context.mayWrite(context.intent(statement.sql, parsed));
  const { sql, preparation } = statement;
  return writes || context.retries ? { sql, parsed, preparation, prepared, writes } : undefined;
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
    starts: [{ sql: lone.sql, parsed: lone.parsed, preparation: lone.preparation, sent: 'through' }],
    bytes: (withoutParses) => batch.bytes({ withoutParses }),
    heldBytes: undefined,
    only: context.intent(lone.sql, lone.parsed),
    writes: lone.writes,
  });
  return lone.prepared.slice(0, answered);
}
