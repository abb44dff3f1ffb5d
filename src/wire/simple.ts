import type { Pending, Turn } from './exchange.ts';
import type { Piece } from './frames.ts';
import type { Line } from './line.ts';
import {
  errorFields,
  errorResponse,
  message,
  type PostgresError,
  query,
  queryText,
  SERVER,
} from './messages.ts';
import { type ParsedStatement, parseText } from './parse.ts';
import type { Running } from './record.ts';
import { type Segment, segmentsOf } from './segments.ts';
import { shapeOf } from './shape.ts';

type Message = Exclude<Piece, { kind: 'slice' }>;

const BEGIN = query('BEGIN');
const COMMIT = query('COMMIT');
const ROLLBACK = query('ROLLBACK');
/** Fails in the server as the refused text would have, with what follows from it; the error's words are replaced. */
const REFUSED = query('refused by safemigrate');
/** active_sql_transaction, invalid_transaction_termination: not between BEGIN and COMMIT. */
const NOT_IN_BLOCK: ReadonlySet<string> = new Set(['25001', '2D000']);
/** Longer texts are not of the loops for which shapes are worth their time. */
const LONGEST_SHAPED_BYTES = 16 * 1024;
const FAILED_IN_WRAP = Symbol('must not run between BEGIN and COMMIT');

/** Serves the simple protocol: one Query, of one statement or many. */
export class SimpleProtocol {
  readonly #line: Line;
  #serving = false;
  #cancelNext = false;

  constructor(line: Line) {
    this.#line = line;
  }

  /** A cancel request that meets no statement at the server is for the one that is sent next. */
  cancelRequested(): void {
    if (this.#serving && !this.#line.exchange.busy) this.#cancelNext = true;
  }

  async query(piece: Message): Promise<void> {
    const { exchange, recorder } = this.#line;
    if (exchange.skipping) return await this.#line.send(piece.bytes);
    // Without a Sync or Flush the answers to what was sent before may come only with those to this.
    const { unsynced } = exchange;
    exchange.unsynced = false;
    if (!unsynced) await exchange.drained();
    await recorder.settle();
    if (piece.kind === 'head') return await this.#unread(piece);
    const text = queryText(piece.bytes);
    if (unsynced || !this.#line.exact) return await this.#whole(piece, text, await parseText(text));
    if (text.length <= LONGEST_SHAPED_BYTES && exchange.status !== 'E') {
      const like = recorder.repeats(shapeOf(text.toString()));
      if (like) return await this.#repeated(piece, text, like);
    }
    const statements = await parseText(text);
    const segments = statements ? segmentsOf(statements, exchange.status !== 'I') : undefined;
    if (!statements || !segments) return await this.#whole(piece, text, statements);
    const refusal = this.#refusal(text, statements);
    if (refusal) return await this.#refuse(text, refusal);
    this.#serving = true;
    const done = await this.#split(text, segments);
    this.#serving = false;
    this.#cancelNext = false;
    if (done === FAILED_IN_WRAP) await this.#whole(piece, text, statements);
  }

  /** A text too large to be looked at. */
  async #unread(piece: Message & { kind: 'head' }): Promise<void> {
    const sql = `[a text of ${piece.length} bytes]`;
    await this.#line.recorder.read();
    const running = this.#begin(sql, null);
    this.#line.exchange.expect(this.#wholeTurn([running], 1, () => running));
    await this.#line.send(piece.bytes);
  }

  /** One more statement of a shape that was observed: it goes straight through. */
  async #repeated(piece: Message, text: Buffer, like: ParsedStatement): Promise<void> {
    const { exchange, recorder } = this.#line;
    const sql = sqlOf(text, like.from, text.length);
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
  async #whole(piece: Message, text: Buffer, statements: readonly ParsedStatement[] | null): Promise<void> {
    const { exchange, recorder } = this.#line;
    const refusal = this.#refusal(text, statements);
    if (refusal) return await this.#refuse(text, refusal);
    await recorder.read();
    const list = statements ?? [];
    const next = (index: number): Running => {
      const statement = list[index];
      return statement
        ? this.#begin(sqlOf(text, statement.from, statement.to), statement)
        : this.#begin(sqlOf(text, 0, text.length), null);
    };
    exchange.expect(this.#wholeTurn([next(0)], Math.max(1, list.length), next));
    await this.#line.send(piece.bytes);
  }

  #begin(sql: string, parsed: ParsedStatement | null): Running {
    const { recorder } = this.#line;
    const control = parsed !== null && parsed.role !== 'ordinary';
    const explicit = recorder.inBlock || control;
    return recorder.begin(sql, parsed, explicit, control ? 'control' : 'sampled');
  }

  #wholeTurn(started: [Running], count: number, next: (index: number) => Running): Turn {
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

  #refusal(text: Buffer, statements: readonly ParsedStatement[] | null): PostgresError | undefined {
    if (!statements) return this.#line.refusal(text.toString(), null);
    for (const statement of statements) {
      const refusal = this.#line.refusal(sqlOf(text, statement.from, statement.to), statement);
      if (refusal) return refusal;
    }
    return undefined;
  }

  async #refuse(text: Buffer, refusal: PostgresError): Promise<void> {
    const { exchange, recorder } = this.#line;
    await recorder.read();
    const running = this.#begin(sqlOf(text, 0, text.length), null);
    const response = errorResponse(refusal);
    exchange.expect({
      ends: 'ready',
      relay: 'whole',
      onError: () => response,
      onFailure: (fields) => recorder.fail(running, fields),
    });
    await this.#line.send(REFUSED);
  }

  /** Segment by segment; what the client hears is what it would of the whole text. */
  async #split(text: Buffer, segments: readonly Segment[]): Promise<typeof FAILED_IN_WRAP | undefined> {
    const { exchange, recorder, client } = this.#line;
    const [first] = segments;
    const mayFailInWrap = segments.length === 1 && first?.implicit && first.runs.length === 1;
    for (const segment of segments) {
      const state = segment.implicit
        ? await this.#implicit(text, segment, mayFailInWrap === true)
        : await this.#explicit(text, segment);
      if (state === FAILED_IN_WRAP) return state;
      if (state !== 'succeeded') break;
    }
    if (exchange.lost) return undefined;
    exchange.flushDeferred();
    client.write(message(SERVER.readyForQuery, exchange.status));
    recorder.startReading();
    return undefined;
  }

  async #explicit(text: Buffer, { runs }: Segment): Promise<'succeeded' | 'failed'> {
    const { recorder } = this.#line;
    for (const run of runs) {
      const [first] = run;
      if (first?.shape == null || !recorder.repeats(first.shape)) await recorder.read();
      if (!(await this.#run(text, run, 'inner', true))) return 'failed';
    }
    return 'succeeded';
  }

  async #implicit(
    text: Buffer,
    { runs }: Segment,
    mayFailInWrap: boolean,
  ): Promise<'succeeded' | 'failed' | typeof FAILED_IN_WRAP> {
    const { exchange, recorder } = this.#line;
    // With one run nothing depends on the BEGIN but how well it is observed, and the way there and back is saved.
    const begun = runs.length === 1 ? this.#sendBegin() : undefined;
    if (!begun && !(await this.#own(BEGIN))) return 'failed';
    let notInWrap = false;
    const onError = (error: Buffer) => {
      notInWrap = mayFailInWrap && NOT_IN_BLOCK.has(errorFields(error).get('C') ?? '');
      return notInWrap ? undefined : error;
    };
    for (const [index, run] of runs.entries()) {
      const relay = index === runs.length - 1 ? 'last' : 'inner';
      if (await this.#run(text, run, relay, false, onError)) {
        if (begun?.state === 'failed') break;
        await recorder.read();
        continue;
      }
      if (begun?.state !== 'failed') await this.#own(ROLLBACK);
      return notInWrap ? FAILED_IN_WRAP : 'failed';
    }
    const committed = begun?.state === 'failed' || (await this.#own(COMMIT));
    exchange.release(committed);
    return committed ? 'succeeded' : 'failed';
  }

  async #run(
    text: Buffer,
    run: readonly ParsedStatement[],
    relay: 'inner' | 'last',
    explicit: boolean,
    onError?: (error: Buffer) => Buffer | undefined,
  ): Promise<boolean> {
    const { exchange, recorder } = this.#line;
    const from = run[0]?.from ?? 0;
    const to = run.at(-1)?.to ?? text.length;
    let index = 0;
    const start = (): Running | undefined => {
      const statement = run[index++];
      if (!statement) return undefined;
      const learning = statement.role === 'ordinary' ? 'read' : 'control';
      return recorder.begin(sqlOf(text, statement.from, statement.to), statement, explicit, learning);
    };
    let running = start();
    const pending = exchange.expect({
      ends: 'ready',
      relay,
      shift: () => characters(text, from),
      ...(onError ? { onError } : {}),
      onCompletion: (tag) => {
        if (running) recorder.succeed(running, tag);
        running = start();
      },
      onFailure: (fields) => {
        if (running) recorder.fail(running, fields);
      },
    });
    await this.#line.send(query(text.subarray(from, to)));
    if (this.#cancelNext) {
      this.#cancelNext = false;
      this.#line.cancel();
    }
    return (await this.#line.outcome(pending, 'simple')) === 'succeeded';
  }

  /** Only a cancel request can make it fail; then the statement behind it runs in autocommit, as the client meant it. */
  #sendBegin(): Pending {
    void this.#line.send(BEGIN);
    return this.#line.exchange.expect({ ends: 'ready', relay: 'own', onError: () => undefined });
  }

  async #own(statement: Buffer): Promise<boolean> {
    const { exchange, recorder } = this.#line;
    const pending = exchange.expect({
      ends: 'ready',
      relay: 'own',
      onCompletion: (tag) => {
        if (statement !== BEGIN) recorder.tag(tag);
      },
      onFailure: (fields) => recorder.failAtCommit(fields),
    });
    await this.#line.send(statement);
    return (await this.#line.outcome(pending, 'simple')) === 'succeeded';
  }
}

function sqlOf(text: Buffer, from: number, to: number): string {
  return text.toString('utf8', from, to).trim();
}

/** Characters (code points) in the first bytes of a text: every byte that does not continue one. */
function characters(text: Buffer, bytes: number): number {
  let count = 0;
  for (let at = 0; at < bytes; at++) if (((text[at] ?? 0) & 0xc0) !== 0x80) count++;
  return count;
}
