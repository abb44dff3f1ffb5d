import type { DataSection, SchemaSection, TransactionSection } from '../model/report.ts';

type Lost = DataSection['lost'][number];

/** What a column that is gone from the clone holds on the target. */
export interface ColumnContent {
  readonly rows: number | null;
  readonly rowsWithValue: number | null;
  /** Of those, which do not come back from the new type as they were; null where that was not counted. */
  readonly rowsChanged: number | null;
  /** Counted; else the planner's estimate. */
  readonly exact: boolean;
}

export interface Losses {
  readonly schema: SchemaSection | null;
  readonly data: DataSection;
  readonly transactions: readonly TransactionSection[];
  /** What the columns hold, by qualified name. */
  readonly columns: ReadonlyMap<string, ColumnContent>;
}

/** Stored data that the command destroyed: tables and columns that it dropped or cut, and rows that it deleted elsewhere. */
export function lostData(losses: Losses): Lost[] {
  const dropped = droppedTables(losses);
  const gone = new Set(dropped.map(({ object }) => object));
  return [...dropped, ...changedColumns(losses), ...deletedRows(losses, gone)];
}

/** A partitioned table holds no rows itself: its partitions are dropped with it. */
function droppedTables({ schema, data }: Losses): Lost[] {
  return (schema?.changes ?? [])
    .filter(({ verb, kind, dataLoss }) => dataLoss && verb === 'drop' && kind === 'table')
    .flatMap(({ object }): Lost[] => {
      // One that was re-created under the same name is listed twice: what was there before is what is lost.
      const [table] = data.tables
        .filter(({ relation }) => relation === object)
        .sort((one, other) => (other.rowsBefore ?? 0) - (one.rowsBefore ?? 0));
      if (!table) return [];
      const { rowsBefore: rows, exact } = table;
      return [
        { object, kind: 'table', what: 'dropped', rows, rowsWithValue: rows, rowsChanged: null, exact },
      ];
    });
}

function changedColumns({ schema, columns }: Losses): Lost[] {
  return (schema?.changes ?? [])
    .filter(
      ({ verb, kind, dataLoss }) => dataLoss && kind === 'column' && (verb === 'drop' || verb === 'alter'),
    )
    .map(({ object, verb }): Lost => {
      const content = columns.get(object) ?? UNKNOWN;
      return { object, kind: 'column', what: verb === 'drop' ? 'dropped' : 'narrowed', ...content };
    });
}

const UNKNOWN: ColumnContent = { rows: null, rowsWithValue: null, rowsChanged: null, exact: false };

/**
 * Uses the server's count of deleted rows, since inserts hide deletes in the row difference. The count includes rolled-back deletes, so
 * it is used only if nothing was rolled back. Dead rows make the estimate before a rewrite larger than
 * the one after it: the difference of the two is no loss.
 */
function deletedRows({ data, transactions }: Losses, dropped: ReadonlySet<string>): Lost[] {
  const rolledBack = transactions.some(({ outcome }) => outcome !== 'committed');
  const names = new Set([...data.tables, ...data.written].map(({ relation }) => relation));
  return [...names].sort().flatMap((relation): Lost[] => {
    if (dropped.has(relation)) return [];
    const table = data.tables.find((each) => each.relation === relation);
    const counted = rolledBack ? 0 : (data.written.find((each) => each.relation === relation)?.deleted ?? 0);
    const deleted = Math.max(table ? difference(table) : 0, counted);
    if (deleted <= 0) return [];
    return [
      {
        object: relation,
        kind: 'table',
        what: 'deleted',
        rows: table?.rowsBefore ?? null,
        rowsWithValue: deleted,
        rowsChanged: null,
        exact: deleted === counted || (table?.exact ?? false),
      },
    ];
  });
}

function difference({ rowsBefore, rowsAfter, rewritten, exact }: DataSection['tables'][number]): number {
  const isComparable = exact || rowsAfter === 0 || !rewritten;
  return isComparable ? (rowsBefore ?? 0) - (rowsAfter ?? rowsBefore ?? 0) : 0;
}
