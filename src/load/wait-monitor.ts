import { setTimeout as delay } from 'node:timers/promises';
import { ActivityReader, WAITERS, type Waiter, waitersBehind } from '../observe/activity-reader.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { Observed, Statement } from '../proxy/observed.ts';

const CONNECTIONS = `
SELECT (SELECT count(*)::int FROM pg_stat_activity WHERE coalesce(backend_type, 'client backend') = 'client backend') AS now,
       current_setting('max_connections')::int AS limit`;

const EVERY_MS = 50;
/** Words by which the server names the parties of a deadlock. */
const PROCESS = /([Pp])rocess (\d+)/g;

/** Looks every 50 ms which sessions of the load wait behind the command. */
export class WaitMonitor {
  /** Sessions of the load that waited behind one statement of the command for one relation. */
  readonly blocked = new Map<
    string,
    {
      /** OID; null if the wait was for something else. */
      readonly relation: number | null;
      readonly statement: Statement | null;
      blockedMs: number;
      longestMs: number;
      readonly sessions: Set<number>;
    }
  >();
  mostWaiting = 0;
  /** Time in which at least one session waited. */
  someWaitedMs = 0;
  longestMs = 0;
  connections = { most: 0, limit: 0 };
  /** Sessions that wait behind the command at this moment. */
  waitingNow = 0;
  readonly #mostBySecond = new Map<number, number>();
  /** The sessions that wait were read at least once. */
  hasLooked = false;
  readonly #activity: ActivityReader;
  readonly #startedMs: number;
  /** The command's sessions by process id, and the statement that each began last. */
  readonly #command = new Map<number, Statement | null>();
  /** Process ids of those that have ended, too. */
  readonly #pids = new Set<number>();
  readonly #begun: { atMs: number; statement: Statement }[] = [];
  readonly #ending = new AbortController();
  readonly #watching: Promise<void>;

  /** @param connect opens a session on the clone's server. @param startedMs of the load, by performance.now(). */
  constructor(connect: () => Promise<Session>, startedMs: number) {
    this.#activity = new ActivityReader(connect);
    this.#startedMs = startedMs;
    this.#watching = this.#watch();
  }

  /** Takes every event of the command's proxy. */
  observe(event: Observed): void {
    if (event.type === 'session') {
      this.#pids.add(event.pid);
      this.#command.set(event.pid, null);
    } else if (event.type === 'session-end') this.#command.delete(event.pid);
    else if (event.type === 'begin') {
      this.#command.set(event.statement.pid, event.statement);
      this.#begun.push({ atMs: performance.now(), statement: event.statement });
    }
  }

  /** Tells if the server's words about a deadlock name a session of the command. */
  isCommands(detail: string): boolean {
    return [...detail.matchAll(PROCESS)].some(([, , pid]) => this.#pids.has(Number(pid)));
  }

  /** Says in the server's words about a deadlock which processes are the command's. */
  withParties(detail: string): string {
    return detail.replace(PROCESS, (text, first: string, pid: string) => {
      const [The, the] = this.#pids.has(Number(pid))
        ? ['The command', 'the command']
        : ['The load', 'the load'];
      return `${first === 'P' ? The : the} (${text.toLowerCase()})`;
    });
  }

  /** The statement of the command that had begun last at a time. @param atMs by performance.now(). */
  statementAt(atMs: number): Statement | null {
    return this.#begun.findLast((begun) => begun.atMs <= atMs)?.statement ?? null;
  }

  /** The most sessions that waited between two times since the start of the load. */
  waitingBetween(fromMs: number, toMs: number): number {
    let most = 0;
    for (let second = Math.floor(fromMs / 1000); second * 1000 < toMs; second++)
      most = Math.max(most, this.#mostBySecond.get(second) ?? 0);
    return most;
  }

  /** Ends it, and closes its session. Idempotent. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#watching;
    await this.#activity.close();
  }

  async #watch(): Promise<void> {
    const { signal } = this.#ending;
    let lookedMs = performance.now();
    while (!signal.aborted) {
      const waiters = await this.#activity.ask<Waiter>(WAITERS);
      if (waiters) this.hasLooked = true;
      const [connections] = (await this.#activity.ask<{ now: number; limit: number }>(CONNECTIONS)) ?? [];
      const nowMs = performance.now();
      this.#count(waiters ?? [], nowMs - lookedMs, nowMs);
      if (connections)
        this.connections = {
          most: Math.max(this.connections.most, connections.now),
          limit: connections.limit,
        };
      lookedMs = nowMs;
      await delay(EVERY_MS, undefined, { signal }).catch(() => {});
    }
  }

  #count(waiters: readonly Waiter[], passedMs: number, nowMs: number): void {
    const ours = new Set(this.#command.keys());
    const counted = new Set<number>();
    for (const [pid, statement] of this.#command) {
      for (const waiter of waitersBehind(pid, waiters, ours)) {
        if (counted.has(waiter.pid)) continue;
        counted.add(waiter.pid);
        this.#add(waiter, statement, passedMs);
      }
    }
    this.waitingNow = counted.size;
    this.mostWaiting = Math.max(this.mostWaiting, counted.size);
    const second = Math.floor((nowMs - this.#startedMs) / 1000);
    this.#mostBySecond.set(second, Math.max(this.#mostBySecond.get(second) ?? 0, counted.size));
    if (counted.size > 0) this.someWaitedMs += passedMs;
  }

  #add({ pid, relation, nowMs, sinceMs }: Waiter, statement: Statement | null, passedMs: number): void {
    const key = `${relation} ${statement?.id}`;
    const waitedMs = Math.max(nowMs - sinceMs, 0);
    const entry = this.blocked.get(key) ?? {
      relation: relation === null ? null : Number(relation),
      statement,
      blockedMs: 0,
      longestMs: 0,
      sessions: new Set<number>(),
    };
    this.blocked.set(key, entry);
    entry.blockedMs += Math.min(passedMs, waitedMs);
    entry.longestMs = Math.max(entry.longestMs, waitedMs);
    entry.sessions.add(pid);
    this.longestMs = Math.max(this.longestMs, waitedMs);
  }
}
