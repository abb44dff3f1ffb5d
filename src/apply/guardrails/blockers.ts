import type { Statement } from '../../proxy/observed.ts';
import type { ActivityReader } from './activity-reader.ts';
import type { GuardrailEvents } from './guardrail-events.ts';

// Of other roles' sessions a role without pg_read_all_stats sees that they are there, and nothing else.
const WHO = `
SELECT a.pid, a.usename::text AS "user",
       coalesce(nullif(a.application_name, ''), nullif(a.backend_type, 'client backend')) AS application,
       a.state, nullif(left(a.query, 500), '') AS query,
       to_json(coalesce(a.xact_start, a.query_start)) #>> '{}' AS since,
       to_json(a.backend_start) #>> '{}' AS started,
       a.state = 'idle in transaction' AND clock_timestamp() - a.state_change > interval '1 second' AS idle
  FROM pg_stat_activity a WHERE a.pid = $1`;

// A transaction that went on meanwhile is not idle any more, and a pid may be somebody else's by now.
const END = `
SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
 WHERE pid = $1 AND backend_start = $2::timestamptz AND state = 'idle in transaction'`;

interface Who {
  pid: number;
  user: string | null;
  application: string | null;
  state: string | null;
  query: string | null;
  since: string | null;
  started: string | null;
  idle: boolean | null;
}

/** Names who keeps the command waiting, and ends idle ones where that was allowed. */
export class Blockers {
  readonly #looker: ActivityReader;
  readonly #happenings: GuardrailEvents;
  readonly #mayEnd: boolean;
  readonly #seen = new Map<string, { ended: boolean }>();

  constructor(looker: ActivityReader, happenings: GuardrailEvents, mayEnd: boolean) {
    this.#looker = looker;
    this.#happenings = happenings;
    this.#mayEnd = mayEnd;
  }

  /** 0 stands for a prepared transaction. */
  async see(statement: Statement, pids: readonly number[]): Promise<void> {
    for (const pid of new Set(pids)) {
      const key = `${statement.id} ${pid}`;
      const entry = this.#seen.get(key);
      if (entry && (entry.ended || !this.#mayEnd)) continue;
      const [who] = (await this.#looker.ask<Who>(WHO, [pid])) ?? [];
      if (!entry) this.#seen.set(key, this.#name(statement, pid, who));
      if (this.#mayEnd && who?.idle) await this.#end(key, who);
    }
  }

  #name(statement: Statement, pid: number, who: Who | undefined): { ended: boolean } {
    const { user = null, application = null, state = null, query = null, since = null } = who ?? {};
    const prepared = pid === 0 ? { state: 'prepared' } : {};
    const blocked = statement.sql;
    const known = { pid, user, application, state, query, since, blocked, ended: false, ...prepared };
    const parts = [user, application, state, query && this.#happenings.named(query)].filter((part) => part);
    const name = pid === 0 ? 'a prepared transaction' : `pid ${pid}`;
    this.#happenings.say(
      `${this.#happenings.named(statement.sql)} waits for ${name}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}${since ? ` since ${since}` : ''}`,
    );
    return this.#happenings.blocked(known);
  }

  async #end(key: string, { pid, started }: Who): Promise<void> {
    const [did] = (await this.#looker.ask<{ ended: boolean }>(END, [pid, started])) ?? [];
    const entry = this.#seen.get(key);
    if (!did?.ended || !entry) return;
    entry.ended = true;
    this.#happenings.say(`pid ${pid} was ended: it was idle in its transaction (--unblock)`);
  }
}
