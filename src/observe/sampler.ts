import { steadyNow } from '../clock.ts';
import type { Emit } from '../events.ts';
import { formatDuration } from '../format.ts';
import type { Session } from '../postgres/connection/session.ts';
import { endsWithin } from '../postgres/session-helpers.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import { PROGRESS_VIEWS } from '../postgres/sql/statement-kinds.ts';
import { statementWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import type { Observed, RelationLock, Statement } from '../proxy/observed.ts';
import { ActivityReader } from './activity-reader.ts';

/** Activity of one backend at one moment. */
export interface ActivitySample {
  readonly statement: Statement;
  /** For how long it has been running in the server; null while an apply pauses before it sends the statement again. */
  readonly runningMs: number | null;
  readonly locks: readonly RelationLock[];
  /** Locks asked for and not granted yet. */
  readonly awaited: readonly RelationLock[];
  /** Process ids of those that hold what it waits for. */
  readonly blockedBy: readonly number[];
  /** `Lock: relation`, `IO: DataFileRead`; null while it works. */
  readonly wait: string | null;
  /** From the server's pg_stat_progress_* views. */
  readonly progress: {
    /** `CREATE INDEX`, `VACUUM`, … */
    readonly command: string;
    /** In the server's words, as the documentation of the views has them. */
    readonly phase: string;
    readonly done: number;
    readonly of: number;
  } | null;
}

const INTERVAL_MS = 20;
/** Looks at long statements are rarer, so that being watched costs them nothing. */
const LONGEST_INTERVAL_MS = 200;
const SHARE_OF_AGE = 0.05;
/** After a failed look the next one waits: the server may be restarting. */
const AFTER_FAILURE_MS = 500;
const ANSWER_WITHIN_MS = 1_000;

// Both are prepared by name: planning them each time took longer than running them. No join with pg_class: it would wait for whoever holds that. pg_blocking_pids stops the lock manager for a moment,
// and so is asked only of those that wait for a lock.
const ACTIVITY = `SELECT a.pid,
       CASE WHEN a.wait_event IS NULL OR a.wait_event_type = 'Client' THEN NULL
            ELSE a.wait_event_type OPERATOR(pg_catalog.||) ': ' OPERATOR(pg_catalog.||) a.wait_event END AS wait,
       CASE WHEN a.wait_event_type = 'Lock' THEN pg_catalog.pg_blocking_pids(a.pid) ELSE '{}' END AS blockers,
       (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', database::pg_catalog.text, relation::pg_catalog.text,
                                     mode, granted::pg_catalog.text), E'\\n')
          FROM pg_catalog.pg_lock_status() l WHERE l.pid = a.pid AND l.locktype = 'relation') AS locks,
       a.state, pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) a.query_start)
                OPERATOR(pg_catalog.*) 1000 AS since
  FROM pg_catalog.pg_stat_get_activity(NULL) a
 WHERE a.pid = ANY ($1::pg_catalog.int4[])`;

/** The longest time for which a lock within a statement of this duration may stay unseen. */
export function longestUnseenMs(durationMs: number): number {
  return Math.min(durationMs, intervalAt(durationMs));
}

function intervalAt(ageMs: number): number {
  return Math.min(Math.max(ageMs * SHARE_OF_AGE, INTERVAL_MS), LONGEST_INTERVAL_MS);
}

const PROGRESS = PROGRESS_VIEWS.map(
  ({ view, command = 'command', phase = 'phase', done, total }) =>
    `SELECT pid, ${command} AS command, ${phase} AS phase, ${done} AS done, ${total} AS total
       FROM pg_catalog.${view} WHERE pid = ANY ($1::pg_catalog.int4[])`,
).join(' UNION ALL ');

interface Activity {
  readonly pid: number;
  readonly wait: string | null;
  readonly blockers: number[];
  readonly locks: string | null;
  /** State in pg_stat_activity, and milliseconds since its query began; null if they are hidden from our role. */
  readonly state: string | null;
  readonly since: number | null;
}

const RUNNING: ReadonlySet<string | null> = new Set(['active', 'fastpath function call', null]);

/**
 * Looks at running statements every 20 ms, and where all run for longer, every twentieth of the time for which the youngest
 * does, up to 200 ms: at the locks of those that commit within themselves, at what they wait for and how far they are.
 * While no statement runs for longer than 20 ms, it does not look.
 */
export class Sampler {
  readonly #activity: ActivityReader;
  readonly #onSample: (sample: ActivitySample) => void;
  /** By session. */
  readonly #running = new Map<number, Statement>();
  #timer: NodeJS.Timeout | undefined;
  #delayMs = 0;
  #looking: Promise<void> | undefined;
  #closed = false;

  /** @param connect opens a session in a database that is not the observed one. */
  constructor(connect: () => Promise<Session>, onSample: (sample: ActivitySample) => void) {
    this.#activity = new ActivityReader(connect);
    this.#onSample = onSample;
  }

  /** To be given every event of the proxy. */
  readonly observe = (event: Observed): void => {
    switch (event.type) {
      case 'begin':
        this.#running.set(event.statement.session, event.statement);
        this.#lookIn(INTERVAL_MS);
        break;
      case 'end':
        this.#running.delete(event.statement.session);
        break;
      case 'undone':
      case 'session-end':
        this.#running.delete(event.session);
        break;
      case 'session':
      case 'locks':
      case 'reading':
      case 'transaction-end':
        break;
    }
  };

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await endsWithin(this.#looking, ANSWER_WITHIN_MS);
    // With its session ends a look without an answer.
    await this.#activity.close();
    await this.#looking;
  }

  #lookIn(delayMs: number): void {
    if (this.#looking || this.#closed) return;
    // One that has just begun is not to wait for a look at what has run for long.
    if (this.#timer && delayMs >= this.#delayMs) return;
    clearTimeout(this.#timer);
    this.#delayMs = delayMs;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#running.size === 0) return;
      const youngMs = INTERVAL_MS - Math.max(...this.#agesMs());
      if (youngMs > 0) return this.#lookIn(youngMs);
      this.#looking = this.#look().then((seen) => {
        this.#looking = undefined;
        if (this.#running.size > 0) this.#lookIn(seen ? this.#intervalMs() : AFTER_FAILURE_MS);
      });
    }, delayMs);
  }

  #agesMs(): number[] {
    const now = steadyNow();
    return [...this.#running.values()].map(({ startedAt }) => now - startedAt.getTime());
  }

  #intervalMs(): number {
    return intervalAt(Math.min(...this.#agesMs()));
  }

  async #look(): Promise<boolean> {
    const running = new Map([...this.#running.values()].map((statement) => [statement.pid, statement]));
    const pids = [...running.keys()];
    const seen = await this.#activity.use(async (session) => {
      const query = { name: 'activity', text: ACTIVITY, values: [pids] };
      const { rows } = await session.client.query<Activity>(query);
      return { rows, progress: await readProgress(session, pids) };
    });
    if (!seen) return false;
    for (const row of seen.rows) this.#tell(running, row, seen.progress);
    return true;
  }

  #tell(
    running: ReadonlyMap<number, Statement>,
    { pid, wait, blockers, locks, state, since }: Activity,
    progress: ReadonlyMap<number, ActivitySample['progress']>,
  ): void {
    const statement = running.get(pid);
    // A statement that ended while we looked may have given its locks to the next one.
    if (!statement || this.#running.get(statement.session) !== statement) return;
    const seen = (locks ?? '').split('\n').filter((line) => line !== '');
    const read = (granted: 'true' | 'false') =>
      seen.flatMap((line): RelationLock[] => {
        const [database, relation, mode, isGranted] = line.split(' ');
        if (isGranted !== granted) return [];
        return [{ database: Number(database), relation: Number(relation), mode: mode ?? '' }];
      });
    const ageMs = steadyNow() - statement.startedAt.getTime();
    this.#onSample({
      statement,
      runningMs: RUNNING.has(state) ? Math.min(ageMs, since ?? ageMs) : null,
      locks: read('true'),
      awaited: read('false'),
      blockedBy: blockers,
      wait,
      progress: progress.get(pid) ?? null,
    });
  }
}

async function readProgress(session: Session, pids: readonly number[]) {
  const { rows } = await session.client.query<{
    pid: number;
    command: string;
    phase: string;
    done: string;
    total: string;
  }>({ name: 'progress', text: PROGRESS, values: [pids] });
  return new Map(
    rows.map(({ pid, command, phase, done, total }) => [
      pid,
      { command, phase, done: Number(done), of: Number(total) },
    ]),
  );
}

const FIRST_AFTER_MS = 3_000;
const SHOWN_CHARACTERS = 70;

/**
 * Says of a statement that runs long what it is, how far it is and what it waits for: after three seconds, and again
 * each time that its running time has doubled, so that the command's own output is not drowned.
 */
export class SlowStatements {
  readonly #emit: Emit;
  readonly #nextAfterMs = new Map<Statement, number>();

  constructor(emit: Emit) {
    this.#emit = emit;
  }

  sample(sample: ActivitySample): void {
    const { statement, runningMs } = sample;
    const next = this.#nextAfterMs.get(statement) ?? FIRST_AFTER_MS;
    if (runningMs === null || runningMs < next) return;
    this.#nextAfterMs.set(statement, next * 2);
    this.#emit({ type: 'notice', message: describe(sample, runningMs) });
  }
}

function describe({ statement, wait, blockedBy, progress }: ActivitySample, runningMs: number): string {
  // Seen in logs that others read.
  const line = normalizeSql(statementWithoutSecrets(statement.sql));
  const sql = line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS)}…` : line;
  const parts = [`${sql} has been running for ${formatDuration(runningMs)}`];
  if (progress) {
    const percent = progress.of > 0 ? ` ${Math.floor((100 * progress.done) / progress.of)} %` : '';
    parts.push(`${progress.command}: ${progress.phase}${percent}`);
  }
  if (blockedBy.length > 0) parts.push(`waits for ${blockedBy.map((pid) => `pid ${pid}`).join(', ')}`);
  else if (wait) parts.push(`waits (${wait})`);
  return parts.join('; ');
}
