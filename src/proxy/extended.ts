import { serialize } from 'pg-protocol';
import type { StatementNote } from '../model/report.ts';
import type { Piece } from '../postgres/protocol/frames.ts';
import {
  bindMessage,
  CLIENT,
  closeMessage,
  errorResponse,
  executeMessage,
  FLUSH,
  type PostgresError,
  parseMessage,
  SYNC,
  withParseText,
} from '../postgres/protocol/messages.ts';
import { copiesData } from '../postgres/sql/classify-statement.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';
import { Batch } from './batch.ts';
import { serveResendable } from './resend.ts';
import type { SessionContext } from './session-context.ts';
import type { Running } from './statement-recorder.ts';

type Message = Exclude<Piece, { kind: 'slice' }>;

interface Prepared {
  readonly sql: string;
  readonly note?: StatementNote | null;
  readonly parsed: ParsedStatement | null;
}

interface Portal {
  readonly prepared: Prepared;
  /** Suspended: fetched from in parts. */
  running?: Running | undefined;
}

/** Prepared by SQL's PREPARE, or before anything was looked at. */
const UNSEEN: Prepared = {
  sql: '[a statement that was prepared elsewhere]',
  note: 'prepared elsewhere',
  parsed: null,
};
/** Fails in the server with all that follows from an error; the error's words are replaced. */
const REFUSED = serialize.parse({ name: 'safemigrate_refused', text: 'refused by safemigrate' });

/**
 * Serves the extended protocol. The implicit transaction ends at Sync, which is why locks can be read before: an
 * Execute is followed by a Flush, and what comes behind it waits for its end.
 */
export class ExtendedProtocol {
  readonly #line: SessionContext;
  readonly #prepared = new Map<string, Prepared>();
  readonly #portals = new Map<string, Portal>();
  /** What was parsed or bound last, and is not executed yet: an error that comes now is its own. */
  #prepares: Prepared | undefined;
  /** Messages that have come and are not sent: with their Sync they may be one statement that is alone. */
  #batch: Batch | undefined;

  constructor(line: SessionContext) {
    this.#line = line;
  }

  /**
   * Where the gate may have a statement sent again, the messages up to a Sync are gathered: nothing of them is answered
   * before it. What turns out to be something else than one statement is to be taken as if it came now.
   * @returns what is to be taken; nothing while it is gathered, or where it has been served.
   */
  async gather(piece: Piece): Promise<readonly Piece[]> {
    if (!this.#batch && !(this.#line.retries && this.#line.between && Batch.begins(piece))) return [piece];
    this.#batch ??= new Batch();
    const batch = this.#batch;
    if (batch.add(piece)) return [];
    this.#batch = undefined;
    if (piece.kind === 'frame' && piece.type === CLIENT.sync && (await this.#alone(batch))) return [];
    return [...batch.pieces, piece];
  }

  /** @returns whether it was one statement, and has been served. */
  async #alone(batch: Batch): Promise<boolean> {
    const read = await this.#preparedBy(batch);
    const named = batch.executes;
    const statement = named === undefined ? undefined : (read.get(named) ?? this.#prepared.get(named));
    const parsed = statement?.parsed ?? null;
    if (!statement || parsed === null || parsed.role !== 'ordinary' || copiesData(parsed.node)) return false;
    const { recorder, exchange } = this.#line;
    const { sql } = statement;
    await recorder.settle();
    const canceled = await this.#line.pass();
    if (exchange.lost) return true;
    const refusal = canceled ?? (await this.#line.refusal(sql, parsed));
    if (refusal) {
      const running = this.#begin(statement);
      const response = errorResponse(refusal);
      exchange.expect({
        ends: 'ready',
        relay: 'whole',
        onError: () => response,
        onFailure: (fields) => recorder.fail(running, fields),
      });
      await this.#line.send(Buffer.concat([REFUSED, SYNC]));
      await exchange.drained();
      return true;
    }
    for (const [name, prepared] of read) this.#prepared.set(name, prepared);
    let begun: Running[] = [];
    await serveResendable(
      this.#line,
      {
        turn: () => {
          const running = this.#begin(statement);
          begun = [running];
          return {
            ends: 'ready',
            relay: 'whole',
            onSuspended: () => recorder.touched(running),
            onCompletion: (tag) => recorder.succeed(running, tag),
            onFailure: (fields) => recorder.fail(running, fields),
          };
        },
        begun: () => begun,
        bytes: (answered) => batch.bytes(answered),
      },
      this.#line.intent(sql, parsed),
    );
    return true;
  }

  async #preparedBy(batch: Batch): Promise<Map<string, Prepared>> {
    const read = new Map<string, Prepared>();
    for (const { name, text } of batch.parses) {
      const { statements } = await this.#line.read(text);
      const parsed = statements?.length === 1 ? (statements[0] ?? null) : null;
      read.set(name, { sql: text.toString().trim(), parsed });
    }
    return read;
  }

  async parse(piece: Message): Promise<void> {
    const { name, text } = parseMessage(piece.bytes);
    const sql = piece.kind === 'head' ? `[a text of ${piece.length} bytes]` : text.toString().trim();
    const note = piece.kind === 'head' ? 'unread' : null;
    const like = this.#line.recorder.repeats(normalizeSql(sql));
    if (!like) await this.#catchUp();
    this.#prepares = { sql, note, parsed: like ?? null };
    const read = like || piece.kind === 'head' ? undefined : await this.#line.read(text);
    const translated = read && read.text !== text;
    await this.pass(translated ? { ...piece, bytes: withParseText(piece.bytes, read.text) } : piece);
    const only = read?.statements?.length === 1 ? (read.statements[0] ?? null) : null;
    this.#prepared.set(name, { sql: translated ? read.text.toString() : sql, note, parsed: like ?? only });
  }

  async bind(piece: Message): Promise<void> {
    const { portal, statement } = bindMessage(piece.bytes);
    const prepared = this.#prepared.get(statement) ?? UNSEEN;
    if (prepared.parsed?.shape == null || !this.#line.recorder.repeats(prepared.parsed.shape))
      await this.#catchUp();
    this.#portals.set(portal, { prepared });
    this.#prepares = prepared;
    await this.pass(piece);
  }

  /** An error that came without an Execute: parsing and planning fail before it, and a commit behind it. */
  strayError(fields: ReadonlyMap<string, string>): void {
    const { recorder } = this.#line;
    if (this.#prepares) recorder.fail(this.#begin(this.#prepares), fields);
    else recorder.failAtCommit(fields);
    this.#prepares = undefined;
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
    const repeats = parsed?.shape != null && recorder.repeats(parsed.shape) !== undefined;
    const refusal = portal.running || repeats ? undefined : await this.#line.refusal(sql, parsed);
    if (refusal) return await this.#refuse(portal, refusal);
    if (!this.#line.exact || repeats) return await this.#execute(piece, portal, false);
    await this.#catchUp();
    await recorder.freshen();
    await this.#execute(piece, portal, true);
    recorder.startReading();
  }

  /**
   * Everything that was executed has ended, and its locks are known. Before whatever may take locks: parsing and
   * planning do as well.
   */
  async #catchUp(): Promise<void> {
    const { exchange, recorder } = this.#line;
    if (!recorder.hasUnread || exchange.skipping || !this.#line.exact) return;
    if (exchange.busy) {
      await this.#line.send(FLUSH);
      await exchange.drained();
    }
    await recorder.read();
  }

  async #execute(piece: Message, portal: Portal, waits: boolean): Promise<void> {
    const { exchange, recorder } = this.#line;
    // The error of a Bind may have come while locks were read.
    if (exchange.skipping) return await this.pass(piece);
    this.#prepares = undefined;
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

  #begin({ sql, note = null, parsed }: Prepared): Running {
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
    return recorder.begin(sql, parsed, explicit, learning(), note);
  }

  async #refuse({ prepared }: Portal, refusal: PostgresError): Promise<void> {
    const { exchange, recorder } = this.#line;
    await this.#catchUp();
    if (exchange.skipping) return;
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
