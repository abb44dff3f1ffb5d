import { isBookkeeping } from '../model/migration-tables.ts';
import type { StatementSection } from '../model/report.ts';
import { LOCK_MODES } from '../postgres/lock-modes.ts';
import type { HazardContext } from './hazard-context.ts';

/** A migration tool writes no more rows than this into its own table. */
export const BOOKKEEPING_ROWS = 10;

/** Rows of an existing table that one statement changed. */
export interface ChangedRows {
  readonly statement: StatementSection;
  readonly relation: string;
  readonly rows: number;
  readonly verb: 'insert' | 'update' | 'delete' | 'merge';
  /** Not extrapolated to production's size, nor shared out among several statements. */
  readonly counted: boolean;
}

/**
 * Returns the rows of existing tables that one transaction changed. Rows that no UPDATE, DELETE or MERGE accounts for were changed by
 * a function, a DO block, a trigger, a CTE or an upsert: the server counted them. A CALL or DO that commits within changes none in one
 * transaction.
 * @param inserted counts new rows as well.
 */
export function changedRows(
  context: HazardContext,
  statements: readonly StatementSection[],
  inserted: boolean,
): ChangedRows[] {
  const all = context.once(allChanges);
  return statements.flatMap((statement) =>
    (all.get(statement.index) ?? []).filter(
      ({ verb, rows }) => verb !== 'insert' || (inserted && rows > BOOKKEEPING_ROWS),
    ),
  );
}

export function totalRows(changed: readonly ChangedRows[]): number {
  return changed.reduce((sum, { rows }) => sum + rows, 0);
}

/** Returns the changes of each table, largest first. A tool's own lock table is left out beside a table of the user's. */
export function byTable(changed: readonly ChangedRows[]): ChangedRows[][] {
  const tables = new Map<string, ChangedRows[]>();
  for (const each of changed) tables.set(each.relation, [...(tables.get(each.relation) ?? []), each]);
  const sorted = [...tables.values()]
    .map((ofTable) => ofTable.toSorted((one, other) => other.rows - one.rows))
    .sort((one, other) => totalRows(other) - totalRows(one));
  const [most] = sorted;
  const isSmall = (ofTable: ChangedRows[]) => totalRows(ofTable) <= BOOKKEEPING_ROWS;
  return most === undefined || isSmall(most) ? sorted : sorted.filter((ofTable) => !isSmall(ofTable));
}

function allChanges(context: HazardContext): ReadonlyMap<number, readonly ChangedRows[]> {
  const left = counters(context);
  const byStatement = new Map<number, ChangedRows[]>();
  const changes = [...namedChanges(context, left), ...hiddenChanges(context, left)];
  for (const change of changes) {
    const { index } = change.statement;
    byStatement.set(index, [...(byStatement.get(index) ?? []), change]);
  }
  return byStatement;
}

/** Rows that the server counted, and that no statement accounts for yet. */
interface Left {
  readonly relation: string;
  inserted: number;
  updated: number;
  deleted: number;
}

type Counters = ReadonlyMap<string, Left>;

/** By the names after the command. */
function counters({ facts }: HazardContext): Counters {
  const written = facts.data?.written ?? [];
  return new Map(written.map((table) => [table.relation, { ...table }]));
}

/** Changes of the tables that UPDATE, DELETE, MERGE and INSERT name, and takes them from the counters. */
function namedChanges(context: HazardContext, left: Counters): ChangedRows[] {
  return context.facts.statements.flatMap((statement): ChangedRows[] => {
    const { rows, error } = statement;
    if (error || rows === null) return [];
    return context.actions(statement).flatMap((action): ChangedRows[] => {
      const { does } = action;
      if (does !== 'insert' && does !== 'update' && does !== 'delete' && does !== 'merge') return [];
      const relation = context.resolve(action.table, statement);
      const pools = poolsOf(context, statement, relation, left);
      // The counters have committed rows only; its own were locked all the same.
      const upserted = statement.rolledBack ? 0 : take(pools, does, rows);
      if (!isOld(context, relation, statement)) return [];
      const counted = statement.rowsAtProductionSize === undefined;
      const of = { statement, relation, counted };
      return [
        ...(rows - upserted > 0 || does !== 'insert' ? [{ ...of, rows: rows - upserted, verb: does }] : []),
        ...(upserted > 0 ? [{ ...of, rows: upserted, verb: 'update' as const }] : []),
      ];
    });
  });
}

/** The counters of a table, before those of others that the statement locks: the rows may be in its partitions. */
function poolsOf(
  context: HazardContext,
  statement: StatementSection,
  relation: string,
  left: Counters,
): Left[] {
  const current = context.facts.catalogue.renamed.get(relation) ?? relation;
  const locked = (statement.locks ?? []).filter(({ mode }) => mayWrite(mode)).map((lock) => lock.relation);
  return [...new Set([current, ...locked])].flatMap((name) => left.get(name) ?? []);
}

/** Takes rows from the counters. @returns rows that an INSERT updated: ON CONFLICT DO UPDATE. */
function take(pools: readonly Left[], does: ChangedRows['verb'], rows: number): number {
  const taken = (kind: 'inserted' | 'updated' | 'deleted', wanted: number) =>
    pools.reduce((rest, pool) => {
      const part = Math.min(pool[kind], rest);
      pool[kind] -= part;
      return rest - part;
    }, wanted);
  switch (does) {
    case 'insert': {
      const [own] = pools;
      const beyond = taken('inserted', rows);
      if (!own) return 0;
      return beyond - taken('updated', beyond);
    }
    case 'update':
      // A row that moves to another partition is deleted and inserted.
      taken('deleted', taken('updated', rows));
      return 0;
    case 'delete':
      taken('deleted', rows);
      return 0;
    case 'merge':
      taken('inserted', taken('deleted', taken('updated', rows)));
      return 0;
  }
}

/** Shares out what is left among the statements that may have run code. */
function hiddenChanges(context: HazardContext, left: Counters): ChangedRows[] {
  return [...left.values()].flatMap((pool): ChangedRows[] => {
    const { relation, inserted, updated, deleted } = pool;
    const changed = updated + deleted;
    if (changed + inserted <= BOOKKEEPING_ROWS || isBookkeeping(relation)) return [];
    const candidates = candidatesFor(context, relation);
    const weights = weightsOf(candidates);
    const factor = growthOf(context, relation, changed);
    return candidates.flatMap((statement, index): ChangedRows[] => {
      if (statement.error || statement.rolledBack || endsTransactions(context, statement)) return [];
      const share = weights[index] ?? 0;
      const counted = share === 1 && factor === 1;
      const entry = (rows: number, verb: ChangedRows['verb']) => {
        const own = Math.round(rows * share * factor);
        return own > 0 ? [{ statement, relation, rows: own, verb, counted }] : [];
      };
      return [...entry(changed, updated >= deleted ? 'update' : 'delete'), ...entry(inserted, 'insert')];
    });
  });
}

/** Statements that may have changed rows of a table without naming it. */
function candidatesFor(context: HazardContext, relation: string): StatementSection[] {
  const holding = context.facts.statements.filter(
    (statement) =>
      mayRunMore(context, statement) &&
      isOld(context, relation, statement) &&
      !namesTable(context, statement, relation) &&
      holds(context, statement, relation),
  );
  const likely = holding.filter(
    (statement) => context.facts.parsed.get(statement.index)?.effect !== 'rows' || locks(statement, relation),
  );
  const found = likely.length > 0 ? likely : holding;
  if (found.length > 0) return found;
  // Its locks were not read.
  return context.facts.statements.filter(
    (statement) =>
      statement.locks === null && mayRunMore(context, statement) && isOld(context, relation, statement),
  );
}

function isOld(context: HazardContext, relation: string, statement: StatementSection): boolean {
  return context.relation(relation) !== undefined && !context.isReplaced(relation, statement);
}

function mayRunMore({ facts }: HazardContext, { index }: StatementSection): boolean {
  return ['rows', 'reads', 'unknown'].includes(facts.parsed.get(index)?.effect ?? 'unknown');
}

function namesTable(context: HazardContext, statement: StatementSection, relation: string): boolean {
  return context
    .actions(statement)
    .some(
      (action) =>
        (action.does === 'update' || action.does === 'delete' || action.does === 'merge') &&
        context.resolve(action.table, statement) === relation,
    );
}

function holds(context: HazardContext, statement: StatementSection, relation: string): boolean {
  return locks(statement, relation) || mayWrite(context.held(statement, relation)?.mode ?? '');
}

function locks(statement: StatementSection, relation: string): boolean {
  return statement.locks?.some((lock) => lock.relation === relation && mayWrite(lock.mode)) ?? false;
}

const MODES: readonly string[] = LOCK_MODES;

function mayWrite(mode: string): boolean {
  return MODES.indexOf(mode) >= MODES.indexOf('ROW EXCLUSIVE');
}

/** By the WAL that each wrote; if it is not known of all, by their time. The sum is 1. */
function weightsOf(statements: readonly StatementSection[]): number[] {
  const share = (figures: readonly number[]) => {
    const sum = figures.reduce((before, figure) => before + figure, 0);
    return sum > 0 ? figures.map((figure) => figure / sum) : undefined;
  };
  const wal = statements.every(({ walBytes }) => walBytes !== null)
    ? share(statements.map(({ walBytes }) => walBytes ?? 0))
    : undefined;
  return (
    wal ??
    share(statements.map(({ durationMs }) => durationMs)) ??
    statements.map(() => 1 / statements.length)
  );
}

/** Returns the factor for production: a change of half of the table here is one of as much there, which a profile may know. */
function growthOf(context: HazardContext, relation: string, changed: number): number {
  const rows = context.relation(relation)?.rows;
  const here = context.facts.data?.tables.find((table) => table.relation === relation)?.rowsBefore;
  return rows && here && changed >= here / 2 ? Math.max(1, rows / here) : 1;
}

/** Tells if the statement may have ended its transaction before its own end, so that its rows are not those of one. */
function endsTransactions(context: HazardContext, statement: StatementSection): boolean {
  const { tag, exactness, explicit } = statement;
  const isUnseen = exactness === 'unknown' && !explicit && (tag === 'CALL' || tag === 'DO');
  return isUnseen || context.actions(statement).some(({ does }) => does === 'end transactions');
}
