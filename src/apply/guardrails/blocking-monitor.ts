import { formatDuration, plural } from '../../format.ts';
import type { DuringSection } from '../../model/report.ts';
import { type ActivityReader, blockedBehind, WAITERS, type Waiter } from '../../observe/activity-reader.ts';
import type { Observed, Statement } from '../../proxy/observed.ts';
import type { Guardrails } from '../apply-settings.ts';
import { Blockers } from './blockers.ts';
import type { GuardrailEvents } from './guardrail-events.ts';

type Reason = DuringSection['cancelled'][number]['reason'];
type Excess = Omit<DuringSection['cancelled'][number], 'sql' | 'outcome'>;

/** One of the command's backends that is in a transaction. */
interface CommandBackend {
  readonly pid: number;
  /** null between statements. */
  statement: Statement | null;
  /** Set if a limit was exceeded between statements, when there is nothing to cancel. */
  overdue: Excess | null;
}

const BEGUN = `
SELECT pid, extract(epoch FROM xact_start)::float8 * 1000 AS "begunMs"
  FROM pg_stat_get_activity(NULL) WHERE pid = ANY ($1::int4[])`;

// A standby's walsender has no database and uses none of these slots. reserved_connections exists from version 16 on.
const FREE = `
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - coalesce(current_setting('reserved_connections', true)::int, 0)
       - (SELECT count(*)::int FROM pg_stat_get_activity(NULL)
           WHERE datid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend') AS free`;

// A backend that waits for synchronous replication has committed already: a cancel would only end the wait.
const CANCEL = `
SELECT wait_event IS NOT DISTINCT FROM 'SyncRep' AS standby,
       CASE WHEN wait_event IS DISTINCT FROM 'SyncRep' AND state IS NOT DISTINCT FROM 'active'
            THEN pg_cancel_backend(pid) ELSE false END AS cancelled
  FROM pg_stat_get_activity($1::int4)`;

const CHECK_EVERY_MS = 100;
/** If fewer connection slots are free while sessions are blocked, the application will soon get none. */
const LEAST_FREE_SLOTS = 3;

/**
 * Every 100 ms, while the command has a transaction open, it checks which sessions the command blocks, and cancels the command's
 * statement if they are too many or wait too long.
 */
export class BlockingMonitor {
  readonly #limits: Pick<Guardrails, 'maxBlockedMs' | 'maxWaiting' | 'unblock'>;
  readonly #activity: ActivityReader;
  readonly #events: GuardrailEvents;
  readonly #blockers: Blockers;
  /** Process ids of the command's sessions. */
  readonly #own = new Set<number>();
  /** By session. */
  readonly #backends = new Map<number, CommandBackend>();
  readonly #cancelled = new Set<Statement>();
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;
  #closed = false;
  #blind = false;

  constructor(
    limits: Pick<Guardrails, 'maxBlockedMs' | 'maxWaiting' | 'unblock'>,
    activity: ActivityReader,
    events: GuardrailEvents,
  ) {
    this.#limits = limits;
    this.#activity = activity;
    this.#events = events;
    this.#blockers = new Blockers(activity, events, limits.unblock);
  }

  /** Takes every event of the proxy. */
  observe(event: Observed): void {
    switch (event.type) {
      case 'session':
        this.#own.add(event.pid);
        break;
      case 'begin':
        this.#begun(event.statement);
        break;
      case 'end': {
        const backend = this.#backends.get(event.statement.session);
        if (backend?.statement === event.statement) backend.statement = null;
        this.#events.unblocked();
        break;
      }
      case 'undone':
      case 'transaction-end':
        this.#backends.delete(event.session);
        break;
      case 'session-end':
        this.#backends.delete(event.session);
        this.#own.delete(event.pid);
        break;
      case 'locks':
      case 'reading':
        break;
    }
  }

  /** Says how the session's open transaction has exceeded a limit between statements; null if it has not. */
  overdue(session: number): Excess | null {
    return this.#backends.get(session)?.overdue ?? null;
  }

  /** Waits for the check under way, so that every cancel is recorded. */
  async settled(): Promise<void> {
    await this.#checking;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#checking;
  }

  #begun(statement: Statement): void {
    const { session, pid } = statement;
    const backend = this.#backends.get(session);
    if (backend) backend.statement = statement;
    else this.#backends.set(session, { pid, statement, overdue: null });
    this.#checkLater();
  }

  #checkLater(): void {
    if (this.#timer || this.#checking || this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#backends.size === 0) return;
      this.#checking = this.#check().then(() => {
        this.#checking = undefined;
        if (this.#backends.size > 0) this.#checkLater();
      });
    }, CHECK_EVERY_MS);
  }

  async #check(): Promise<void> {
    const waiters = await this.#activity.ask<Waiter>(WAITERS);
    if (!waiters) {
      if (!this.#blind)
        this.#events.say(
          'the sessions that the command blocks cannot be checked: the server does not answer',
        );
      this.#blind = true;
      return;
    }
    this.#blind = false;
    if (waiters.length === 0) return;
    const open = new Map([...this.#backends.values()].map((backend) => [backend.pid, backend]));
    for (const { pid, blockers } of waiters) {
      const statement = open.get(pid)?.statement;
      if (statement) await this.#blockers.report(statement, blockers, this.#own);
    }
    if (!waiters.some(({ pid, hurt }) => hurt && !open.has(pid))) return;
    const pids = [...open.keys()];
    const begun = await this.#activity.ask<{ pid: number; begunMs: number | null }>(BEGUN, [pids]);
    for (const { pid, begunMs } of begun ?? []) {
      const backend = open.get(pid);
      if (backend) await this.#enforceLimits(backend, blockedBehind(pid, begunMs, waiters, new Set(pids)));
    }
  }

  async #enforceLimits(
    backend: CommandBackend,
    behind: { waiting: number; longestMs: number },
  ): Promise<void> {
    const { waiting, longestMs } = behind;
    if (waiting === 0) return;
    const reason = await this.#exceededLimit(waiting, longestMs);
    if (reason === undefined || backend.overdue) return;
    const { statement } = backend;
    const entry = { reason, waiting, waitedMs: longestMs };
    const blocked = `it blocked ${plural(waiting, 'session')} for up to ${formatDuration(longestMs)}`;
    if (!statement) {
      backend.overdue = entry;
      this.#events.say(`the command's open transaction must end: ${blocked}`);
      return;
    }
    if (this.#cancelled.has(statement)) return;
    const [result] =
      (await this.#activity.ask<{ standby: boolean; cancelled: boolean }>(CANCEL, [backend.pid])) ?? [];
    if (!result) return;
    const { sql } = statement;
    if (result.standby) {
      this.#cancelled.add(statement);
      this.#events.cancelled({ ...entry, sql, outcome: 'standby' });
      this.#events.say(
        `${this.#events.named(sql)} has committed and waits for a standby; ${blocked}; it is not cancelled`,
      );
    } else if (result.cancelled) {
      this.#cancelled.add(statement);
      this.#events.cancelled({ ...entry, sql, outcome: 'cancelled' });
      this.#events.say(`${this.#events.named(sql)} was cancelled: ${blocked} (${OPTION[reason]})`);
    }
  }

  async #exceededLimit(waiting: number, longestMs: number): Promise<Reason | undefined> {
    const { maxBlockedMs, maxWaiting } = this.#limits;
    if (maxBlockedMs > 0 && longestMs > maxBlockedMs) return 'max-blocked';
    if (maxWaiting > 0 && waiting > maxWaiting) return 'max-waiting';
    const [slots] = (await this.#activity.ask<{ free: number }>(FREE, [])) ?? [];
    return slots && slots.free < LEAST_FREE_SLOTS ? 'connections' : undefined;
  }
}

const OPTION: Readonly<Record<Reason, string>> = {
  'max-blocked': '--limit blocked',
  'max-waiting': '--limit waiting',
  connections: 'hardly any connection slot is free',
};
