import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, sqlstateOf } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { RecordedTraffic } from './record-shapes.ts';
import type { Shape } from './shapes.ts';
import type { EndedTransaction, TrafficLog } from './traffic-log.ts';

/** Load that goes on until it is stopped. */
export interface Traffic {
  readonly clients: number;
  /** Says why it has ended by itself; null while it goes on. */
  failure(): Promise<string | null>;
  /** Ends its sessions, whatever they wait for. Idempotent. */
  stop(): Promise<void>;
}

/** A pause below this takes longer to ask for than it lasts. */
const SHORTEST_SLEEP_MS = 2;
/** A session that is late by more transactions than this leaves the others out. */
const MOST_BEHIND = 3;
/** A transaction that changes many rows still keeps at most this many locked. */
const MAX_ROWS = 100;
/** Places are drawn by chance, and some hold no row by now. */
const PLACES_PER_ROW = 3;
/** Rows per page assumed for a table that was never analysed. */
const ROWS_PER_PAGE = 40;

/**
 * Plays recorded shapes in sessions: each takes the locks of one kind of transaction after the other, in their order, and keeps them for
 * as long as such transactions lasted. Rows are locked, not changed, so that no trigger fires.
 * @param sessions each gets the same share of the transactions.
 * @param rate times as many transactions a second as were recorded.
 */
export function playShapes(
  sessions: readonly Session[],
  { shapes, names }: Pick<RecordedTraffic, 'shapes' | 'names'>,
  rate: number,
  log: TrafficLog,
): Traffic {
  const ending = new AbortController();
  const perSecond = shapes.reduce((sum, shape) => sum + shape.perSecond, 0) * rate;
  const intervalMs = (sessions.length * 1000) / perSecond;
  const playing = sessions.map(async (session) => {
    let dueMs = performance.now();
    while (!ending.signal.aborted) {
      // What took long shortens the next pauses, but requests that were held back for long do not all come afterwards.
      dueMs = Math.max(dueMs, performance.now() - MOST_BEHIND * intervalMs) + exponential(intervalMs);
      await pause(dueMs - performance.now(), ending.signal);
      if (ending.signal.aborted) return;
      const ended = await playOnce(session, transactionText(drawn(shapes), names));
      if (!ending.signal.aborted) log.add(ended);
    }
  });
  return {
    clients: sessions.length,
    failure: async () => null,
    async stop() {
      ending.abort();
      await Promise.all(sessions.map((session) => session.cancel()));
      await Promise.all(playing);
    },
  };
}

async function playOnce(session: Session, text: string): Promise<EndedTransaction> {
  const startedMs = performance.now();
  try {
    await session.query(text);
    return { startedMs, endedMs: performance.now(), error: null };
  } catch (error) {
    const endedMs = performance.now();
    await session.query('ROLLBACK').catch(() => {});
    const { detail } = error as { detail?: string };
    const sqlstate = sqlstateOf(error) ?? '';
    return { startedMs, endedMs, error: { sqlstate, message: messageOf(error), detail: detail ?? '' } };
  }
}

/** One transaction, as a text of several statements. */
export function transactionText({ steps, holdMs }: Shape, names: ReadonlyMap<number, string>): string {
  const sleepMs = holdMs / Math.max(steps.length, 1);
  const lines = steps.flatMap(({ relation, mode, rows }) => {
    const name = names.get(relation);
    if (name === undefined) return [];
    const count = Math.min(aroundMean(rows), MAX_ROWS);
    return [
      `LOCK TABLE ONLY ${name} IN ${mode} MODE;`,
      ...(count > 0 ? [lockRows(name, count)] : []),
      ...(sleepMs >= SHORTEST_SLEEP_MS
        ? [`SELECT pg_catalog.pg_sleep(${(sleepMs / 1000).toFixed(4)});`]
        : []),
    ];
  });
  return ['BEGIN;', ...lines, 'COMMIT;'].join('\n');
}

// The places are drawn from the whole table, those that hold a row are chosen by chance, and locked from the front to the back: in which
// order the application's statements lock rows of one table is not known, and a deadlock must not be made up.
function lockRows(name: string, count: number): string {
  const regclass = `'${name.replaceAll("'", "''")}'::pg_catalog.regclass`;
  return `SELECT 1 FROM (
  SELECT t.ctid AS place FROM (
    SELECT pg_catalog.format('(%s,%s)', pg_catalog.floor(pg_catalog.random() * pages)::int8,
                             1 + pg_catalog.floor(pg_catalog.random() * rows)::int8)::pg_catalog.tid AS drawn
      FROM (SELECT greatest(pg_catalog.pg_relation_size(${regclass}) / pg_catalog.current_setting('block_size')::int8, 1) AS pages,
                   CASE WHEN reltuples > 0 AND relpages > 0 THEN pg_catalog.ceil(reltuples / relpages) ELSE ${ROWS_PER_PAGE} END AS rows
              FROM pg_catalog.pg_class WHERE oid = ${regclass}) s,
           pg_catalog.generate_series(1, ${count * PLACES_PER_ROW})) p
    JOIN ONLY ${name} t ON t.ctid = p.drawn LIMIT ${count}) q
  JOIN ONLY ${name} t ON t.ctid = q.place ORDER BY q.place FOR NO KEY UPDATE OF t;`;
}

function drawn(shapes: readonly Shape[]): Shape {
  let left = Math.random() * shapes.reduce((sum, { perSecond }) => sum + perSecond, 0);
  const found = shapes.find(({ perSecond }) => {
    left -= perSecond;
    return left <= 0;
  });
  const [first] = shapes;
  if (!first) throw new Error('there is no shape to play');
  return found ?? first;
}

/** A whole number whose mean is this one. */
function aroundMean(mean: number): number {
  return Math.floor(mean) + (Math.random() < mean % 1 ? 1 : 0);
}

function exponential(mean: number): number {
  return -mean * Math.log(1 - Math.random());
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms >= 1) await delay(ms, undefined, { signal }).catch(() => {});
}
