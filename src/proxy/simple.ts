import { serialize } from 'pg-protocol';
import type { Piece } from '../postgres/protocol/frames.ts';
import { errorResponse, type PostgresError, query, queryText } from '../postgres/protocol/messages.ts';
import { beginsAsDml, copiesData, leavesNothingBehind } from '../postgres/sql/classify-statement.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import { type ParsedStatement, textOf, withoutRepetitions } from '../postgres/sql/parse.ts';
import { type StatementStart, shownText, unreadText } from './begun-statement.ts';
import { serveResendable } from './resend.ts';
import type { SessionContext } from './session-context.ts';
import { SplitText, segmentsOf } from './split.ts';
import { StatementSequence } from './statement-sequence.ts';

type Message = Exclude<Piece, { kind: 'slice' }>;

/** Fails in the server as the refused text would have, with what follows from it; the error's words are replaced. */
export const REFUSED = serialize.query('refused by safemigrate');
/** Longer texts do not come from the loops for which normalising is worth its time. */
const LONGEST_NORMALISED_BYTES = 16 * 1024;
/** The length and the final zero of a Query. */
const NOT_TEXT_BYTES = 5;
/** So much of the answer to a text of several statements is held until it is known that it need not be sent again. */
const HELD_BYTES = 64 * 1024;

/** Serves the simple protocol: one Query, of one statement or many. */
export class SimpleProtocol {
  readonly #context: SessionContext;
  #split: SplitText | undefined;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  /** A cancel request that meets no statement at the server is meant for the one that is sent next. */
  cancelRequested(): void {
    if (!this.#context.requests.busy) this.#split?.cancelNext();
  }

  /** Serves one Query, in the way that fits it. */
  async query(piece: Message): Promise<void> {
    const { requests, transaction } = this.#context;
    const { unsynced } = transaction;
    if (unsynced) await this.#context.answeredUnsynced();
    if (transaction.skipping) return await this.#context.send(piece.bytes);
    await requests.drained();
    await transaction.locks.settled();
    const canceled = this.#context.idle ? await this.#context.waitToBegin() : undefined;
    if (requests.lost) return;
    if (piece.kind === 'head') return await this.#sendUnparsed(piece);
    const given = queryText(piece.bytes);
    if (canceled) return await this.#refuse(given, canceled);
    const like = unsynced ? undefined : this.#repetition(given);
    if (like) return await this.#sendRepetition(piece, given, like);
    const { text, statements } = await this.#context.parse(given);
    const refusal = await this.#refusal(text, statements);
    if (refusal) return await this.#refuse(text, refusal);
    const writes = this.#writes(text, statements);
    const mayBeSplit = statements !== null && !unsynced && !writes && this.#context.exact;
    if (mayBeSplit && (await this.#sendsStatements(text, statements))) return;
    await this.#sendWhole(text, statements, writes);
  }

  /** Returns what the parser said of DML with the same normalised text, if it need not be parsed again. */
  #repetition(text: Buffer): ParsedStatement | undefined {
    if (text.length > LONGEST_NORMALISED_BYTES || this.#context.transaction.status === 'E') return undefined;
    const sql = text.toString();
    return beginsAsDml(sql) ? this.#context.repetition(normalizeSql(sql)) : undefined;
  }

  /** Sends a repetition of DML that the gate let through, and whose locks are known if they are read at all. */
  async #sendRepetition(piece: Message, text: Buffer, like: ParsedStatement): Promise<void> {
    const { exact, transaction } = this.#context;
    if (transaction.locks.hasManyUnread) await this.#context.readLocks();
    await this.#sendAlone(piece.bytes, {
      sql: textOf(text, 0, text.length).replace(/[\s;]+$/, ''),
      parsed: like,
      sent: exact ? 'observed' : 'through',
    });
  }

  /** Sends the statements one by one, and reads the locks of each. @returns whether the text could be served so. */
  async #sendsStatements(text: Buffer, statements: readonly ParsedStatement[]): Promise<boolean> {
    const { transaction } = this.#context;
    const [only] = statements;
    if (only && statements.length === 1 && this.#mayWait(only)) {
      const sql = textOf(text, only.from, only.to);
      await this.#sendAlone(query(text), { sql, parsed: only, sent: 'observed' });
      return true;
    }
    const segments = segmentsOf(statements, transaction.status !== 'I');
    if (!segments) return false;
    await transaction.refreshWalPosition(segments[0]?.groups[0]?.[0]);
    this.#split = new SplitText(this.#context, text);
    const served = await this.#split.serve(segments);
    this.#split = undefined;
    return served;
  }

  /** Sends on a text that is too large to be read. */
  async #sendUnparsed(piece: Message & { kind: 'head' }): Promise<void> {
    await this.#context.readLocks();
    this.#context.transaction.synced();
    await this.#sendAlone(piece.bytes, {
      ...unreadText(piece.length - NOT_TEXT_BYTES),
      parsed: null,
      sent: 'through',
    });
  }

  /** Tells whether a statement of a block needs no reading of locks before it or behind it. */
  #mayWait({ role, node, lockKind }: ParsedStatement): boolean {
    const { transaction } = this.#context;
    const isInBlock = transaction.status === 'T' && role === 'ordinary' && !copiesData(node);
    return isInBlock && lockKind !== null && transaction.locks.mayWait(lockKind);
  }

  /** Sends a statement by itself that need not be waited for. */
  async #sendAlone(bytes: Buffer, start: StatementStart): Promise<void> {
    const { requests, transaction } = this.#context;
    const statements = new StatementSequence(transaction, [start]);
    requests.expect({ endsWith: 'ready', relay: 'whole', statements });
    await this.#context.send(bytes);
  }

  /** Sends a text as it came; its statements are distinguished by their completions. */
  async #sendWhole(text: Buffer, parsed: readonly ParsedStatement[] | null, writes: boolean): Promise<void> {
    const { requests, transaction } = this.#context;
    await this.#context.readLocks();
    const starts = startsOf(text, parsed);
    const mayFailAgain = this.#context.retries && this.#context.idle;
    if (parsed && (writes || (mayFailAgain && this.#isTransaction(text, parsed)))) {
      const [first] = parsed;
      const only = parsed.length === 1 && first ? first : undefined;
      await serveResendable(this.#context, {
        starts,
        bytes: () => query(text),
        heldBytes: only ? undefined : HELD_BYTES,
        only: only && this.#context.intent(textOf(text, only.from, only.to), only),
        writes,
      });
      return;
    }
    transaction.synced();
    const statements = new StatementSequence(transaction, starts);
    const pending = requests.expect({ endsWith: 'ready', relay: 'whole', statements });
    await this.#context.send(query(text));
    // A client may send the data of a COPY ahead, with more statements behind it. The text's locks must be kept apart from those of the next one.
    if (this.#context.exact || !parsed || parsed.some(({ node }) => copiesData(node)))
      await this.#context.outcome(pending, 'simple');
  }

  /** Tells whether all statements of the text may write, though the session is read-only. */
  #writes(text: Buffer, statements: readonly ParsedStatement[] | null): boolean {
    if (!this.#context.readOnly || !this.#context.idle || !statements) return false;
    return statements.every((each) =>
      this.#context.mayWrite(this.#context.intent(textOf(text, each.from, each.to), each)),
    );
  }

  /** Tells whether nothing of the text stays if it fails. Read otherwise by the server, there could be a COMMIT in it. */
  #isTransaction(text: Buffer, statements: readonly ParsedStatement[]): boolean {
    if (statements.length === 1) return statements[0]?.role === 'ordinary';
    const nodes = statements.map(({ node }) => node);
    return this.#context.readsAlike && leavesNothingBehind(text.toString(), nodes);
  }

  async #refusal(
    text: Buffer,
    statements: readonly ParsedStatement[] | null,
  ): Promise<PostgresError | undefined> {
    if (!statements) return await this.#context.refusal(text.toString(), null);
    for (const statement of withoutRepetitions(statements)) {
      const refusal = await this.#context.refusal(textOf(text, statement.from, statement.to), statement);
      if (refusal) return refusal;
    }
    return undefined;
  }

  async #refuse(text: Buffer, refusal: PostgresError): Promise<void> {
    const { requests, transaction } = this.#context;
    await this.#context.readLocks();
    transaction.synced();
    requests.expect({
      endsWith: 'ready',
      relay: 'whole',
      statements: new StatementSequence(transaction, startsOf(text, null)),
      replacesError: errorResponse(refusal),
    });
    await this.#context.send(REFUSED);
  }
}

/** The statements of a text that goes whole. */
function startsOf(text: Buffer, parsed: readonly ParsedStatement[] | null): StatementStart[] {
  if (!parsed) return [{ ...shownText(text), parsed: null, sent: 'through' }];
  const sent = parsed.length === 1 ? 'through' : 'together';
  return parsed.map((statement) => ({
    sql: textOf(text, statement.from, statement.to),
    parsed: statement,
    sent,
  }));
}
