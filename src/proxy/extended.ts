import { boundValues, declaredTypes } from '../postgres/protocol/bound-values.ts';
import type { Piece } from '../postgres/protocol/frames.ts';
import {
  bindMessage,
  CLIENT,
  closeMessage,
  executeMessage,
  FLUSH,
  type PostgresError,
  parseMessage,
  withParseText,
} from '../postgres/protocol/messages.ts';
import { copiesData } from '../postgres/sql/classify-statement.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import { shownText, unreadText } from './begun-statement.ts';
import { Batch, loneStatementOf, serveLoneStatement } from './lone-statement.ts';
import {
  onlyStatement,
  type PreparedStatement,
  REFUSED_PARSE,
  refusedRequest,
  SessionNames,
  startOfPrepared,
} from './prepared-statement.ts';
import type { SessionContext } from './session-context.ts';
import { StatementSequence } from './statement-sequence.ts';

type Message = Exclude<Piece, { kind: 'slice' }>;

interface Portal {
  readonly prepared: PreparedStatement;
  /** The values that were bound, as SQL; null if they cannot be written so. */
  readonly values?: readonly string[] | null;
  /** The execution of the portal, with what is sent already. */
  statements?: StatementSequence;
  /** The last Execute may have suspended it. */
  mayBeSuspended?: boolean;
}

/** Prepared by SQL's PREPARE, or before the proxy read the session's messages. */
const UNSEEN: PreparedStatement = {
  sql: '[a statement that was prepared elsewhere]',
  note: 'prepared elsewhere',
  parsed: null,
};

/** The messages that are served here. */
const EXTENDED: ReadonlySet<number> = new Set([
  CLIENT.parse,
  CLIENT.bind,
  CLIENT.describe,
  CLIENT.execute,
  CLIENT.close,
  CLIENT.flush,
  CLIENT.sync,
]);

/**
 * Serves the extended protocol. The implicit transaction ends at Sync, which is why locks can be read before: an
 * Execute is followed by a Flush, and what comes behind it waits for its end.
 *
 * The messages up to a Sync are gathered first if the gate may have a statement sent again, or the session is read-only but for
 * some statements: nothing of them is answered before it. If they run one statement, that is served as a whole; else they are taken one by one, as if they came now.
 */
export class ExtendedProtocol {
  readonly #context: SessionContext;
  readonly #prepared = new SessionNames<PreparedStatement>();
  readonly #portals = new SessionNames<Portal>();
  /** Messages that have come and are not sent: with their Sync they may be one statement that is alone. */
  #batch: Batch | undefined;
  /** The last Execute is not waited for: if more follows before the Sync, a Flush has the server tell its end. */
  #owesFlush = false;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  static serves(type: number): boolean {
    return EXTENDED.has(type);
  }

  /** Takes one message of the extended protocol. */
  async take(piece: Message): Promise<void> {
    if (this.#gather(piece)) return;
    if (piece.type === CLIENT.sync && this.gathers && (await this.#servesLone())) return;
    if (this.gathers) return await this.takeOneByOne(piece);
    await this.#dispatch(piece);
  }

  /** Messages wait for their Sync. */
  get gathers(): boolean {
    return this.#batch !== undefined;
  }

  /**
   * Takes what was gathered as if it came now, and behind it the piece that does not belong to it. It may be the data of a COPY,
   * which is read while the Execute is served.
   */
  async takeOneByOne(piece: Piece): Promise<void> {
    const [first, ...others] = this.#batch?.pieces ?? [];
    this.#batch = undefined;
    this.#context.putBack([...others, piece]);
    // From here on the session is not idle, and gathers nothing.
    if (first) await this.#dispatch(first);
  }

  /** Adds the message to the batch, or begins one with it. */
  #gather(piece: Message): boolean {
    const gathers = this.#context.retries || this.#context.readOnly;
    if (!this.#batch && gathers && this.#context.idle && Batch.begins(piece)) this.#batch = new Batch();
    return this.#batch?.add(piece) === true;
  }

  /** Serves what was gathered, if it is one statement alone in its transaction. @returns whether it was. */
  async #servesLone(): Promise<boolean> {
    const batch = this.#batch;
    const lone = batch && (await loneStatementOf(batch, this.#prepared, this.#context));
    if (!batch || !lone) return false;
    this.#batch = undefined;
    const prepared = await serveLoneStatement(batch, lone, this.#context);
    for (const [name, statement] of prepared) this.#prepared.set(name, statement);
    return true;
  }

  async #dispatch(piece: Message): Promise<void> {
    if (this.#owesFlush && piece.type !== CLIENT.sync && piece.type !== CLIENT.flush)
      this.#context.queue(FLUSH);
    this.#owesFlush = false;
    switch (piece.type) {
      case CLIENT.parse:
        return await this.#parse(piece);
      case CLIENT.bind:
        return await this.#bind(piece);
      case CLIENT.execute:
        return await this.#execute(piece);
      case CLIENT.describe:
        return await this.#describe(piece);
      case CLIENT.close:
        return await this.#close(piece);
      case CLIENT.sync:
        return await this.#sync(piece);
      default:
        return await this.#sendOn(piece);
    }
  }

  async #parse(piece: Message): Promise<void> {
    const { name, text } = parseMessage(piece.bytes);
    const { sql, note } = piece.kind === 'head' ? unreadText(piece.length) : shownText(text);
    const like = this.#context.repetition(normalizeSql(sql));
    if (!like) await this.#catchUp();
    const read = like || note ? undefined : await this.#context.parse(text);
    const refusal =
      note && piece.kind === 'frame' ? await this.#context.refusal(text.toString(), null) : undefined;
    const translated = read !== undefined && read.text !== text;
    const parsed = like ?? onlyStatement(read?.statements);
    const types = piece.kind === 'frame' ? declaredTypes(piece.bytes) : [];
    const own = translated ? read.text.toString() : sql;
    const prepared = { sql: own, note, parsed, types, refusal, preparation: { ms: 0 } };
    const bytes = translated ? withParseText(piece.bytes, read.text) : piece.bytes;
    await this.#sendAcknowledged(bytes, prepared, () => this.#prepared.change(name, prepared));
  }

  async #bind(piece: Message): Promise<void> {
    const { portal, statement } = bindMessage(piece.bytes);
    const prepared = (await this.#meaning(this.#prepared, statement)) ?? UNSEEN;
    if (!this.#context.repetition(prepared.parsed?.shape)) await this.#catchUp();
    const isReadable = piece.kind === 'frame' && this.#context.observes;
    const values = isReadable ? boundValues(piece.bytes, prepared.types ?? []) : null;
    await this.#sendAcknowledged(piece.bytes, prepared, () =>
      this.#portals.change(portal, { prepared, values }),
    );
  }

  async #close(piece: Message): Promise<void> {
    const { kind, name } = closeMessage(piece.bytes);
    const prepared = this.#named(kind, name);
    const names = kind === 'statement' ? this.#prepared : this.#portals;
    // The time of a Close does not count for the next statement.
    await this.#sendAcknowledged(piece.bytes, { ...prepared, preparation: undefined }, () =>
      names.change(name),
    );
  }

  async #describe(piece: Message): Promise<void> {
    const { kind, name } = closeMessage(piece.bytes);
    await this.#sendAcknowledged(piece.bytes, this.#named(kind, name));
  }

  #named(kind: 'statement' | 'portal', name: string): PreparedStatement {
    const prepared = kind === 'statement' ? this.#prepared.get(name) : this.#portals.get(name)?.prepared;
    return prepared ?? UNSEEN;
  }

  /** Returns what a name stands for, and waits until that is certain. */
  async #meaning<Value>(names: SessionNames<Value>, name: string): Promise<Value | undefined> {
    if (names.isUncertain(name)) await this.#context.answeredUnsynced();
    return names.get(name);
  }

  async #execute(piece: Message): Promise<void> {
    const { transaction } = this.#context;
    const { portal: name, limit } = executeMessage(piece.bytes);
    const portal = (await this.#meaning(this.#portals, name)) ?? { prepared: UNSEEN };
    if (transaction.skipping) return await this.#sendOn(piece);
    const { sql, note, parsed, refusal: known } = portal.prepared;
    const repeats = this.#context.repetition(parsed?.shape) !== undefined;
    const goesOn = portal.statements?.open === true && portal.mayBeSuspended === true;
    portal.mayBeSuspended = limit > 0;
    const asks = !goesOn && !repeats;
    // The server answers what prepares it now: the time until it is judged is not the server's.
    if (asks && this.#context.requests.busy) await this.#context.send(FLUSH);
    // A text that is too large to be parsed was judged when it came.
    const judged = note === 'unread' ? undefined : () => this.#context.refusal(sql, parsed);
    const refusal = asks ? (known ?? (await judged?.())) : undefined;
    if (refusal) return await this.#refuse(portal, refusal);
    // The client may send the data of a COPY ahead, and more behind it.
    const mayCopy = !parsed || copiesData(parsed.node);
    if (!this.#context.exact || repeats) return await this.#run(piece, portal, limit, !repeats && mayCopy);
    await this.#catchUp();
    await transaction.refreshWalPosition();
    await this.#run(piece, portal, limit, true);
    transaction.startReadingLocks();
  }

  /** Sends an Execute. @param waits for its end before anything else happens. */
  async #run(piece: Message, portal: Portal, limit: number, waits: boolean): Promise<void> {
    const { requests, transaction } = this.#context;
    // The error of a Bind may have come while locks were read.
    if (transaction.skipping) return await this.#sendOn(piece);
    portal.statements ??= new StatementSequence(transaction, [
      startOfPrepared(portal.prepared, this.#context, portal.values),
    ]);
    transaction.extendedSent();
    const { statements } = portal;
    const pending = requests.expect({ endsWith: 'completion', relay: 'whole', statements, limit });
    await this.#context.send(waits ? Buffer.concat([piece.bytes, FLUSH]) : piece.bytes);
    this.#owesFlush = !waits;
    if (waits) await this.#context.outcome(pending, 'extended');
  }

  async #refuse({ prepared }: Portal, refusal: PostgresError): Promise<void> {
    const { requests, transaction } = this.#context;
    await this.#catchUp();
    if (transaction.skipping) return;
    transaction.extendedSent();
    const pending = requests.expect({
      ...refusedRequest(prepared, refusal, this.#context),
      endsWith: 'completion',
    });
    await this.#context.send(Buffer.concat([REFUSED_PARSE, FLUSH]));
    await this.#context.outcome(pending, 'extended');
  }

  async #sync(piece: Message): Promise<void> {
    const { requests, transaction } = this.#context;
    // In a block of the command's own the transaction goes on behind the Sync.
    if (!transaction.inBlock || transaction.locks.hasManyUnread) await this.#catchUp();
    await transaction.locks.settled();
    transaction.synced();
    this.#prepared.synced();
    this.#portals.synced();
    requests.expect({ endsWith: 'ready', relay: 'whole' });
    await this.#context.send(piece.bytes);
    if (this.#context.exact) await requests.drained();
  }

  /**
   * Sends a Parse, Bind, Describe or Close. If it fails, so does the statement that it concerns.
   * @param change notes what a name stands for from now on, unless the server skips the message.
   */
  async #sendAcknowledged(
    bytes: Buffer,
    prepared: PreparedStatement,
    change?: () => (succeeded: boolean) => void,
  ): Promise<void> {
    const { requests, transaction } = this.#context;
    await transaction.locks.settled();
    if (!transaction.skipping) {
      transaction.extendedSent();
      const prepares = startOfPrepared(prepared, this.#context);
      requests.expect({ endsWith: 'acknowledgement', relay: 'whole', prepares, settle: change?.() });
    }
    await this.#context.send(bytes);
  }

  /** Sends on a Flush, and what the server skips. */
  async #sendOn(piece: Message): Promise<void> {
    const { transaction } = this.#context;
    await transaction.locks.settled();
    transaction.extendedSent();
    await this.#context.send(piece.bytes);
  }

  /**
   * Waits until everything that was executed has ended, and its locks are known. To be called before whatever may take
   * locks: parsing and planning do as well.
   */
  async #catchUp(): Promise<void> {
    const { requests, transaction } = this.#context;
    if (!transaction.locks.hasUnread || transaction.skipping || !this.#context.exact) return;
    if (requests.busy) {
      await this.#context.send(FLUSH);
      await requests.drained();
    }
    await transaction.readLocks();
  }
}
