import type { Piece } from './frames.ts';
import type { Line } from './line.ts';
import {
  bindMessage,
  CLIENT,
  closeMessage,
  errorResponse,
  executeMessage,
  FLUSH,
  message,
  type PostgresError,
  parseMessage,
} from './messages.ts';
import { type ParsedStatement, parseText } from './parse.ts';
import type { Running } from './record.ts';
import { shapeOf } from './shape.ts';

type Message = Exclude<Piece, { kind: 'slice' }>;

interface Prepared {
  readonly sql: string;
  readonly parsed: ParsedStatement | null;
}

interface Portal {
  readonly prepared: Prepared;
  /** Suspended: fetched from in parts. */
  running?: Running | undefined;
}

/** Prepared by SQL's PREPARE, or before anything was looked at. */
const UNSEEN: Prepared = { sql: '[a statement that was prepared elsewhere]', parsed: null };
const REFUSED = message(CLIENT.parse, 'safemigrate_refused\0', 'refused by safemigrate\0', Buffer.alloc(2));

/**
 * Serves the extended protocol. The implicit transaction ends at Sync, which is why locks can be read before: an
 * Execute is followed by a Flush, and what comes behind it waits for its end.
 */
export class ExtendedProtocol {
  readonly #line: Line;
  readonly #prepared = new Map<string, Prepared>();
  readonly #portals = new Map<string, Portal>();

  constructor(line: Line) {
    this.#line = line;
  }

  async parse(piece: Message): Promise<void> {
    await this.pass(piece);
    if (piece.kind === 'head') {
      const { name } = parseMessage(piece.bytes);
      this.#prepared.set(name, { sql: `[a text of ${piece.length} bytes]`, parsed: null });
      return;
    }
    const { name, text } = parseMessage(piece.bytes);
    const sql = text.toString().trim();
    this.#prepared.set(name, { sql, parsed: await this.#read(sql, text) });
  }

  async #read(sql: string, text: Buffer): Promise<ParsedStatement | null> {
    const like = this.#line.recorder.repeats(shapeOf(sql));
    if (like) return like;
    const statements = await parseText(text);
    return statements?.length === 1 ? (statements[0] ?? null) : null;
  }

  async bind(piece: Message): Promise<void> {
    const { portal, statement } = bindMessage(piece.bytes);
    this.#portals.set(portal, { prepared: this.#prepared.get(statement) ?? UNSEEN });
    await this.pass(piece);
  }

  async close(piece: Message): Promise<void> {
    const { kind, name } = closeMessage(piece.bytes);
    if (kind === 'statement') this.#prepared.delete(name);
    else this.#portals.delete(name);
    await this.pass(piece);
  }

  /** Describe, Flush, and whatever else changes nothing. */
  async pass(piece: Message): Promise<void> {
    this.#line.exchange.unsynced = true;
    await this.#line.recorder.settle();
    await this.#line.send(piece.bytes);
  }

  async execute(piece: Message): Promise<void> {
    const { exchange, recorder } = this.#line;
    const portal = this.#portals.get(executeMessage(piece.bytes).portal) ?? { prepared: UNSEEN };
    if (exchange.skipping) return await this.pass(piece);
    const { sql, parsed } = portal.prepared;
    const refusal = portal.running ? undefined : this.#line.refusal(sql, parsed);
    if (refusal) return await this.#refuse(portal, refusal);
    if (!this.#line.exact) return await this.#execute(piece, portal, false);
    if (parsed?.shape != null && recorder.repeats(parsed.shape))
      return await this.#execute(piece, portal, false);
    await this.#catchUp();
    await this.#execute(piece, portal, true);
    if (recorder.inBlock) recorder.startReading();
  }

  /** Everything that was executed has ended, and its locks are known. */
  async #catchUp(): Promise<void> {
    const { exchange, recorder } = this.#line;
    if (exchange.busy) {
      await this.#line.send(FLUSH);
      await exchange.drained();
    }
    await recorder.read();
  }

  async #execute(piece: Message, portal: Portal, waits: boolean): Promise<void> {
    const { exchange, recorder } = this.#line;
    const running = portal.running ?? this.#begin(portal.prepared);
    portal.running = running;
    exchange.unsynced = true;
    const pending = exchange.expect({
      ends: 'completion',
      relay: 'whole',
      onSuspended: () => recorder.touched(running),
      onCompletion: (tag) => {
        portal.running = undefined;
        recorder.succeed(running, tag);
      },
      onFailure: (fields) => {
        portal.running = undefined;
        recorder.fail(running, fields);
      },
    });
    await this.#line.send(waits ? Buffer.concat([piece.bytes, FLUSH]) : piece.bytes);
    if (waits) await this.#line.outcome(pending, 'extended');
  }

  #begin({ sql, parsed }: Prepared): Running {
    const { recorder } = this.#line;
    const control = parsed !== null && parsed.role !== 'ordinary';
    const explicit = recorder.inBlock || control;
    const learning = () => {
      if (control) return 'control';
      if (!this.#line.exact) return 'sampled';
      if (explicit) return 'read';
      if (parsed?.shape != null && recorder.repeats(parsed.shape)) return 'like';
      // What commits within itself shows no lock at its end.
      return parsed === null || parsed.wraps ? 'read' : 'sampled';
    };
    return recorder.begin(sql, parsed, explicit, learning());
  }

  async #refuse({ prepared }: Portal, refusal: PostgresError): Promise<void> {
    const { exchange, recorder } = this.#line;
    await this.#catchUp();
    const running = this.#begin(prepared);
    const response = errorResponse(refusal);
    exchange.unsynced = true;
    const pending = exchange.expect({
      ends: 'completion',
      relay: 'whole',
      onError: () => response,
      onFailure: (fields) => recorder.fail(running, fields),
    });
    await this.#line.send(Buffer.concat([REFUSED, FLUSH]));
    await this.#line.outcome(pending, 'extended');
  }

  async sync(piece: Message): Promise<void> {
    const { exchange, recorder } = this.#line;
    // In a block of the command's own the transaction goes on behind the Sync.
    if (recorder.hasUnread && !recorder.inBlock && !exchange.skipping && this.#line.exact)
      await this.#catchUp();
    await recorder.settle();
    exchange.unsynced = false;
    exchange.skipping = false;
    // A COPY reads past a Sync that a client sends ahead of its data.
    if (!exchange.copyingIn) exchange.expect({ ends: 'ready', relay: 'whole' });
    await this.#line.send(piece.bytes);
    if (this.#line.exact) await exchange.drained();
  }

  async functionCall(piece: Message): Promise<void> {
    await this.#line.exchange.drained();
    this.#line.exchange.expect({ ends: 'ready', relay: 'whole' });
    await this.#line.send(piece.bytes);
  }
}
