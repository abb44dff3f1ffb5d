import { formatDuration } from '../../format.ts';
import type { DuringSection } from '../../model/report.ts';
import type { ActivityReader } from '../../observe/activity-reader.ts';
import type { Statement } from '../../proxy/observed.ts';
import type { Unblock } from '../apply-settings.ts';
import type { GuardrailEvents } from './guardrail-events.ts';

// Without pg_read_all_stats a role sees only the pids of other roles' sessions.
const BLOCKER = `
SELECT a.pid, a.usename::text AS "user",
       coalesce(nullif(a.application_name, ''), nullif(a.backend_type, 'client backend')) AS application,
       a.state, nullif(left(a.query, 500), '') AS query,
       to_json(coalesce(a.xact_start, a.query_start)) #>> '{}' AS since,
       to_json(a.backend_start) #>> '{}' AS started,
       a.state = 'idle in transaction' AND clock_timestamp() - a.state_change > interval '1 second' AS idle,
       a.backend_type = 'client backend' AND a.wait_event_type IS DISTINCT FROM 'Lock' AS endable
  FROM pg_stat_activity a WHERE a.pid = ANY ($1)`;

// The transaction may have ended or continued in the meantime, and the pid may have been reused.
const TERMINATE = `
SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
 WHERE pid = $1 AND backend_start = $2::timestamptz AND coalesce(xact_start, query_start) = $3::timestamptz
   AND (state = 'idle in transaction' OR $4)`;

type Entry = DuringSection['blockers'][number];

interface Blocker {
  pid: number;
  user: string | null;
  application: string | null;
  state: string | null;
  query: string | null;
  since: string | null;
  started: string | null;
  idle: boolean | null;
  /** A session of a client that does not itself wait for somebody else's lock. */
  endable: boolean | null;
}

/** Number of blockers of a statement that are named while it waits; the report has them all. */
const NAMED = 10;

/** Reports the sessions that block the command, and terminates those that --unblock permits to terminate. */
export class Blockers {
  readonly #activity: ActivityReader;
  readonly #events: GuardrailEvents;
  readonly #unblock: Unblock;
  readonly #seen = new Map<string, Entry>();
  /** When each transaction was first seen to block the command, whichever statement, by performance.now(). */
  readonly #blockingSince = new Map<string, number>();
  /** Transactions that could not be terminated, which is not tried again. */
  readonly #refused = new Set<string>();

  constructor(activity: ActivityReader, events: GuardrailEvents, unblock: Unblock) {
    this.#activity = activity;
    this.#events = events;
    this.#unblock = unblock;
  }

  /**
   * Reports the blockers of a statement, and terminates at most one of them.
   * @param pids process ids; 0 for a prepared transaction.
   * @param own process ids of the command, which are never terminated.
   */
  async report(statement: Statement, pids: readonly number[], own: ReadonlySet<number>): Promise<void> {
    const asked = [...new Set(pids)].filter((pid) => {
      const entry = this.#seen.get(keyOf(statement, pid));
      return !entry || !(entry.ended || this.#unblock === 'never');
    });
    if (asked.length === 0) return this.#show(statement, pids);
    const found = (await this.#activity.ask<Blocker>(BLOCKER, [asked])) ?? [];
    const unseen = asked.filter((pid) => !this.#seen.has(keyOf(statement, pid)));
    for (const [index, pid] of unseen.entries()) {
      const blocker = found.find((each) => each.pid === pid);
      if (index < NAMED) this.#name(statement, pid, blocker);
      this.#seen.set(keyOf(statement, pid), this.#record(statement, pid, blocker));
    }
    if (unseen.length > NAMED)
      this.#events.say(
        `${this.#events.named(statement.sql)} waits for ${unseen.length - NAMED} more sessions`,
      );
    this.#show(statement, pids);
    const blockers = found.filter(({ pid }) => !own.has(pid));
    const overdue = blockers.filter((blocker) => this.#mayTerminate(blocker));
    const [longest] = overdue.sort((a, b) => Date.parse(a.since ?? '') - Date.parse(b.since ?? ''));
    if (longest) await this.#terminate(statement, longest);
  }

  /** Shows the blocker whose transaction is the oldest. */
  #show(statement: Statement, pids: readonly number[]): void {
    const entries = pids.flatMap((pid) => this.#seen.get(keyOf(statement, pid)) ?? []);
    const [oldest] = entries
      .filter(({ ended }) => !ended)
      .sort((a, b) => Date.parse(a.since ?? '') - Date.parse(b.since ?? ''));
    if (oldest) this.#events.waitsFor(oldest, this.#ways(oldest.pid));
  }

  /** Names the ways to end a wait: by hand, and by a flag. */
  #ways(pid: number): string {
    if (pid === 0) return 'COMMIT PREPARED or ROLLBACK PREPARED';
    return `pg_terminate_backend(${pid})${this.#unblock === 'never' ? ' or --unblock' : ''}`;
  }

  #mayTerminate(blocker: Blocker): boolean {
    const transaction = transactionOf(blocker);
    if (this.#unblock === 'never' || blocker.since === null || this.#refused.has(transaction)) return false;
    if (blocker.idle) return true;
    if (typeof this.#unblock === 'string' || !blocker.endable) return false;
    const nowMs = performance.now();
    const since = this.#blockingSince.get(transaction) ?? nowMs;
    this.#blockingSince.set(transaction, since);
    return nowMs - since >= this.#unblock.activeAfterMs;
  }

  #record(statement: Statement, pid: number, blocker: Blocker | undefined): Entry {
    const { user = null, application = null, state = null, query = null, since = null } = blocker ?? {};
    const prepared = pid === 0 ? { state: 'prepared' } : {};
    const blocked = statement.sql;
    return this.#events.blocked({
      pid,
      user,
      application,
      state,
      query,
      since,
      blocked,
      ended: false,
      ...prepared,
    });
  }

  #name(statement: Statement, pid: number, blocker: Blocker | undefined): void {
    const since = blocker?.since ? ` since ${blocker.since}` : '';
    const waits = `${this.#events.named(statement.sql)} waits for ${this.#named(pid, blocker)}${since}`;
    this.#events.say(`${waits}; to end that: ${pid === 0 ? '' : 'SELECT '}${this.#ways(pid)}`);
  }

  #named(pid: number, blocker: Blocker | undefined): string {
    if (pid === 0) return 'a prepared transaction';
    const { user, application, state, query } = blocker ?? {};
    const parts = [user, application, state, query && this.#events.named(query)].filter((part) => part);
    return `pid ${pid}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`;
  }

  async #terminate(statement: Statement, blocker: Blocker): Promise<void> {
    const { pid, started, since, idle } = blocker;
    const why =
      idle || typeof this.#unblock === 'string'
        ? 'it is idle in its transaction'
        : `its transaction has blocked the command for ${formatDuration(this.#unblock.activeAfterMs)}`;
    this.#events.say(`terminating ${this.#named(pid, blocker)}: ${why} (--unblock)`);
    const answer = await this.#activity.ask<{ ended: boolean }>(TERMINATE, [pid, started, since, !idle]);
    if (answer?.length === 0)
      return this.#events.say(`pid ${pid} is not terminated: it went on in the meantime`);
    const entry = this.#seen.get(keyOf(statement, pid));
    if (answer?.[0]?.ended && entry) {
      entry.ended = true;
      return this.#events.say(`pid ${pid} was terminated`);
    }
    this.#refused.add(transactionOf(blocker));
    this.#events.say(`pid ${pid} could not be terminated: the role may not, or the server does not answer`);
  }
}

function keyOf(statement: Statement, pid: number): string {
  return `${statement.id} ${pid}`;
}

function transactionOf({ pid, started, since }: Blocker): string {
  return `${pid} ${started} ${since}`;
}
