import type { StatementSection } from '../../../src/model/report.ts';
import type { MeasuredRun } from './measured-run.ts';
import { LEAVES_PORTALS } from './modes.ts';
import { type LoggedExecution, STEP } from './server-log.ts';
import type { SeenLock } from './server-watch.ts';
import { ROWS } from './steps.ts';

/** How far a number may be from its source: a share of it, and what the two ways of looking differ by in any case. */
export interface Tolerance {
  readonly share: number;
  readonly beside: number;
}

export const TOLERANCES = {
  time: { share: 0.05, beside: 20 },
  lock: { share: 0.05, beside: 50 },
  start: { share: 0, beside: 50 },
} as const satisfies Record<string, Tolerance>;

/** A number of the report that is not what its source says. */
export interface Disagreement {
  /** What the number is of, and which one: `node_pg_simple.sleep: time`. */
  readonly number: string;
  readonly reported: string;
  readonly source: string;
}

export function disagreements(run: MeasuredRun): Disagreement[] {
  return [...times(run), ...locks(run), ...rows(run), ...files(run)];
}

const MOST_RUNS = 6;

/**
 * What each of some runs disagrees about with its sources. A busy machine delays one of them here and there, which both ways of
 * looking see differently; what the program does wrong it does in each. So further ones are made only if they are needed.
 */
export async function lastingDisagreements(
  measure: (doubts: readonly Disagreement[]) => Promise<Disagreement[]>,
): Promise<string[]> {
  let lasting = await measure([]);
  for (let runs = 1; runs < MOST_RUNS && lasting.length > 0; runs++) {
    const again = new Set((await measure(lasting)).map(({ number }) => number));
    lasting = lasting.filter(({ number }) => again.has(number));
  }
  return lasting.map(
    ({ number, reported, source }) => `${number}: ${reported} in the report, ${source} by its source`,
  );
}

export function isWithin(reported: number, source: number, { share, beside }: Tolerance): boolean {
  return Math.abs(reported - source) <= share * Math.abs(source) + beside;
}

interface Pair {
  readonly name: string;
  readonly statement: StatementSection;
  readonly execution: LoggedExecution;
}

/** The statements of the report with the server's executions of the same step: as many, in the same order. */
function pairsOf({ report, executions }: MeasuredRun): { pairs: Pair[]; problems: Disagreement[] } {
  const reported = grouped(report.statements, ({ sql }) => STEP.exec(sql)?.[1] ?? '');
  const logged = grouped(executions, ({ name }) => name);
  reported.delete('');
  const pairs: Pair[] = [];
  const problems: Disagreement[] = [];
  for (const name of new Set([...reported.keys(), ...logged.keys()])) {
    const [ours, theirs] = [reported.get(name) ?? [], logged.get(name) ?? []];
    if (ours.length !== theirs.length)
      problems.push(...counted(`${name}: executions`, ours.length, theirs.length));
    for (const [index, execution] of theirs.entries()) {
      const statement = ours[index];
      if (statement) pairs.push({ name, statement, execution });
    }
  }
  return { pairs, problems };
}

function grouped<T>(list: readonly T[], key: (each: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const each of list) groups.set(key(each), [...(groups.get(key(each)) ?? []), each]);
  return groups;
}

function times(run: MeasuredRun): Disagreement[] {
  const { pairs, problems } = pairsOf(run);
  return [
    ...problems,
    ...pairs.flatMap(({ name, statement, execution }) => {
      const start = Date.parse(statement.startedAt);
      // What is prepared long before is only begun by its Bind.
      const late = start - Math.min(Math.max(start, execution.startedAt), execution.boundAt);
      return [
        ...measured(`${name}: time`, statement.durationMs, execution.durationMs, TOLERANCES.time),
        ...measured(`${name}: start`, late, 0, TOLERANCES.start),
        ...counted(`${name}: failed`, statement.error !== null, execution.failed),
      ];
    }),
  ];
}

/** Locks of the steps: each that the report has against pg_locks, and each that was seen for long against the report. */
function locks(run: MeasuredRun): Disagreement[] {
  const { pairs } = pairsOf(run);
  const reported = new Set<SeenLock>();
  const wrong = pairs.flatMap(({ name, statement, execution }) =>
    strongest(statement.locks ?? []).flatMap(({ relation, mode, heldMs }) => {
      const oid = run.relations.get(relation.replace(/^public\./, ''))?.oid;
      if (oid === undefined || mode === 'ACCESS SHARE') return [];
      const lock = run.seen.locks
        .filter((each) => each.relation === oid && each.mode === mode && isOf(each, execution))
        .reduce<SeenLock | undefined>(longer, undefined);
      if (lock) reported.add(lock);
      const seenMs = lock ? lock.to - lock.from : 0;
      return measured(`${name}: ${mode} of ${relation}`, heldMs ?? Number.NaN, seenMs, TOLERANCES.lock);
    }),
  );
  const pids = new Set(run.executions.map(({ pid }) => pid));
  const missing = run.seen.locks
    .filter(
      (lock) => pids.has(lock.pid) && !reported.has(lock) && lock.to - lock.from > TOLERANCES.lock.beside,
    )
    .filter((lock) => !run.seen.locks.some((other) => reported.has(other) && covers(other, lock)))
    .map((lock) => {
      const relation = [...run.relations].find(([, { oid }]) => oid === lock.relation)?.[0];
      return {
        number: `${lock.mode} of ${relation}`,
        reported: 'none',
        source: `${Math.round(lock.to - lock.from)} ms`,
      };
    });
  return [...wrong, ...missing];
}

/** The lock came while this execution ran. */
function isOf(lock: SeenLock, { pid, startedAt, endedAt }: LoggedExecution): boolean {
  const { beside } = TOLERANCES.start;
  return lock.pid === pid && lock.from >= startedAt - beside && lock.from <= endedAt + beside;
}

/** Another one, for a moment, may have been that of a Parse ahead. */
function longer(one: SeenLock | undefined, other: SeenLock): SeenLock {
  return one && one.to - one.from > other.to - other.from ? one : other;
}

/** The other one is of the same relation and transaction, and there for longer. */
function covers(other: SeenLock, lock: SeenLock): boolean {
  const same = other.pid === lock.pid && other.relation === lock.relation;
  return same && other.from <= lock.from && other.to >= lock.to;
}

/** The report has them in this order. When a weaker lock came is not known: it is said to be held as long as the stronger one. */
function strongest<T extends { readonly relation: string }>(all: readonly T[]): T[] {
  return all.filter(({ relation }, at) => all.findIndex((each) => each.relation === relation) === at);
}

/** Rows by the tags, and by the server's counters. */
function rows(run: MeasuredRun): Disagreement[] {
  const { pairs } = pairsOf(run);
  const { data } = run.report;
  return [
    ...pairs.flatMap(({ name, statement }) => counted(`${name}: rows`, statement.rows, rowsOf(name))),
    ...run.counters.flatMap(({ relation, inserted, updated, deleted }) => {
      const written = data?.written.find((each) => each.relation === `public.${relation}`);
      return counted(
        `${relation}: rows inserted, updated, deleted`,
        [written?.inserted ?? 0, written?.updated ?? 0, written?.deleted ?? 0].join(),
        [inserted, updated, deleted].join(),
      );
    }),
  ];
}

/** A portal that is left before its end has no tag of the server. */
function rowsOf(name: string): number | null {
  const [key = '', step = ''] = name.split('.');
  if (step.endsWith(' of three') && ROWS[step] === 1 && LEAVES_PORTALS.has(key)) return null;
  return ROWS[step] ?? null;
}

/** Rewritten are those with another file. */
function files({ report, keys, counters, relations }: MeasuredRun): Disagreement[] {
  const rewriting = new Set(report.statements.flatMap(({ rewrote }) => rewrote));
  const expected = keys.map((key) => `public.${key}_big`);
  return [
    ...counters.flatMap(({ relation, file }) => {
      const table = report.data?.tables.find((each) => each.relation === `public.${relation}`);
      // That of Prisma's migrations is new.
      const before = relations.get(relation)?.file ?? file;
      return counted(`${relation}: rewritten`, table?.rewritten ?? false, file !== before);
    }),
    ...counted('statements: rewrote', [...rewriting].sort().join(), expected.sort().join()),
  ];
}

function measured(number: string, reported: number, source: number, tolerance: Tolerance): Disagreement[] {
  if (isWithin(reported, source, tolerance)) return [];
  return [{ number, reported: `${reported.toFixed(1)} ms`, source: `${source.toFixed(1)} ms` }];
}

export function counted<T extends string | number | boolean | null>(
  number: string,
  reported: T,
  source: T,
): Disagreement[] {
  return reported === source ? [] : [{ number, reported: String(reported), source: String(source) }];
}
