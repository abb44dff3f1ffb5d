import { serialize } from 'pg-protocol';
import { query } from '../postgres/protocol/messages.ts';
import { changesReading } from '../postgres/sql/classify-statement.ts';
import { type ParsedStatement, textOf } from '../postgres/sql/parse.ts';
import type { ServerRequest } from './request-queue.ts';
import type { SessionContext } from './session-context.ts';
import { StatementSequence } from './statement-sequence.ts';

/**
 * A part of a text of several statements that can be sent one by one without changing the text's meaning.
 *
 * The server runs such a text in one implicit transaction, which ends with the text; a BEGIN … COMMIT inside is an
 * explicit block of its own, behind which a new implicit transaction starts. So the text is a series of segments:
 * implicit ones, which are sent between our own BEGIN and COMMIT, and explicit ones, which are sent as they are.
 */
export interface Segment {
  readonly implicit: boolean;
  /** Statements that are sent at once: one, or neighbours of like DML. */
  readonly groups: readonly (readonly ParsedStatement[])[];
}

/**
 * Splits a text into segments.
 * @param inBlock a transaction is open already.
 * @returns undefined if the text has no such form, and must be sent whole.
 */
export function segmentsOf(
  statements: readonly ParsedStatement[],
  inBlock: boolean,
): readonly Segment[] | undefined {
  const [only] = statements;
  if (statements.length === 1 && only && !inBlock && !only.wraps) return undefined;
  if (statements.length > 1 && statements.some(({ node }) => changesReading(node))) return undefined;
  const segments: { implicit: boolean; statements: ParsedStatement[] }[] = [];
  let open: { implicit: boolean; statements: ParsedStatement[] } | undefined;
  if (inBlock) {
    open = { implicit: false, statements: [] };
    segments.push(open);
  }
  for (const statement of statements) {
    if (statement.role === 'begin') {
      // Inside a block it warns; behind an implicit segment the server makes both one block.
      if (open) return undefined;
      open = { implicit: false, statements: [] };
      segments.push(open);
    } else if (!open) {
      open = { implicit: true, statements: [] };
      segments.push(open);
    }
    if (open.implicit && statement.role !== 'ordinary') return undefined;
    if (statement.role === 'prepare-transaction') return undefined;
    open.statements.push(statement);
    if (statement.role === 'end') open = undefined;
  }
  return segments.map(({ implicit, statements }) => ({ implicit, groups: groupsOf(statements) }));
}

/** Groups neighbours with the same normalised text; everything else is alone. */
function groupsOf(statements: readonly ParsedStatement[]): ParsedStatement[][] {
  const groups: ParsedStatement[][] = [];
  for (const statement of statements) {
    const group = groups.at(-1);
    if (group && statement.shape !== null && group[0]?.shape === statement.shape) group.push(statement);
    else groups.push([statement]);
  }
  return groups;
}

const BEGIN = serialize.query('BEGIN');
const COMMIT = serialize.query('COMMIT');
const ROLLBACK = serialize.query('ROLLBACK');
/** active_sql_transaction, invalid_transaction_termination: not between BEGIN and COMMIT. */
const NOT_IN_BLOCK: ReadonlySet<string> = new Set(['25001', '2D000']);

/** `refused in wrap`: the server does not run the statement between BEGIN and COMMIT. */
type Ended = 'succeeded' | 'failed' | 'refused in wrap';

/** Serves one text statement by statement, and reads the locks of each before they can go. */
export class SplitText {
  readonly #context: SessionContext;
  readonly #text: Buffer;
  #cancelNext = false;

  constructor(context: SessionContext, text: Buffer) {
    this.#context = context;
    this.#text = text;
  }

  /** A cancel request came while the server ran nothing of the text: it is meant for what is sent next. */
  cancelNext(): void {
    this.#cancelNext = true;
  }

  /**
   * Sends segment by segment; the client gets the same answer as to the whole text.
   * @returns false if the server refuses the statement between BEGIN and COMMIT, and nothing else has happened: it must be
   * sent whole.
   */
  async serve(segments: readonly Segment[]): Promise<boolean> {
    const { requests, relay, transaction } = this.#context;
    const [first] = segments;
    const isOneGroup = segments.length === 1 && first?.groups.length === 1;
    const mayBeRefused = isOneGroup && first.implicit;
    // Nothing is put around it or between its parts: the client gets the server's answer as it comes, in one piece.
    const goesWhole = isOneGroup && !first.implicit;
    let ended: Ended = 'failed';
    for (const [index, segment] of segments.entries()) {
      if (index > 0) relay.releaseCompletion();
      ended = segment.implicit
        ? await this.#serveWrapped(segment, mayBeRefused)
        : await this.#serveBlock(segment, goesWhole ? 'whole' : 'inner');
      if (ended === 'refused in wrap') return false;
      if (ended === 'failed') break;
    }
    if (requests.lost) return true;
    if (!goesWhole) relay.concludeText(ended === 'succeeded');
    transaction.startReadingLocks();
    return true;
  }

  /** A block of the command's own. */
  async #serveBlock({ groups }: Segment, relay: 'whole' | 'inner'): Promise<Ended> {
    const { transaction } = this.#context;
    for (const group of groups) {
      if (!transaction.locks.mayWait(group[0]?.lockKind ?? null)) await transaction.readLocks();
      if ((await this.#sendGroup(group, { relay }, 'observed')) !== 'succeeded') return 'failed';
    }
    return 'succeeded';
  }

  /** Statements without a block of their own, between our BEGIN and COMMIT. */
  async #serveWrapped({ groups }: Segment, mayBeRefused: boolean): Promise<Ended> {
    const { requests, transaction } = this.#context;
    // With one group nothing but its observation depends on the BEGIN: it goes out with it, which saves a round trip. Only a
    // cancel request can make it fail; then the group runs in autocommit, as the client meant it.
    const ahead = groups.length === 1;
    const begin = requests.expect({
      endsWith: 'ready',
      relay: 'own',
      ...(ahead && { hidesError: () => true }),
    });
    this.#context.queue(BEGIN);
    if (!ahead && (await this.#context.outcome(begin, 'simple')) !== 'succeeded') return 'failed';
    for (const [index, group] of groups.entries()) {
      const relay = index === groups.length - 1 ? 'last' : 'inner';
      const refusable = mayBeRefused && { hidesError: (sqlstate: string) => NOT_IN_BLOCK.has(sqlstate) };
      const ended = await this.#sendGroup(group, { relay, ...refusable }, 'wrapped');
      if (ended !== 'succeeded') {
        if (begin.state !== 'failed') await this.#endTransaction(ROLLBACK);
        return ended;
      }
      if (begin.state === 'failed') return 'succeeded';
      await transaction.readLocks();
    }
    return await this.#endTransaction(COMMIT);
  }

  /** Sends one statement, or neighbours of like DML, as one part of the client's text. */
  async #sendGroup(
    group: readonly ParsedStatement[],
    request: Pick<ServerRequest, 'relay' | 'hidesError'>,
    sent: 'wrapped' | 'observed',
  ): Promise<Ended> {
    const context = this.#context;
    const text = this.#text;
    const from = group[0]?.from ?? 0;
    const to = group.at(-1)?.to ?? text.length;
    const starts = group.map((parsed) => ({ sql: textOf(text, parsed.from, parsed.to), parsed, sent }));
    const pending = context.requests.expect({
      ...request,
      endsWith: 'ready',
      statements: new StatementSequence(context.transaction, starts),
      ...(from > 0 && { positionOffset: () => characters(text, from) }),
    });
    await context.send(query(text.subarray(from, to)));
    if (this.#cancelNext) {
      this.#cancelNext = false;
      context.cancel();
    }
    const outcome = await context.outcome(pending, 'simple');
    if (pending.errorHidden) return 'refused in wrap';
    return outcome === 'succeeded' ? 'succeeded' : 'failed';
  }

  async #endTransaction(statement: Buffer): Promise<Ended> {
    const pending = this.#context.requests.expect({ endsWith: 'ready', relay: 'own', endsTransaction: true });
    await this.#context.send(statement);
    return (await this.#context.outcome(pending, 'simple')) === 'succeeded' ? 'succeeded' : 'failed';
  }
}

/** Counts the characters (code points) in the first bytes of a text: every byte that does not continue one. */
function characters(text: Buffer, bytes: number): number {
  let count = 0;
  for (let at = 0; at < bytes; at++) if (((text[at] ?? 0) & 0xc0) !== 0x80) count++;
  return count;
}
