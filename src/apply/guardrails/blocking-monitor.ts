import { formatDuration, plural } from '../../format.ts';
import type { DuringSection } from '../../model/report.ts';
import type { Observed, Statement } from '../../proxy/observed.ts';
import type { ActivityReader } from './activity-reader.ts';
import { Blockers } from './blockers.ts';
import type { GuardrailEvents } from './guardrail-events.ts';
import type { Guardrails } from './guardrail-options.ts';
import { blockedBehind, type Waiter } from './waiters.ts';

type Reason = DuringSection['cancelled'][number]['reason'];
type Excess = Omit<DuringSection['cancelled'][number], 'sql' | 'outcome'>;

/** One of the command's backends that is within a transaction. */
interface Ours {
  readonly session: number;
  readonly pid: number;
  /** null between two statements. */
  statement: Statement | null;
  /** Its limit was exceeded while nothing ran that could be cancelled. */
  overdue: Excess | null;
}

// pg_blocking_pids stops the lock manager for a moment, and so is asked only of those that wait. pg_lock_status tells of
// all roles' locks; waitstart is missing for a moment after a wait has begun. Advisory locks are how migration tools keep each
// other out, and a virtualxid is waited for by CREATE INDEX CONCURRENTLY: nobody is hurt by those.
const WAITERS = `
SELECT w.pid, w.hurt, pg_blocking_pids(w.pid) AS blockers,
       extract(epoch FROM clock_timestamp())::float8 * 1000 AS "nowMs",
       coalesce(extract(epoch FROM w.since), extract(epoch FROM clock_timestamp()))::float8 * 1000 AS "sinceMs"
  FROM (SELECT pid, min(waitstart) AS since, bool_or(locktype NOT IN ('advisory', 'virtualxid')) AS hurt FROM pg_lock_status() WHERE NOT granted GROUP BY pid) w
 WHERE w.pid IS NOT NULL`;

const OURS = `
SELECT pid, extract(epoch FROM xact_start)::float8 * 1000 AS "begunMs"
  FROM pg_stat_get_activity(NULL) WHERE pid = ANY ($1::int4[])`;

// A walsender of a standby is in no database and takes no slot. reserved_connections exists from version 16 on.
const FREE = `
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - coalesce(current_setting('reserved_connections', true)::int, 0)
       - (SELECT count(*)::int FROM pg_stat_get_activity(NULL)
           WHERE datid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend') AS free`;

// A cancel that meets a wait for synchronous replication lets the transaction commit, which it has locally already.
const CANCEL = `
SELECT wait_event IS NOT DISTINCT FROM 'SyncRep' AS standby,
       CASE WHEN wait_event IS DISTINCT FROM 'SyncRep' AND state IS NOT DISTINCT FROM 'active'
            THEN pg_cancel_backend(pid) ELSE false END AS cancelled
  FROM pg_stat_get_activity($1::int4)`;

const LOOK_EVERY_MS = 100;
/** Fewer free slots than this, while sessions pile up, mean that the application is about to get none. */
const LEAST_FREE_SLOTS = 3;

/**
 * Looks every 100 ms, while the command has a transaction open, at who waits behind it, and cancels its statement when they
 * are too many or wait too long: before the application notices.
 */
export class BlockingMonitor {
  readonly #limits: Pick<Guardrails, 'maxBlockedMs' | 'maxWaiting' | 'unblock'>;
  readonly #looker: ActivityReader;
  readonly #happenings: GuardrailEvents;
  readonly #blockers: Blockers;
  readonly #pids = new Map<number, number>();
  /** By process id. */
  readonly #ours = new Map<number, Ours>();
  readonly #told = new Set<Statement>();
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #closed = false;
  #blind = false;

  constructor(
    limits: Pick<Guardrails, 'maxBlockedMs' | 'maxWaiting' | 'unblock'>,
    looker: ActivityReader,
    happenings: GuardrailEvents,
  ) {
    this.#limits = limits;
    this.#looker = looker;
    this.#happenings = happenings;
    this.#blockers = new Blockers(looker, happenings, limits.unblock === 'idle-in-transaction');
  }

  /** To be given every event of the proxy. */
  observe(event: Observed): void {
    switch (event.type) {
      case 'session':
        this.#pids.set(event.session, event.pid);
        break;
      case 'begin':
        this.#begun(event.statement);
        break;
      case 'end': {
        const ours = this.#of(event.statement.session);
        if (ours?.statement === event.statement) ours.statement = null;
        break;
      }
      case 'undone':
      case 'transaction-end':
        this.#ours.delete(this.#pids.get(event.session) ?? 0);
        break;
      case 'session-end':
        this.#ours.delete(this.#pids.get(event.session) ?? 0);
        this.#pids.delete(event.session);
        break;
      case 'locks':
      case 'reading':
        break;
    }
  }

  /** How the session's transaction has made others wait too long while nothing ran in it. */
  overdue(session: number): Excess | null {
    return this.#of(session)?.overdue ?? null;
  }

  /** When what was asked of the server last is answered: what was cancelled is told by then. */
  async settled(): Promise<void> {
    await this.#looking;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  #of(session: number): Ours | undefined {
    return this.#ours.get(this.#pids.get(session) ?? 0);
  }

  #begun(statement: Statement): void {
    const { session } = statement;
    const pid = this.#pids.get(session);
    if (pid === undefined) return;
    const ours = this.#ours.get(pid);
    if (ours) ours.statement = statement;
    else this.#ours.set(pid, { session, pid, statement, overdue: null });
    this.#lookLater();
  }

  #lookLater(): void {
    if (this.#timer || this.#looking || this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#ours.size === 0) return;
      this.#looking = this.#look().then(() => {
        this.#looking = undefined;
        if (this.#ours.size > 0) this.#lookLater();
      });
    }, LOOK_EVERY_MS);
  }

  async #look(): Promise<void> {
    const waiters = await this.#looker.ask<Waiter>(WAITERS, []);
    if (!waiters) {
      if (!this.#blind)
        this.#happenings.say('who waits behind the command cannot be seen: the server does not answer');
      this.#blind = true;
      return;
    }
    this.#blind = false;
    if (waiters.length === 0) return;
    const pids = [...this.#ours.keys()];
    for (const { pid, blockers } of waiters) {
      const statement = this.#ours.get(pid)?.statement;
      if (statement) await this.#blockers.see(statement, blockers);
    }
    if (!waiters.some(({ pid, hurt }) => hurt && !this.#ours.has(pid))) return;
    const begun = await this.#looker.ask<{ pid: number; begunMs: number | null }>(OURS, [pids]);
    for (const { pid, begunMs } of begun ?? []) {
      const ours = this.#ours.get(pid);
      if (ours) await this.#judge(ours, blockedBehind(pid, begunMs, waiters, new Set(pids)));
    }
  }

  async #judge(ours: Ours, behind: { waiting: number; longestMs: number }): Promise<void> {
    const { waiting, longestMs } = behind;
    if (waiting === 0) return;
    const reason = await this.#reason(waiting, longestMs);
    if (reason === undefined || ours.overdue) return;
    const { statement } = ours;
    const entry = { reason, waiting, waitedMs: longestMs };
    const who = `${plural(waiting, 'session')} waited behind it for up to ${formatDuration(longestMs)}`;
    if (!statement) {
      ours.overdue = entry;
      this.#happenings.say(`the command's open transaction must end: ${who}`);
      return;
    }
    if (this.#told.has(statement)) return;
    const [did] =
      (await this.#looker.ask<{ standby: boolean; cancelled: boolean }>(CANCEL, [ours.pid])) ?? [];
    if (!did) return;
    // Its error may have come before our own answer.
    const { sql } = statement;
    if (did.standby) {
      this.#told.add(statement);
      this.#happenings.cancelled({ ...entry, sql, outcome: 'standby' });
      this.#happenings.say(
        `${this.#happenings.named(sql)} has committed and waits for a standby, and ${who}: it is left alone`,
      );
    } else if (did.cancelled) {
      this.#told.add(statement);
      this.#happenings.cancelled({ ...entry, sql, outcome: 'cancelled' });
      this.#happenings.say(`${this.#happenings.named(sql)} was cancelled: ${who} (${OPTION[reason]})`);
    }
  }

  async #reason(waiting: number, longestMs: number): Promise<Reason | undefined> {
    const { maxBlockedMs, maxWaiting } = this.#limits;
    if (maxBlockedMs > 0 && longestMs > maxBlockedMs) return 'max-blocked';
    if (maxWaiting > 0 && waiting > maxWaiting) return 'max-waiting';
    const [slots] = (await this.#looker.ask<{ free: number }>(FREE, [])) ?? [];
    return slots && slots.free < LEAST_FREE_SLOTS ? 'connections' : undefined;
  }
}

const OPTION: Readonly<Record<Reason, string>> = {
  'max-blocked': '--max-blocked',
  'max-waiting': '--max-waiting',
  connections: 'hardly any connection is left',
};
