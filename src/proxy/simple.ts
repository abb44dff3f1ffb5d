import { serialize } from 'pg-protocol';
import type { Piece } from '../postgres/protocol/frames.ts';
import { errorResponse, type PostgresError, query, queryText } from '../postgres/protocol/messages.ts';
import { leavesNothingBehind } from '../postgres/sql/classify-statement.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import { type ParsedStatement, textOf, withoutRepetitions } from '../postgres/sql/parse.ts';
import type { PendingRequest } from './pending-request.ts';
import { serveResendable } from './resend.ts';
import { segmentsOf } from './segments.ts';
import type { SessionContext } from './session-context.ts';
import { SplitText } from './split.ts';
import type { Running } from './statement-recorder.ts';

type Message = Exclude<Piece, { kind: 'slice' }>;

/** Fails in the server as the refused text would have, with what follows from it; the error's words are replaced. */
const REFUSED = serialize.query('refused by safemigrate');
/** Longer texts are not of the loops for which shapes are worth their time. */
const LONGEST_SHAPED_BYTES = 16 * 1024;
/** So much of the answer to a text of several statements is kept back, to be told once the text need not be sent again. */
const KEPT_BYTES = 64 * 1024;

/** Serves the simple protocol: one Query, of one statement or many. */
export class SimpleProtocol {
  readonly #line: SessionContext;
  #split: SplitText | undefined;

  constructor(line: SessionContext) {
    this.#line = line;
  }

  /** A cancel request that meets no statement at the server is for the one that is sent next. */
  cancelRequested(): void {
    if (!this.#line.exchange.busy) this.#split?.cancelNext();
  }

  async query(piece: Message): Promise<void> {
    const { exchange, recorder } = this.#line;
    if (exchange.skipping) return await this.#line.send(piece.bytes);
    // Without a Sync or Flush the answers to what was sent before may come only with those to this.
    const { unsynced } = exchange;
    exchange.unsynced = false;
    if (!unsynced) await exchange.drained();
    await recorder.settle();
    if (this.#line.between) {
      const canceled = await this.#line.pass();
      if (exchange.lost) return;
      if (canceled && piece.kind === 'frame') return await this.#refuse(queryText(piece.bytes), canceled);
    }
    if (piece.kind === 'head') return await this.#unread(piece);
    const given = queryText(piece.bytes);
    const whole = unsynced || !this.#line.exact;
    if (!whole && given.length <= LONGEST_SHAPED_BYTES && exchange.status !== 'E') {
      const like = recorder.repeats(normalizeSql(given.toString()));
      if (like) return await this.#repeated(piece, given, like);
    }
    const { text, statements } = await this.#line.read(given);
    const segments = statements && !whole ? segmentsOf(statements, exchange.status !== 'I') : undefined;
    if (!statements || !segments) return await this.#whole(text, statements);
    const refusal = await this.#refusal(text, statements);
    if (refusal) return await this.#refuse(text, refusal);
    await recorder.freshen();
    this.#split = new SplitText(this.#line, text);
    const served = await this.#split.serve(segments);
    this.#split = undefined;
    if (!served) await this.#whole(text, statements);
  }

  /** A text too large to be looked at. */
  async #unread(piece: Message & { kind: 'head' }): Promise<void> {
    const sql = `[a text of ${piece.length} bytes]`;
    await this.#line.recorder.read();
    const { recorder } = this.#line;
    const running = recorder.begin(sql, null, recorder.inBlock, 'sampled', 'unread');
    this.#line.exchange.expect(this.#wholeTurn([running], 1, () => running));
    await this.#line.send(piece.bytes);
  }

  /** One more statement of a shape that was observed: it goes straight through. */
  async #repeated(piece: Message, text: Buffer, like: ParsedStatement): Promise<void> {
    const { exchange, recorder } = this.#line;
    const sql = textOf(text, 0, text.length).replace(/[\s;]+$/, '');
    const running = recorder.begin(sql, like, recorder.inBlock, recorder.inBlock ? 'read' : 'like');
    exchange.expect({
      ends: 'ready',
      relay: 'whole',
      onCompletion: (tag) => recorder.succeed(running, tag),
      onFailure: (fields) => recorder.fail(running, fields),
    });
    await this.#line.send(piece.bytes);
  }

  /** The text goes as it came; its statements are told apart by their completions. */
  async #whole(text: Buffer, statements: readonly ParsedStatement[] | null): Promise<void> {
    const { exchange, recorder } = this.#line;
    const refusal = await this.#refusal(text, statements);
    if (refusal) return await this.#refuse(text, refusal);
    await recorder.read();
    const list = statements ?? [];
    const next = (index: number): Running => {
      const statement = list[index];
      return statement
        ? this.#begin(textOf(text, statement.from, statement.to), statement, list.length === 1)
        : this.#begin(textOf(text, 0, text.length), null);
    };
    if (this.#line.retries && this.#line.between && this.#isTransaction(text, list))
      return await this.#resendable(text, list, next);
    exchange.expect(this.#wholeTurn([next(0)], Math.max(1, list.length), next));
    await this.#line.send(query(text));
  }

  /** Whether nothing of the text stays where it fails. Read otherwise by the server, there could be a COMMIT in it. */
  #isTransaction(text: Buffer, list: readonly ParsedStatement[]): boolean {
    if (list.length === 1) return list[0]?.role === 'ordinary';
    const nodes = list.map(({ node }) => node);
    return list.length > 1 && this.#line.readsAlike && leavesNothingBehind(text.toString(), nodes);
  }

  /** The text goes as it came, and again where the gate says so. */
  async #resendable(
    text: Buffer,
    list: readonly ParsedStatement[],
    next: (index: number) => Running,
  ): Promise<void> {
    const [first] = list;
    const only = list.length === 1 && first ? first : undefined;
    let begun: Running[] = [];
    const begin = (index: number): Running => {
      const running = next(index);
      begun.push(running);
      return running;
    };
    await serveResendable(
      this.#line,
      {
        turn: () => {
          begun = [];
          const turn = this.#wholeTurn([begin(0)], list.length, begin);
          return only ? turn : { ...turn, keepsBytes: KEPT_BYTES };
        },
        begun: () => begun,
        bytes: () => query(text),
      },
      only && this.#line.intent(textOf(text, only.from, only.to), only),
    );
  }

  /** The server tells the ends of one text's statements together: what is seen meanwhile is not of a BEGIN `alone`. */
  #begin(sql: string, parsed: ParsedStatement | null, alone = true): Running {
    const { recorder } = this.#line;
    const control = parsed !== null && parsed.role !== 'ordinary';
    const explicit = recorder.inBlock || control;
    return recorder.begin(sql, parsed, explicit, control && alone ? 'control' : 'sampled');
  }

  #wholeTurn(started: [Running], count: number, next: (index: number) => Running): PendingRequest {
    const { recorder } = this.#line;
    let running: Running | undefined = started[0];
    let index = 0;
    return {
      ends: 'ready',
      relay: 'whole',
      onCompletion: (tag) => {
        if (!running) return;
        recorder.succeed(running, tag);
        index++;
        running = index < count ? next(index) : undefined;
      },
      onFailure: (fields) => {
        if (running) recorder.fail(running, fields);
        running = undefined;
      },
    };
  }

  async #refusal(
    text: Buffer,
    statements: readonly ParsedStatement[] | null,
  ): Promise<PostgresError | undefined> {
    if (!statements) return await this.#line.refusal(text.toString(), null);
    for (const statement of withoutRepetitions(statements)) {
      const refusal = await this.#line.refusal(textOf(text, statement.from, statement.to), statement);
      if (refusal) return refusal;
    }
    return undefined;
  }

  async #refuse(text: Buffer, refusal: PostgresError): Promise<void> {
    const { exchange, recorder } = this.#line;
    await recorder.read();
    const running = this.#begin(textOf(text, 0, text.length), null);
    const response = errorResponse(refusal);
    exchange.expect({
      ends: 'ready',
      relay: 'whole',
      onError: () => response,
      onFailure: (fields) => recorder.fail(running, fields),
    });
    await this.#line.send(REFUSED);
  }
}
