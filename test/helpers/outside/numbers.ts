import type { Client } from 'pg';
import { counted, type Disagreement, isWithin, type Tolerance } from './disagreements.ts';
import { type LoggedExecution, readServerLog } from './server-log.ts';
import type { WatchedRehearsal } from './watched-rehearsal.ts';

/** What a number is, and what it has to be: null if the report leaves it out. */
type Pair = readonly [what: string, reported: number | null | undefined, source: number];

interface SourcedNumber {
  /** Paths of the report. */
  readonly paths: readonly string[];
  /** Whose word it is compared with. */
  readonly source: string;
  readonly within: Tolerance;
  readonly pairs: (run: NumbersRun) => readonly Pair[];
}

/** The rehearsal of `COMMAND`, and what others say about it. */
export interface NumbersRun extends WatchedRehearsal {
  readonly executions: readonly LoggedExecution[];
  readonly target: DatabaseState;
  readonly clone: DatabaseState;
  /** Of the target: what the command takes away. */
  readonly lost: Readonly<Record<string, number>>;
  readonly maxConnections: number;
}

interface DatabaseState {
  readonly bytes: number;
  readonly tables: ReadonlyMap<string, { readonly rows: number; readonly bytes: number }>;
}

export const TARGET = `
CREATE TABLE orders AS
  SELECT id, id % 977 AS customer, id AS total, CASE WHEN id % 3 > 0 THEN 'note ' || id END AS note, (id * 1.005)::numeric(12,3) AS price
  FROM generate_series(1, 66666) AS id;
ALTER TABLE orders ADD PRIMARY KEY (id);
CREATE TABLE lines AS SELECT id FROM generate_series(1, 10000) AS id;
CREATE TABLE gone AS SELECT id FROM generate_series(1, 1234) AS id`;

export const COMMAND = `
ALTER /*rewrite*/ TABLE orders ALTER COLUMN total TYPE bigint;
UPDATE /*update*/ orders SET customer = customer + 1 WHERE id <= 20000;
DELETE /*delete*/ FROM orders WHERE id > 66000;
INSERT /*insert*/ INTO lines SELECT g FROM generate_series(10001, 110000) AS g;
ALTER /*drop column*/ TABLE orders DROP COLUMN note;
ALTER /*narrow*/ TABLE orders ALTER COLUMN price TYPE numeric(12,1);
DROP /*drop table*/ TABLE gone;
SELECT /*sleep*/ pg_sleep(0.3);
BEGIN;
DELETE /*undone*/ FROM lines WHERE id <= 100;
ROLLBACK;
`;

const LOST = `
SELECT count(note)::int AS "public.orders.note with values", count(*)::int AS "public.orders.note rows",
  count(*) FILTER (WHERE id > 66000)::int AS "public.orders deleted",
  count(*) FILTER (WHERE price <> price::numeric(12,1))::int AS "public.orders.price changed",
  (SELECT count(*)::int FROM gone) AS "public.gone rows"
FROM orders`;

const EXACTLY: Tolerance = { share: 0, beside: 0 };
/** A number that the report calls no exact count may be a sample's. */
const ESTIMATED: Tolerance = { share: 0.05, beside: 0 };
const kB = 1024;

/** Every number of a rehearsal's report that somebody else measures too: by whom, and how near it has to be. */
export const SOURCED_NUMBERS: readonly SourcedNumber[] = [
  {
    paths: ['statements[].durationMs'],
    source: 'the server’s log (log_min_duration_statement = 0)',
    within: { share: 0.05, beside: 20 },
    pairs: ({ report, executions }) =>
      ofStatements(report, executions, ({ durationMs }, execution) => [durationMs, execution.durationMs]),
  },
  {
    paths: ['statements[].walBytes'],
    source: 'pg_current_wal_insert_lsn() of another session, each millisecond',
    within: { share: 0.05, beside: 64 * kB },
    pairs: ({ report, executions, seen }) =>
      ofStatements(report, executions, ({ walBytes }, { startedAt, endedAt }) => [
        walBytes,
        seen.walAt(endedAt + 2) - seen.walAt(startedAt - 1),
      ]),
  },
  {
    paths: ['statements[].rows'],
    source: 'what the test knows of its own rows',
    within: EXACTLY,
    pairs: ({ report }) =>
      Object.entries({ update: 20_000, delete: 666, insert: 100_000, sleep: 1, undone: 100 }).map(
        ([name, rows]) => [name, statementOf(report, name)?.rows, rows],
      ),
  },
  {
    paths: ['command.durationMs', 'command.exitCode'],
    source: 'the clock of the command itself; its sandbox starts before',
    within: { share: 0.05, beside: 300 },
    pairs: ({ report, command }) => [
      ['command', report.command.durationMs, command.endedAt - command.startedAt],
      ['exit code', report.command.exitCode, 0],
    ],
  },
  {
    paths: ['run.startedAt', 'run.finishedAt'],
    source:
      'the clock of the process that starts the program, and the first and last line of the server’s log',
    within: { share: 0, beside: 20 },
    pairs: ({ report, wall, log }) => {
      const { firstAt, lastAt } = ownLines(log);
      const [start, end] = [Date.parse(report.run.startedAt), Date.parse(report.run.finishedAt)];
      return [
        ['start', start, nearest(start, wall.startedAt, firstAt)],
        ['end', end, nearest(end, lastAt, wall.endedAt)],
      ];
    },
  },
  {
    paths: ['clone.durationMs'],
    source: 'the server’s log: CREATE DATABASE at least, at most all until the first session in the clone',
    within: { share: 0.05, beside: 20 },
    pairs: ({ report, log }) => {
      const { durationMs, database } = report.clone;
      const { atLeastMs, atMostMs } = cloning(log, database);
      return [['clone', durationMs, nearest(durationMs, atLeastMs, atMostMs)]];
    },
  },
  {
    paths: ['target.sizeBytes', 'clone.sizeBytes', 'data.sizeDeltaBytes'],
    source: 'pg_database_size() of another session',
    within: { share: 0.01, beside: 128 * kB },
    pairs: ({ report, target, clone }) => [
      ['target', report.target.sizeBytes, target.bytes],
      ['clone', report.clone.sizeBytes, clone.bytes],
      ['difference', report.data?.sizeDeltaBytes, clone.bytes - target.bytes],
    ],
  },
  {
    paths: ['data.walBytes', 'forecast.wal.writtenBytes'],
    source: 'pg_current_wal_insert_lsn() of another session, when the command began and ended',
    within: { share: 0.05, beside: 256 * kB },
    pairs: ({ report, seen, command }) => {
      const written = seen.walAt(command.endedAt) - seen.walAt(command.startedAt);
      return [
        ['command', report.data?.walBytes, written],
        ['forecast', report.forecast?.wal.writtenBytes, written],
      ];
    },
  },
  {
    paths: ['data.tables[].bytesBefore', 'data.tables[].bytesAfter'],
    source: 'pg_relation_size() of another session: the table and its TOAST',
    within: { share: 0.01, beside: 64 * kB },
    pairs: ({ report, target, clone }) =>
      (report.data?.tables ?? []).flatMap(({ relation, bytesBefore, bytesAfter }): Pair[] => [
        [`${relation} before`, bytesBefore, target.tables.get(relation)?.bytes ?? 0],
        [`${relation} after`, bytesAfter, clone.tables.get(relation)?.bytes ?? 0],
      ]),
  },
  {
    paths: ['data.tables[].rowsBefore', 'data.tables[].rowsAfter'],
    source: 'count(*) of another session, exact or not as the report says',
    within: EXACTLY,
    pairs: (run) => rowsOfTables(run, true),
  },
  {
    paths: ['data.tables[].rowsBefore', 'data.tables[].rowsAfter'],
    source: 'count(*) of another session, where the report says that it is none',
    within: ESTIMATED,
    pairs: (run) => rowsOfTables(run, false),
  },
  {
    paths: ['data.lost[].rows', 'data.lost[].rowsWithValue', 'data.lost[].rowsChanged', 'hazards[].lostRows'],
    source: 'SELECTs of another session on the target',
    within: EXACTLY,
    pairs: ({ report, lost }) => {
      const found = (object: string) => report.data?.lost.find((each) => each.object === object);
      const source = (name: string) => lost[name] ?? Number.NaN;
      return [
        ['note, rows', found('public.orders.note')?.rows, source('public.orders.note rows')],
        [
          'note, values',
          found('public.orders.note')?.rowsWithValue,
          source('public.orders.note with values'),
        ],
        ['orders, deleted', found('public.orders')?.rowsWithValue, source('public.orders deleted')],
        ['price, changed', found('public.orders.price')?.rowsChanged, source('public.orders.price changed')],
        ['gone, rows', found('public.gone')?.rows, source('public.gone rows')],
      ];
    },
  },
  {
    paths: ['forecast.sessions.max', 'forecast.sessions.open', 'forecast.sessions.reserved'],
    source: 'SHOW max_connections; the test knows its own sessions',
    within: { share: 0, beside: 6 },
    pairs: ({ report, maxConnections }) => [
      ['max', report.forecast?.sessions.max, maxConnections],
      // That of the watch.
      ['open', report.forecast?.sessions.open, 1],
      ['reserved', report.forecast?.sessions.reserved, 3],
    ],
  },
];

/** What the report says otherwise than the sources of its numbers. */
export function disagreementsOfNumbers(run: NumbersRun): Disagreement[] {
  return SOURCED_NUMBERS.flatMap(({ paths, within, pairs }) =>
    pairs(run).flatMap(([what, reported, source]) => {
      const agree = typeof reported === 'number' && isWithin(reported, source, within);
      return agree ? [] : counted(`${paths[0]}, ${what}`, String(reported), String(source));
    }),
  );
}

/** Reads what is compared afterwards; `judge` of a watched rehearsal. */
export async function readNumbers(run: WatchedRehearsal): Promise<NumbersRun> {
  const [target, clone] = [await run.inTarget(stateOf), await run.inClone(stateOf)];
  return {
    ...run,
    executions: readServerLog(run.log, run.report.clone.database),
    target,
    clone,
    lost: await run.inTarget(
      async (client) => (await client.query<Record<string, number>>(LOST)).rows[0] ?? {},
    ),
    maxConnections: await run.inTarget(async (client) =>
      Number((await client.query('SHOW max_connections')).rows[0].max_connections),
    ),
  };
}

const STATE = `
SELECT 'public.' || relname AS name, (pg_relation_size(oid) + coalesce(pg_relation_size(nullif(reltoastrelid, 0)), 0))::float8 AS bytes,
  (xpath('/row/c/text()', query_to_xml(format('SELECT count(*) AS c FROM %s', oid::regclass), false, true, '')))[1]::text::int AS rows
FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`;

async function stateOf(client: Client): Promise<DatabaseState> {
  const size = 'SELECT pg_database_size(current_database())::float8 AS bytes';
  const { rows } = await client.query<{ name: string; bytes: number; rows: number }>(STATE);
  return {
    bytes: (await client.query<{ bytes: number }>(size)).rows[0]?.bytes ?? Number.NaN,
    tables: new Map(rows.map(({ name, ...numbers }) => [name, numbers])),
  };
}

type Statement = WatchedRehearsal['report']['statements'][number];

function statementOf({ statements }: WatchedRehearsal['report'], name: string): Statement | undefined {
  return statements.find(({ sql }) => sql.includes(`/*${name}*/`));
}

function ofStatements(
  report: WatchedRehearsal['report'],
  executions: readonly LoggedExecution[],
  numbers: (statement: Statement, execution: LoggedExecution) => readonly [number | null, number],
): Pair[] {
  return executions.map((execution) => {
    const statement = statementOf(report, execution.name);
    return statement
      ? [execution.name, ...numbers(statement, execution)]
      : [execution.name, null, execution.durationMs];
  });
}

function rowsOfTables({ report, target, clone }: NumbersRun, areExact: boolean): Pair[] {
  return (report.data?.tables ?? [])
    .filter(({ exact }) => exact === areExact)
    .flatMap(({ relation, rowsBefore, rowsAfter }): Pair[] => [
      [`${relation} before`, rowsBefore, target.tables.get(relation)?.rows ?? 0],
      [`${relation} after`, rowsAfter, clone.tables.get(relation)?.rows ?? 0],
    ]);
}

/** The source of what is known to lie between two others. */
function nearest(reported: number, atLeast: number, atMost: number): number {
  return Math.min(Math.max(reported, atLeast), atMost);
}

interface LogLine {
  readonly at: number;
  readonly pid: string;
  readonly database: string;
  readonly text: string;
}

function linesOf(log: string, application: RegExp): LogLine[] {
  return log.split('\n').flatMap((line) => {
    const [seconds, pid = '', database = '', name = '', ...text] = line.split('|');
    return application.test(name)
      ? [{ at: Number(seconds) * 1000, pid, database, text: text.join('|') }]
      : [];
  });
}

function ownLines(log: string): { firstAt: number; lastAt: number } {
  const lines = linesOf(log, /^safemigrate/);
  return { firstAt: lines[0]?.at ?? Number.NaN, lastAt: lines.at(-1)?.at ?? Number.NaN };
}

function cloning(log: string, clone: string): { atLeastMs: number; atMostMs: number } {
  const lines = linesOf(log, /^safemigrate/);
  const sent = lines.findIndex(({ text }) => text.includes('CREATE DATABASE') && text.includes(clone));
  const done = lines
    .slice(sent + 1)
    .find(({ pid, text }) => pid === lines[sent]?.pid && /duration:/.test(text));
  const entered = lines.find(({ database }) => database === clone);
  return {
    atLeastMs: Number(/duration: ([\d.]+) ms/.exec(done?.text ?? '')?.[1]),
    atMostMs: (entered?.at ?? Number.NaN) - ownLines(log).firstAt,
  };
}
