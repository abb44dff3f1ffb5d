import { setTimeout as delay } from 'node:timers/promises';
import type { Session } from '../postgres/connection/session.ts';
import { endsWithin } from '../postgres/session-helpers.ts';
import type { Observed, Statement } from '../proxy/observed.ts';

/**
 * The fate of a transaction whose connection was lost before the server reported its end. While the command runs, a session of
 * ours reads the ids of its transactions, so that pg_xact_status() can be asked afterwards. No statement waits for that: the
 * fate of a transaction that began and ended between two reads stays unknown.
 */
export type Fate = 'committed' | 'rolled back' | 'unknown';

const BACKENDS = `
SELECT pid, backend_xid::pg_catalog.text AS xid,
       pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.text AS next
  FROM pg_catalog.pg_stat_get_activity(NULL) WHERE pid = ANY ($1::pg_catalog.int4[]) AND backend_xid IS NOT NULL`;
const STATUS = 'SELECT pg_catalog.pg_xact_status($1::pg_catalog.xid8) AS status';

const LOST = '08006';
/** A statement outside a transaction block has its id read if it runs for this long. */
const SLOW_MS = 30;
/** How long a backend may take to notice that its client is gone. */
const BACKEND_EXIT_MS = 10_000;
const POLL_MS = 100;

const EPOCH = 2n ** 32n;

interface Open {
  readonly pid: number;
  xid?: string;
  /** A statement was under way when the connection was lost: it may have been the COMMIT. */
  cutOff: boolean;
}

export class TransactionWatch {
  readonly #session: Session;
  readonly #pids = new Set<number>();
  readonly #open = new Map<number, Open>();
  readonly #lost = new Map<number, Open>();
  #reading: Promise<void> | undefined;
  #readAgain = false;

  /** @param session a session of ours that is otherwise idle. */
  constructor(session: Session) {
    this.#session = session;
  }

  /** Process ids of the command's sessions. */
  get pids(): number[] {
    return [...this.#pids];
  }

  /** Takes every event of the proxy. */
  readonly observe = (event: Observed): void => {
    switch (event.type) {
      case 'session':
        this.#pids.add(event.pid);
        break;
      case 'begin':
        this.#begin(event.statement);
        break;
      case 'end': {
        const open = this.#open.get(event.statement.transaction);
        if (!open) break;
        if (event.outcome.error?.get('C') === LOST) open.cutOff = true;
        else if (event.statement.explicit && open.xid === undefined) this.#readSoon();
        break;
      }
      case 'undone':
        // A transaction that is sent again gets another id, and a read of the old one may be under way.
        this.#open.delete(event.transaction);
        break;
      case 'transaction-end': {
        const open = this.#open.get(event.transaction);
        this.#open.delete(event.transaction);
        if (open && event.lost) this.#lost.set(event.transaction, open);
        break;
      }
      case 'session-end':
      case 'locks':
      case 'reading':
        break;
    }
  };

  /** Resolves when no read is under way or due. */
  async settled(): Promise<void> {
    while (this.#reading) await this.#reading;
  }

  /**
   * Reads the fates of the transactions whose connection was lost.
   * @param session a new one on the same server; null if that cannot be reached.
   */
  async fates(session: Session | null): Promise<Map<number, Fate>> {
    // If the network is down, no answer comes: the ids that are missing by then stay unknown.
    await endsWithin(this.settled(), BACKEND_EXIT_MS);
    const fates = new Map<number, Fate>();
    for (const [transaction, open] of this.#lost) fates.set(transaction, await this.#fate(open, session));
    return fates;
  }

  async #fate({ xid, cutOff }: Open, session: Session | null): Promise<Fate> {
    // No COMMIT was sent, so the server rolls it back.
    if (!cutOff) return 'rolled back';
    if (xid === undefined || session === null) return 'unknown';
    const deadline = performance.now() + BACKEND_EXIT_MS;
    for (;;) {
      const [row] = await session.query<{ status: string | null }>(STATUS, [xid]);
      if (row?.status === 'committed') return 'committed';
      if (row?.status === 'aborted') return 'rolled back';
      if (row?.status !== 'in progress' || performance.now() > deadline) return 'unknown';
      await delay(POLL_MS);
    }
  }

  #begin({ pid, transaction, explicit }: Statement): void {
    if (!this.#open.has(transaction)) this.#open.set(transaction, { pid, cutOff: false });
    if (explicit) return;
    setTimeout(() => {
      const open = this.#open.get(transaction);
      if (open && open.xid === undefined) this.#readSoon();
    }, SLOW_MS).unref();
  }

  /** Reads once at a time. A read requested during another one follows it: the id may have been assigned after the first. */
  #readSoon(): void {
    if (this.#reading) {
      this.#readAgain = true;
      return;
    }
    this.#reading = this.#read().finally(() => {
      this.#reading = undefined;
      if (!this.#readAgain) return;
      this.#readAgain = false;
      this.#readSoon();
    });
  }

  async #read(): Promise<void> {
    // A transaction that begins while the server answers must not get the id of the one before it.
    const open = [...this.#open.values()];
    try {
      const pids = open.map(({ pid }) => pid);
      const rows = await this.#session.query<{ pid: number; xid: string; next: string }>(BACKENDS, [pids]);
      for (const { pid, xid, next } of rows) {
        const transaction = open.find((each) => each.pid === pid);
        if (transaction) transaction.xid ??= fullTransactionId(BigInt(xid), BigInt(next));
      }
    } catch {
      // The connection is lost, or the role may not: the fates stay unknown.
    }
  }
}

/** Extends the 32-bit id of a recent transaction to 64 bits. */
function fullTransactionId(xid: bigint, next: bigint): string {
  const sameEpoch = (next / EPOCH) * EPOCH + xid;
  return String(sameEpoch > next ? sameEpoch - EPOCH : sameEpoch);
}
