import type { Statement } from '../../proxy/observed.ts';
import type { ActivityReader } from './activity-reader.ts';
import type { GuardrailEvents } from './guardrail-events.ts';

// Without pg_read_all_stats a role sees only the pids of other roles' sessions.
const BLOCKER = `
SELECT a.pid, a.usename::text AS "user",
       coalesce(nullif(a.application_name, ''), nullif(a.backend_type, 'client backend')) AS application,
       a.state, nullif(left(a.query, 500), '') AS query,
       to_json(coalesce(a.xact_start, a.query_start)) #>> '{}' AS since,
       to_json(a.backend_start) #>> '{}' AS started,
       a.state = 'idle in transaction' AND clock_timestamp() - a.state_change > interval '1 second' AS idle
  FROM pg_stat_activity a WHERE a.pid = $1`;

// The transaction may have continued in the meantime, and the pid may have been reused.
const TERMINATE = `
SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
 WHERE pid = $1 AND backend_start = $2::timestamptz AND state = 'idle in transaction'`;

interface Blocker {
  pid: number;
  user: string | null;
  application: string | null;
  state: string | null;
  query: string | null;
  since: string | null;
  started: string | null;
  idle: boolean | null;
}

/** Reports the sessions that block the command, and terminates idle ones if --unblock permits it. */
export class Blockers {
  readonly #activity: ActivityReader;
  readonly #events: GuardrailEvents;
  readonly #mayTerminate: boolean;
  readonly #seen = new Map<string, { ended: boolean }>();

  constructor(activity: ActivityReader, events: GuardrailEvents, mayTerminate: boolean) {
    this.#activity = activity;
    this.#events = events;
    this.#mayTerminate = mayTerminate;
  }

  /** Reports the blockers of a statement. @param pids process ids; 0 for a prepared transaction. */
  async report(statement: Statement, pids: readonly number[]): Promise<void> {
    for (const pid of new Set(pids)) {
      const key = `${statement.id} ${pid}`;
      const entry = this.#seen.get(key);
      if (entry && (entry.ended || !this.#mayTerminate)) continue;
      const [blocker] = (await this.#activity.ask<Blocker>(BLOCKER, [pid])) ?? [];
      if (!entry) this.#seen.set(key, this.#describe(statement, pid, blocker));
      if (this.#mayTerminate && blocker?.idle) await this.#terminate(key, blocker);
    }
  }

  #describe(statement: Statement, pid: number, blocker: Blocker | undefined): { ended: boolean } {
    const { user = null, application = null, state = null, query = null, since = null } = blocker ?? {};
    const prepared = pid === 0 ? { state: 'prepared' } : {};
    const blocked = statement.sql;
    const known = { pid, user, application, state, query, since, blocked, ended: false, ...prepared };
    const parts = [user, application, state, query && this.#events.named(query)].filter((part) => part);
    const name = pid === 0 ? 'a prepared transaction' : `pid ${pid}`;
    this.#events.say(
      `${this.#events.named(statement.sql)} waits for ${name}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}${since ? ` since ${since}` : ''}`,
    );
    return this.#events.blocked(known);
  }

  async #terminate(key: string, { pid, started }: Blocker): Promise<void> {
    const [result] = (await this.#activity.ask<{ ended: boolean }>(TERMINATE, [pid, started])) ?? [];
    const entry = this.#seen.get(key);
    if (!result?.ended || !entry) return;
    entry.ended = true;
    this.#events.say(`pid ${pid} was terminated: it was idle in its transaction (--unblock)`);
  }
}
