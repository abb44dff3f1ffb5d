import { formatCount, formatDuration } from '../../format.ts';
import { isBookkeeping } from '../../model/migration-tables.ts';
import { longestMs } from '../../model/repeated.ts';
import type { StatementSection } from '../../model/report.ts';
import { blocks } from '../../postgres/lock-modes.ts';
import { changedRows, totalRows } from '../changed-rows.ts';
import { relationEvidence, rowCount, timeWords } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import type { Finding, HazardRecord } from '../hazard-definition.ts';
import { weighRows, worst } from '../severity.ts';
import { BUSY_PER_SECOND, MANY_ROWS, WARNING } from '../thresholds.ts';

/** Row locks that are more than those of the changes which BACKFILL_IN_ONE_TRANSACTION reports. */
export const ROW_LOCKS: HazardRecord = {
  code: 'ROWS_LOCKED',
  title: 'rows stay locked while a transaction goes on',
  condition: `One transaction locks ${formatCount(MANY_ROWS)} rows or more of an existing table by SELECT … FOR UPDATE, FOR NO KEY UPDATE or FOR SHARE, which reads no other table (of a subselect or WITH only if it has neither WHERE nor LIMIT); or it stays open for ${formatDuration(WARNING.heldMs)} or more after it locked or changed some. The latter is a warning if the target's statistics show UPDATEs or DELETEs of the table.`,
  effect: 'Each UPDATE and DELETE of such a row waits until the transaction ends, with a connection.',
  safer: 'Lock and change rows at the end of a transaction, some thousands in each.',
  find: (context) => [...context.transactions()].flatMap((statements) => lockedRows(context, statements)),
};

/** Rows of one table that a statement locked or changed. */
interface Locked {
  readonly relation: string;
  readonly statement: StatementSection;
  readonly rows: number;
  readonly counted: boolean;
}

function lockedRows(context: HazardContext, statements: readonly StatementSection[]): Finding[] {
  const changed = changedRows(context, statements, false);
  const all: Locked[] = [...statements.flatMap((statement) => lockedBy(context, statement)), ...changed];
  return [...new Set(all.map(({ relation }) => relation))].flatMap((relation): Finding[] => {
    const own = all.filter((each) => each.relation === relation);
    const first = own.reduce((one, other) => (other.statement.index < one.statement.index ? other : one));
    const most = own.reduce((one, other) => (other.rows > one.rows ? other : one));
    const lock = context.held(first.statement, relation);
    const isChanged = totalRows(changed.filter((each) => each.relation === relation)) >= MANY_ROWS;
    // Those who wait for the table wait for its rows, too.
    if (!lock || isChanged || isBookkeeping(relation) || blocks(lock.mode).includes('writes')) return [];
    const openMs = first.statement.explicit ? (lock.heldMs ?? 0) - longestMs(first.statement) : 0;
    const isLong = openMs >= WARNING.heldMs;
    if (most.rows < MANY_ROWS && !(isLong && most.rows > 0)) return [];
    const count = rowCount(most.rows, most.counted);
    return [
      {
        statement: first.statement.index,
        relation,
        severity: worst([
          weighRows(most.rows, lock.heldMs),
          ...(isLong && isWritten(context, relation) ? (['warning'] as const) : []),
        ]),
        message: `${count} of ${relation} ${most.rows === 1 ? 'stays' : 'stay'} locked until the transaction ends`,
        evidence: `locked for ${timeWords(lock.heldMs ?? 0, lock.atProductionSize)}; ${relationEvidence(context, relation)}`,
        advice:
          most.rows < MANY_ROWS
            ? 'Move these rows to the end of the transaction, or into one of their own.'
            : 'Lock and change batches of some thousands of rows, committing after each.',
      },
    ];
  });
}

function lockedBy(context: HazardContext, statement: StatementSection): Locked[] {
  if (statement.error) return [];
  const locked = context
    .actionsIn(statement, 'lock rows')
    .flatMap(({ action: { tables, all } }) =>
      tables.map((table) => ({ relation: context.resolve(table, statement), all })),
    );
  return locked.flatMap(({ relation, all }): Locked[] => {
    const table = context.reachable(relation, statement);
    const rows = all ? (table?.rows ?? null) : statement.rows;
    if (!table || rows === null) return [];
    const counted = all ? table.exact : statement.rowsAtProductionSize === undefined;
    return [{ relation, statement, rows, counted }];
  });
}

function isWritten(context: HazardContext, relation: string): boolean {
  const { writesPerSecond = 0, insertsPerSecond = 0 } = context.traffic(relation) ?? {};
  return writesPerSecond - insertsPerSecond >= BUSY_PER_SECOND;
}
