import type { Observed, RelationLock, Statement, StatementReading } from '../proxy/observed.ts';
import type { Newcomers } from './newcomers.ts';

/**
 * When a transaction of the command's can have written: its rows carry an id from `lower` up to, and without, `upper`.
 * Savepoints and the blocks of functions that catch exceptions have ids of their own, higher than their transaction's,
 * and those that are over do not show among the locks; so ids alone tell only what lies outside.
 */
interface Window {
  lower: number;
  upper: number;
  /** The ids that it was seen to hold. */
  readonly known: Set<number>;
  looked: boolean;
  /** The locks of every statement in it were read. */
  read: boolean;
  /** It may have committed within a statement, as a procedure does. */
  sampled: boolean;
  /** OIDs of the shared catalogues that it locked for writing. */
  readonly catalogues: Set<number>;
}

/** What is known of a change to a shared catalogue. */
export interface SharedWrite {
  /** Of the row as it is now; null where there is none any more, or it is hidden. */
  readonly xmin: number | null;
  /** Every catalogue that it may have been written through and that stays locked to the end of a transaction; null: not all do. */
  readonly catalogues: readonly number[] | null;
}

export type Author =
  | { readonly who: 'command' | 'others'; readonly why: string }
  | { readonly who: 'unknown' };

/** What the proxy saw of one run of the command. */
export interface OwnWork {
  /** null where statements were not observed exactly. */
  readonly transactions: Pick<OwnTransactions, 'authorOf'> | null;
  /** Process ids of its sessions in other databases than the clone. */
  readonly elsewhere: readonly number[];
}

/** Who made a change, by all that is known of one run of the command. */
export type AuthorOf = (change: SharedWrite) => Author;

const UNKNOWN: Author = { who: 'unknown' };
const OUT_OF_REACH: Author = {
  who: 'others',
  why: 'the clone is in another server, and the command had no session in this one',
};

/** To be asked after the run, before we come to the target. @param sharesServer the clone is in the target's server. */
export async function authorship(
  { transactions, elsewhere }: OwnWork,
  newcomers: Pick<Newcomers, 'areOthers'>,
  sharesServer: boolean,
): Promise<AuthorOf> {
  const sawAll = await newcomers.areOthers(sharesServer ? elsewhere : []);
  return (change) => {
    const author = sharesServer ? (transactions?.authorOf(change) ?? UNKNOWN) : OUT_OF_REACH;
    return author.who === 'others' && !sawAll ? UNKNOWN : author;
  };
}

const WRITING = new Set([
  'RowExclusiveLock',
  'ShareUpdateExclusiveLock',
  'ShareLock',
  'ShareRowExclusiveLock',
  'ExclusiveLock',
  'AccessExclusiveLock',
]);
/** Rows carry the lower 32 bits of a transaction's id. */
const EPOCH = 2 ** 32;
const HALF_EPOCH = 2 ** 31;

/** The transactions that came through the proxy, for telling whether one of them made a change. */
export class OwnTransactions {
  readonly #windows = new Map<number, Window>();
  /** For statements that take the locks of another of their shape. */
  readonly #byStatement = new Map<number, readonly number[]>();
  /** Those that ended, until a look that came after tells how far they can have got. */
  readonly #ended = new Map<Window, { readonly atMs: number }>();
  #nextXid = 0;

  /** To be given every event of the proxy. */
  readonly observe = (event: Observed): void => {
    switch (event.type) {
      case 'begin':
        this.#open(event.statement);
        break;
      case 'reading':
        this.#learn(event.transaction, event.reading);
        break;
      case 'locks':
        for (const statement of event.statements) this.#locked(statement, event);
        break;
      case 'transaction-end':
        this.#close(event);
        break;
      case 'session':
      case 'session-end':
      case 'end':
      case 'undone':
        break;
    }
  };

  /** Who made a change, as far as the command's transactions tell; whatever else it had must be known otherwise. */
  authorOf({ xmin, catalogues }: SharedWrite): Author {
    const id = xmin === null ? null : this.#inFull(xmin);
    const all = [...this.#windows.values()];
    if (id !== null && all.some(({ known }) => known.has(id)))
      return { who: 'command', why: `a transaction of the command wrote it (${id})` };
    const candidates = all.filter(({ lower, upper }) => id === null || (lower <= id && id < upper));
    if (candidates.length === 0)
      return { who: 'others', why: 'no transaction of the command can have written it' };
    if (!catalogues) return UNKNOWN;
    const may = candidates.some((it) => !it.read || catalogues.some((oid) => it.catalogues.has(oid)));
    return may
      ? UNKNOWN
      : { who: 'others', why: 'the command had no lock on the catalogue that it is kept in' };
  }

  #open({ transaction }: Statement): void {
    if (this.#windows.has(transaction)) return;
    this.#windows.set(transaction, {
      lower: this.#nextXid,
      upper: Number.POSITIVE_INFINITY,
      known: new Set(),
      looked: false,
      read: true,
      sampled: false,
      catalogues: new Set(),
    });
  }

  #learn(transaction: number | null, { nextXid, xids, askedMs }: StatementReading): void {
    if (nextXid === null) return;
    this.#nextXid = Math.max(this.#nextXid, nextXid);
    for (const [ended, { atMs }] of this.#ended) {
      if (atMs >= askedMs) continue;
      ended.upper = nextXid;
      this.#ended.delete(ended);
    }
    const window = transaction === null ? undefined : this.#windows.get(transaction);
    if (!window) return;
    window.looked = true;
    const held = xids.map((xid) => this.#inFull(xid));
    for (const xid of held) window.known.add(xid);
    if (held.length > 0) window.lower = Math.min(...window.known);
  }

  #locked({ id, transaction }: Statement, event: Extract<Observed, { type: 'locks' }>): void {
    const window = this.#windows.get(transaction);
    if (!window) return;
    if (event.exactness === 'sampled') window.sampled = true;
    if (event.exactness === 'sampled' || event.exactness === 'unknown') window.read = false;
    // What repeats another statement was not looked at.
    if (event.like) window.looked = false;
    const catalogues = event.like
      ? (this.#byStatement.get(event.like.id) ?? [])
      : writtenCatalogues(event.locks ?? []);
    if (catalogues.length > 0) this.#byStatement.set(id, catalogues);
    for (const oid of catalogues) window.catalogues.add(oid);
  }

  #close({ transaction, outcome, lost }: Extract<Observed, { type: 'transaction-end' }>): void {
    const window = this.#windows.get(transaction);
    // Of what is lost the server may still be at the end of it.
    if (!window || lost) return;
    const undone = outcome === 'rolled back' && !window.sampled;
    const wroteNothing = window.looked && window.read && window.known.size === 0;
    if (undone || wroteNothing) this.#windows.delete(transaction);
    else this.#ended.set(window, { atMs: performance.now() });
  }

  /** The id of a transaction that began not long ago. */
  #inFull(xid: number): number {
    const sameEpoch = Math.floor(this.#nextXid / EPOCH) * EPOCH + xid;
    if (sameEpoch > this.#nextXid + HALF_EPOCH) return sameEpoch - EPOCH;
    return sameEpoch < this.#nextXid - HALF_EPOCH ? sameEpoch + EPOCH : sameEpoch;
  }
}

function writtenCatalogues(locks: readonly RelationLock[]): number[] {
  return locks
    .filter(({ database, mode }) => database === 0 && WRITING.has(mode))
    .map(({ relation }) => relation);
}
