import { setTimeout as delay } from 'node:timers/promises';
import type { Session } from '../postgres/connection/session.ts';
import { endsWithin } from '../postgres/ends-within.ts';
import type { Observed, Statement } from '../proxy/observed.ts';

/**
 * What became of transactions whose connection broke before the server's last word came. While the command runs, the ids
 * of its transactions are looked up on the side, so that pg_xact_status() can be asked afterwards. Nothing is held back
 * for it: one that began and ended between two looks stays unknown.
 */
export type Fate = 'committed' | 'rolled back' | 'unknown';

const BACKENDS = `
SELECT pid, backend_xid::pg_catalog.text AS xid,
       pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.text AS next
  FROM pg_catalog.pg_stat_get_activity(NULL) WHERE pid = ANY ($1::pg_catalog.int4[]) AND backend_xid IS NOT NULL`;
const STATUS = 'SELECT pg_catalog.pg_xact_status($1::pg_catalog.xid8) AS status';

const LOST = '08006';
/** A statement outside a block is looked at when it has gone on for this long. */
const SOON_MS = 30;
/** For a backend that has not noticed yet that nobody listens. */
const PATIENCE_MS = 10_000;
const POLL_MS = 100;

const EPOCH = 2n ** 32n;

interface Open {
  readonly pid: number;
  xid?: string;
  /** A statement was under way when the connection broke: it may have been the last one. */
  cutOff: boolean;
}

export class TransactionWatch {
  readonly #session: Session;
  readonly #pids = new Map<number, number>();
  readonly #open = new Map<number, Open>();
  readonly #lost = new Map<number, Open>();
  #looking: Promise<void> | undefined;
  #lookAgain = false;

  /** @param session of ours, which nothing else waits for. */
  constructor(session: Session) {
    this.#session = session;
  }

  /** Process ids of the command's sessions. */
  get pids(): number[] {
    return [...this.#pids.values()];
  }

  /** To be given every event of the proxy. */
  readonly observe = (event: Observed): void => {
    switch (event.type) {
      case 'session':
        this.#pids.set(event.session, event.pid);
        break;
      case 'begin':
        this.#begin(event.statement);
        break;
      case 'end': {
        const open = this.#open.get(event.statement.transaction);
        if (!open) break;
        if (event.outcome.error?.get('C') === LOST) open.cutOff = true;
        else if (event.statement.explicit && open.xid === undefined) this.#look();
        break;
      }
      case 'undone':
        // Sent again it gets another id, and one look at the old one may still be under way.
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

  /** When the server has answered every look that was asked for. */
  async settled(): Promise<void> {
    while (this.#looking) await this.#looking;
  }

  /**
   * Of the transactions whose connection broke.
   * @param session a new one, on the server that the command worked on; null where it cannot be reached or is another one.
   */
  async fates(session: Session | null): Promise<Map<number, Fate>> {
    // Behind a cut network nothing is answered: what was not learnt by then stays unknown.
    await endsWithin(this.settled(), PATIENCE_MS);
    const fates = new Map<number, Fate>();
    for (const [transaction, open] of this.#lost) fates.set(transaction, await this.#fate(open, session));
    return fates;
  }

  async #fate({ xid, cutOff }: Open, session: Session | null): Promise<Fate> {
    // Between two statements of a block nobody has asked for its end, so the server rolls it back.
    if (!cutOff) return 'rolled back';
    if (xid === undefined || session === null) return 'unknown';
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const [row] = await session.query<{ status: string | null }>(STATUS, [xid]);
      if (row?.status === 'committed') return 'committed';
      if (row?.status === 'aborted') return 'rolled back';
      if (row?.status !== 'in progress' || performance.now() > deadline) return 'unknown';
      await delay(POLL_MS);
    }
  }

  #begin({ session, transaction, explicit }: Statement): void {
    const pid = this.#pids.get(session);
    if (pid === undefined) return;
    if (!this.#open.has(transaction)) this.#open.set(transaction, { pid, cutOff: false });
    if (explicit) return;
    setTimeout(() => {
      const open = this.#open.get(transaction);
      if (open && open.xid === undefined) this.#look();
    }, SOON_MS).unref();
  }

  /** One look at a time. What is asked for during one gets the next: the id may have been given behind the first. */
  #look(): void {
    if (this.#looking) {
      this.#lookAgain = true;
      return;
    }
    this.#looking = this.#read().finally(() => {
      this.#looking = undefined;
      if (!this.#lookAgain) return;
      this.#lookAgain = false;
      this.#look();
    });
  }

  async #read(): Promise<void> {
    // A transaction that begins while the server answers must not get the id of the one before it.
    const asked = [...this.#open.values()];
    try {
      const rows = await this.#session.query<{ pid: number; xid: string; next: string }>(BACKENDS, [
        asked.map(({ pid }) => pid),
      ]);
      for (const { pid, xid, next } of rows) {
        const open = asked.find((each) => each.pid === pid);
        if (open) open.xid ??= inFull(BigInt(xid), BigInt(next));
      }
    } catch {
      // The connection is gone or the role may not: the transactions stay unknown.
    }
  }
}

/** The id in 64 bits of a transaction that began not long ago. */
function inFull(xid: bigint, next: bigint): string {
  const sameEpoch = (next / EPOCH) * EPOCH + xid;
  return String(sameEpoch > next ? sameEpoch - EPOCH : sameEpoch);
}
