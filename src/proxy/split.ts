import { serialize } from 'pg-protocol';
import { errorFields, query } from '../postgres/protocol/messages.ts';
import { type ParsedStatement, textOf } from '../postgres/sql/parse.ts';
import type { Pending } from './pending-request.ts';
import type { Segment } from './segments.ts';
import type { SessionContext } from './session-context.ts';
import type { Running } from './statement-recorder.ts';

const BEGIN = serialize.query('BEGIN');
const COMMIT = serialize.query('COMMIT');
const ROLLBACK = serialize.query('ROLLBACK');
/** active_sql_transaction, invalid_transaction_termination: not between BEGIN and COMMIT. */
const NOT_IN_BLOCK: ReadonlySet<string> = new Set(['25001', '2D000']);
const NOT_IN_WRAP = Symbol('refused between BEGIN and COMMIT');
type Ended = 'succeeded' | 'failed' | typeof NOT_IN_WRAP;

/** Serves one text statement by statement, with the locks of each read before they can go. */
export class SplitText {
  readonly #line: SessionContext;
  readonly #text: Buffer;
  #cancelNext = false;

  constructor(line: SessionContext, text: Buffer) {
    this.#line = line;
    this.#text = text;
  }

  /** A cancel request came while the server ran nothing of the text: it is for what is sent next. */
  cancelNext(): void {
    this.#cancelNext = true;
  }

  /**
   * Segment by segment; what the client hears is what it would of the whole text. Resolves with false when nothing has
   * happened but that the server refuses the statement between BEGIN and COMMIT: it must be sent whole.
   */
  async serve(segments: readonly Segment[]): Promise<boolean> {
    const { exchange, recorder } = this.#line;
    const [first] = segments;
    let succeeded = false;
    const mayFailInWrap = segments.length === 1 && first?.implicit && first.runs.length === 1;
    for (const [index, segment] of segments.entries()) {
      if (index > 0) exchange.release();
      const state = segment.implicit
        ? await this.#implicit(segment, mayFailInWrap === true)
        : await this.#explicit(segment);
      if (state === NOT_IN_WRAP) return false;
      succeeded = state === 'succeeded';
      if (!succeeded) break;
    }
    if (exchange.lost) return true;
    exchange.conclude(succeeded);
    recorder.startReading();
    return true;
  }

  async #explicit({ runs }: Segment): Promise<Ended> {
    const { recorder } = this.#line;
    for (const run of runs) {
      const [first] = run;
      if (first?.shape == null || !recorder.repeats(first.shape)) await recorder.read();
      if ((await this.#run(run, { relay: 'inner', explicit: true })) !== 'succeeded') return 'failed';
    }
    return 'succeeded';
  }

  async #implicit({ runs }: Segment, mayFailInWrap: boolean): Promise<Ended> {
    const { recorder } = this.#line;
    // With one run nothing depends on the BEGIN but how well it is observed, and the way there and back is saved.
    const begun = runs.length === 1 ? this.#sendBegin() : undefined;
    if (!begun && !(await this.#own(BEGIN))) return 'failed';
    for (const [index, run] of runs.entries()) {
      const relay = index === runs.length - 1 ? 'last' : 'inner';
      const ended = await this.#run(run, { relay, explicit: false, mayFailInWrap });
      if (ended === 'succeeded') {
        if (begun?.state === 'failed') break;
        await recorder.read();
        continue;
      }
      if (begun?.state !== 'failed') await this.#own(ROLLBACK);
      return ended;
    }
    return begun?.state === 'failed' || (await this.#own(COMMIT)) ? 'succeeded' : 'failed';
  }

  async #run(
    run: readonly ParsedStatement[],
    options: { relay: 'inner' | 'last'; explicit: boolean; mayFailInWrap?: boolean },
  ): Promise<Ended> {
    const { relay, explicit, mayFailInWrap = false } = options;
    const { exchange, recorder } = this.#line;
    const from = run[0]?.from ?? 0;
    const to = run.at(-1)?.to ?? this.#text.length;
    let index = 0;
    const start = (): Running | undefined => {
      const statement = run[index++];
      if (!statement) return undefined;
      const learning = statement.role === 'ordinary' ? 'read' : 'control';
      return recorder.begin(textOf(this.#text, statement.from, statement.to), statement, explicit, learning);
    };
    let running = start();
    let notInWrap = false;
    const pending = exchange.expect({
      ends: 'ready',
      relay,
      shift: () => characters(this.#text, from),
      onError: (error) => {
        notInWrap = mayFailInWrap && NOT_IN_BLOCK.has(errorFields(error).get('C') ?? '');
        return notInWrap ? undefined : error;
      },
      onCompletion: (tag) => {
        if (running) recorder.succeed(running, tag);
        running = start();
      },
      onFailure: (fields) => {
        // What was our mistake the command knows nothing of.
        if (running && notInWrap) recorder.undo([running]);
        else if (running) recorder.fail(running, fields);
      },
    });
    await this.#line.send(query(this.#text.subarray(from, to)));
    if (this.#cancelNext) {
      this.#cancelNext = false;
      this.#line.cancel();
    }
    const outcome = await this.#line.outcome(pending, 'simple');
    if (notInWrap) return NOT_IN_WRAP;
    return outcome === 'succeeded' ? 'succeeded' : 'failed';
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

/** Characters (code points) in the first bytes of a text: every byte that does not continue one. */
function characters(text: Buffer, bytes: number): number {
  let count = 0;
  for (let at = 0; at < bytes; at++) if (((text[at] ?? 0) & 0xc0) !== 0x80) count++;
  return count;
}
