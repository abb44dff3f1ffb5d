import type { DataSection, SchemaSection, StatementSection, TransactionSection } from '../model/report.ts';
import type { Conversion, Name, StatementFacts } from '../model/statement-actions.ts';
import { settingsAtStart } from '../postgres/protocol/startup-settings.ts';
import { displayName, withoutLastPart } from '../postgres/sql/quote.ts';
import type { Retyped } from '../schema/type-changes.ts';
import type { SessionStart } from './command-watch.ts';

type Lost = DataSection['lost'][number];

/** Values that a column that is gone from the clone holds on the target. */
export interface ColumnContent {
  readonly rows: number | null;
  readonly rowsWithValue: number | null;
  /** Values that do not come back from the new type as they were; null if that was not counted. */
  readonly rowsChanged: number | null;
  /** Values that were compared, if those of a sample were; `rowsChanged` is then estimated from them, and null if none was changed. */
  readonly rowsCompared?: number;
  /** Counted; else the planner's estimate. */
  readonly exact: boolean;
}

export interface Losses {
  readonly schema: SchemaSection | null;
  readonly data: DataSection;
  /** Contents of the columns, by qualified name. */
  readonly columns: ReadonlyMap<string, ColumnContent>;
  /** Tables that are empty here and need not be so in production: nothing is known of their losses. */
  readonly unfilled?: ReadonlySet<string>;
}

/** Stored data that the command destroyed: tables and columns that it dropped or cut, and rows that it deleted elsewhere. */
export function lostData(losses: Losses): Lost[] {
  const dropped = droppedTables(losses);
  const gone = new Set(dropped.map(({ object }) => object));
  return [...dropped, ...changedColumns(losses), ...deletedRows(losses, gone)];
}

/** A partitioned table holds no rows itself: its partitions are dropped with it. */
function droppedTables({ schema, data, unfilled }: Losses): Lost[] {
  return (schema?.changes ?? [])
    .filter(({ verb, kind, dataLoss }) => dataLoss && verb === 'drop' && kind === 'table')
    .flatMap(({ object }): Lost[] => {
      // One that was re-created under the same name is listed twice: what was there before is what is lost.
      const [table] = data.tables
        .filter(({ relation }) => relation === object)
        .sort((one, other) => (other.rowsBefore ?? 0) - (one.rowsBefore ?? 0));
      if (!table) return [];
      const { rowsBefore: rows, exact } = table;
      const content = unfilled?.has(object)
        ? NO_ROWS_HERE
        : { rows, rowsWithValue: rows, rowsChanged: null, exact };
      return [{ object, kind: 'table', what: 'dropped', ...content }];
    });
}

function changedColumns({ schema, columns, unfilled }: Losses): Lost[] {
  return (schema?.changes ?? [])
    .filter(
      ({ verb, kind, dataLoss }) => dataLoss && kind === 'column' && (verb === 'drop' || verb === 'alter'),
    )
    .map(({ object, verb }): Lost => {
      const content = unfilled?.has(withoutLastPart(object))
        ? NO_ROWS_HERE
        : (columns.get(object) ?? UNKNOWN);
      return { object, kind: 'column', what: verb === 'drop' ? 'dropped' : 'narrowed', ...content };
    });
}

const NO_ROWS_HERE: ColumnContent = { rows: 0, rowsWithValue: null, rowsChanged: null, exact: false };
const UNKNOWN: ColumnContent = { rows: null, rowsWithValue: null, rowsChanged: null, exact: false };

/**
 * Uses the server's count of deleted rows, since inserts hide deletes in the row difference; not if deletes that were rolled back may be
 * in it. Dead rows make the estimate before a rewrite larger than the one after it: the difference of the two is no loss.
 */
function deletedRows({ data }: Losses, dropped: ReadonlySet<string>): Lost[] {
  const names = new Set([...data.tables, ...data.written].map(({ relation }) => relation));
  return [...names].sort().flatMap((relation): Lost[] => {
    if (dropped.has(relation)) return [];
    const table = data.tables.find((each) => each.relation === relation);
    const written = data.written.find((each) => each.relation === relation && !each.atMost);
    const counted = written?.deleted ?? 0;
    const deleted = Math.max(table ? difference(table) : 0, counted);
    if (deleted <= 0) return [];
    return [
      {
        object: relation,
        kind: 'table',
        what: 'deleted',
        // Beside a number that was counted, an estimate would look like a count.
        rows: table && (table.exact || deleted !== counted) ? table.rowsBefore : null,
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

export interface ConversionWork {
  readonly statements: readonly StatementSection[];
  readonly transactions: readonly TransactionSection[];
  /** By the index of the statement. */
  readonly parsed: ReadonlyMap<number, StatementFacts>;
}

/**
 * How the values of a column came into its new type: known from the one statement that changed it. Where none was seen to (a
 * function did it), or several, it may have been anything. The relation goes by the locks, since the search path is not known,
 * and since a partition changes with what it is a part of.
 */
export function conversionOf(
  { object }: Retyped,
  { statements, transactions, parsed }: ConversionWork,
): Conversion {
  const undone = new Set(
    transactions.filter(({ outcome }) => outcome === 'rolled back').map(({ transaction }) => transaction),
  );
  const lockedIn = new Set<number>();
  const found: { readonly conversion: Conversion; readonly byName: boolean }[] = [];
  for (const { index, transaction, error, locks } of statements) {
    if (error !== null || undone.has(transaction)) continue;
    const locked = locks?.some(
      ({ relation, mode }) => mode === 'ACCESS EXCLUSIVE' && object.startsWith(`${relation}.`),
    );
    if (locked) lockedIn.add(transaction);
    if (!lockedIn.has(transaction)) continue;
    for (const action of parsed.get(index)?.actions ?? [])
      if (action.does === 'alter type' && object.endsWith(`.${displayName(action.column)}`))
        found.push({ conversion: action.conversion, byName: isNamed(action.table, action.column, object) });
  }
  const named = found.filter(({ byName }) => byName);
  const [only, ...more] = named.length > 0 ? named : found;
  return only && more.length === 0 ? only.conversion : 'expression';
}

const SETS_ZONE =
  /^\s*(?:SET\s+(?:SESSION\s+|LOCAL\s+)?(?:TIME\s+ZONE|TimeZone\s*(?:=|TO))\s*'?([\w/+-]+)|SELECT\s+(?:pg_catalog\.)?set_config\(\s*'TimeZone'\s*,\s*'([\w/+-]+)')/i;

/** The time zone of the session that changed types last, as far as it set one or began with one; null: that of its role. */
export function zoneOfConversions(
  { statements, parsed }: Pick<ConversionWork, 'statements' | 'parsed'>,
  sessions: ReadonlyMap<number, Pick<SessionStart, 'parameters'>>,
): string | null {
  const converting = statements.findLast(({ index }) =>
    parsed.get(index)?.actions.some(({ does }) => does === 'alter type'),
  );
  if (!converting) return null;
  const { session, index } = converting;
  const set = statements.findLast(
    (each) =>
      each.session === session && each.index < index && each.error === null && SETS_ZONE.test(each.sql),
  );
  const [, spelled, called] = SETS_ZONE.exec(set?.sql ?? '') ?? [];
  const zone = spelled ?? called;
  if (zone !== undefined) return /^(?:default|local|interval)$/i.test(zone) ? null : zone;
  const start = settingsAtStart(sessions.get(session)?.parameters ?? []);
  return start.find(([name]) => name.toLowerCase() === 'timezone')?.[1] ?? null;
}

/** A table whose values a rewrite may have changed, under its name after the command. */
export interface ConvertedTable {
  readonly relation: string;
  /** Columns with a USING expression; null: code that was not read changed the table, so that it may be any. */
  readonly columns: ReadonlySet<string> | null;
  /** Rows that were updated besides: of values that code changed, as many are no conversion. */
  readonly updated: number;
}

/**
 * Lists the tables in which a change of type may have replaced values. Any USING but a plain cast rewrites the table, so that others are
 * out of question. A table that was refilled was truncated, not converted.
 */
export function convertedTables(
  data: DataSection,
  { statements, parsed }: Pick<ConversionWork, 'statements' | 'parsed'>,
): ConvertedTable[] {
  return data.tables.flatMap(({ relation, rewritten, rowsBefore, rowsAfter }): ConvertedTable[] => {
    if (!rewritten || rowsBefore === 0 || rowsAfter === 0) return [];
    const { inserted = 0, updated = 0 } = data.written.find((each) => each.relation === relation) ?? {};
    if (inserted > 0 && inserted >= (rowsAfter ?? inserted) / 2) return [];
    const rewriting = statements.filter(({ rewrote }) => rewrote.includes(relation));
    const isRead = rewriting.every(({ index }) => {
      const { effect = 'unknown' } = parsed.get(index) ?? {};
      return effect !== 'unknown' && effect !== 'reads';
    });
    if (rewriting.length === 0 || !isRead) return [{ relation, columns: null, updated }];
    const columns = rewriting.flatMap(({ index }) =>
      (parsed.get(index)?.actions ?? []).flatMap((action) =>
        action.does === 'alter type' && action.conversion === 'expression' ? [action.column] : [],
      ),
    );
    return columns.length === 0 ? [] : [{ relation, columns: new Set(columns), updated }];
  });
}

function isNamed({ schema, name }: Name, column: string, object: string): boolean {
  return schema === null
    ? object.endsWith(`.${displayName(name, column)}`)
    : object === displayName(schema, name, column);
}
