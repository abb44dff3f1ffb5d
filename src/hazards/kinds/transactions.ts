import { formatCount, formatDuration, listed } from '../../format.ts';
import { longestMs } from '../../model/repeated.ts';
import type { StatementSection } from '../../model/report.ts';
import { beginsAsData, beginsAsIncidental } from '../../postgres/sql/classify-statement.ts';
import { bare } from '../../postgres/sql/quote.ts';
import { BOOKKEEPING_ROWS, byTable, type ChangedRows, changedRows, totalRows } from '../changed-rows.ts';
import { locksEvidence, relationEvidence, rowCount, statementTime } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { weighLock, weighRows, worst } from '../severity.ts';
import { LINGERING_MS, MANY_ROWS } from '../thresholds.ts';
import { isBuilt } from './builds.ts';
import { ROW_LOCKS } from './row-locks.ts';
import { isOfEmptyColumn } from './scans.ts';

/** Rows that triggers insert are often sent on, as events or messages. */
const MANY_BY_TRIGGERS = 10 * MANY_ROWS;

/** Hazards of what a migration does between BEGIN and COMMIT. */
export const TRANSACTIONS: readonly HazardRecord[] = [
  {
    code: 'WORK_AFTER_STRONG_LOCK',
    title: 'a table stays locked while other work goes on',
    condition:
      'After it took ACCESS EXCLUSIVE on a table, a transaction builds, reads or rewrites something else, or stays open for a while.',
    effect:
      'The lock is held until the transaction ends: during all of that work no session can read the table.',
    safer: 'Take each strong lock in a transaction of its own, and do the long work before or after it.',
    find: (context) => strongTransactions(context).flatMap(({ takers }) => lingering(context, takers)),
  },
  {
    code: 'SEVERAL_STRONG_LOCKS',
    title: 'several tables are locked one after the other in one transaction',
    condition: 'Statements of one transaction take ACCESS EXCLUSIVE on two or more existing tables.',
    effect:
      'A session that uses the tables in another order deadlocks with it, and the first table stays locked while it waits for the second.',
    safer: 'Use one transaction for each table.',
    find: (context) =>
      strongTransactions(context).flatMap(({ takers }) => {
        const locks = takers.flatMap(({ locks }) => locks);
        const last = takers.at(-1);
        if (!last || takers.length < 2 || new Set(locks.map(({ relation }) => relation)).size < 2) return [];
        return [
          {
            statement: last.statement.index,
            relation: last.locks[0]?.relation ?? null,
            severity: worst(locks.map((lock) => weighLock(context, lock, false))),
            message: `one transaction locks ${listed([...new Set(locks.map(({ relation }) => relation))], { separator: ', then ' })}`,
            evidence: locksEvidence(context, locks),
            advice: 'Change each table in a transaction of its own.',
          },
        ];
      }),
  },
  {
    code: 'BACKFILL_WITH_DDL',
    title: 'rows are changed while a table is locked',
    condition: `A transaction that holds ACCESS EXCLUSIVE also changes ${formatCount(MANY_ROWS)} rows or more.`,
    effect: 'No session can read the table until all rows are changed; a failure rolls back all of it.',
    safer: 'First run the DDL alone, then change the rows in batches, each in a transaction of its own.',
    find: (context) =>
      strongTransactions(context).flatMap(({ takers, statements }) => {
        const changed = byTable(changedRows(context, statements, true)).flat();
        const [most] = changed;
        const rows = totalRows(changed);
        if (!most || rows < MANY_ROWS) return [];
        const locks = takers.flatMap(({ locks }) => locks);
        return [
          {
            statement: most.statement.index,
            relation: most.relation,
            severity: worst(locks.map((lock) => weighLock(context, lock, false))),
            message: `${rowsOf(changed)} are changed while ${locks[0]?.relation} is locked`,
            evidence: locksEvidence(context, locks),
            advice: 'Commit the DDL first, and change the rows afterwards, in batches of some thousands.',
          },
        ];
      }),
  },
  {
    code: 'BACKFILL_IN_ONE_TRANSACTION',
    title: 'many rows are changed in one transaction',
    condition: `One transaction updates or deletes ${formatCount(MANY_ROWS)} rows or more of existing tables, by a statement, a function, a DO block, a trigger or ON CONFLICT DO UPDATE. At least a warning if its triggers insert ${formatCount(MANY_BY_TRIGGERS)} rows or more.`,
    effect:
      'The rows stay locked until it ends, replicas fall behind, vacuum cannot remove dead rows, and a failure rolls back all of it.',
    safer: 'Change batches of some thousands of rows by primary key, each in a transaction of its own.',
    find: (context) =>
      [...context.transactions()].flatMap((statements): Finding[] => {
        const changed = byTable(changedRows(context, statements, false)).flat();
        const [most] = changed;
        const rows = totalRows(changed);
        if (!most || rows < MANY_ROWS) return [];
        const inserted = byTriggers(context, statements);
        const openMs =
          most.statement.locks?.reduce((longest, { heldMs }) => Math.max(longest, heldMs ?? 0), 0) ?? null;
        return [
          {
            statement: most.statement.index,
            relation: most.relation,
            severity: worst([
              weighRows(rows, openMs),
              totalRows(inserted) >= MANY_BY_TRIGGERS ? 'warning' : 'notice',
            ]),
            message: `${rowsOf(changed)} are changed in one transaction${inserted.length === 0 ? '' : `, and triggers insert ${rowsOf(inserted)}`}`,
            evidence: `${rowCount(rows, isCounted(changed))} in ${timeOf(changed)}; ${relationEvidence(context, most.relation)}`,
            advice: sqlAdvice(
              'Repeat a batch, committing after each, until it changes nothing:',
              `${batchOf(most)} WHERE ctid IN (SELECT ctid FROM ${most.relation} WHERE … LIMIT 5000)`,
            ),
          },
        ];
      }),
  },
  ROW_LOCKS,
];

/** Transactions that take ACCESS EXCLUSIVE on existing relations, with the statements that do. */
function strongTransactions(context: HazardContext) {
  return [...context.transactions()]
    .map((statements) => ({
      statements,
      takers: statements
        .map((statement) => ({ statement, locks: context.taken(statement, 'reads') }))
        .filter(({ locks }) => locks.length > 0),
    }))
    .filter(({ takers }) => takers.length > 0);
}

type Takers = ReturnType<typeof strongTransactions>[number]['takers'];

function lingering(context: HazardContext, takers: Takers): Finding[] {
  const [first] = takers;
  if (!first) return [];
  const { statement, locks } = first;
  const later = laterWork(context, statement).filter((each) => heavy(context, each));
  const heldMs = Math.max(...locks.map((lock) => lock.heldMs ?? 0));
  const beyondMs = heldMs - longestMs(statement);
  // Changed rows have a hazard of their own.
  const changing = changedRows(context, context.inTransactionOf(statement), true);
  if (
    later.length === 0 &&
    (!statement.explicit ||
      beyondMs < LINGERING_MS ||
      totalRows(changing) >= MANY_ROWS ||
      statement.tag === 'LOCK TABLE')
  )
    return [];
  const what = later[0]
    ? `${later[0].tag ?? 'more'} (statement ${later[0].index}) runs`
    : 'its transaction stays open';
  return [
    {
      statement: statement.index,
      relation: locks[0]?.relation ?? null,
      severity: worst(locks.map((lock) => weighLock(context, lock, later.length > 0))),
      message: `${listed(locks.map(({ relation }) => relation))} stays locked while ${what}`,
      evidence: `${locksEvidence(context, locks)}; the statement itself took ${statementTime(statement)}`,
      advice: later[0]
        ? `Commit after statement ${statement.index}, or move statement ${later[0].index} into a transaction before it.`
        : `Commit right after statement ${statement.index}.`,
    },
  ];
}

/** Later statements of the same transaction, without transaction control and the tool's bookkeeping. */
export function laterWork(context: HazardContext, statement: StatementSection): StatementSection[] {
  return context.inTransactionOf(statement).filter(({ index, tag, error, rows, sql }) => {
    if (index <= statement.index || error) return false;
    if (beginsAsData(tag ?? '')) return (rows ?? 0) > BOOKKEEPING_ROWS;
    return !beginsAsIncidental(tag ?? '') && tag !== 'PREPARE TRANSACTION' && sql !== '';
  });
}

/** Tells if a statement reads or rewrites a whole existing relation; changed rows have hazards of their own. */
function heavy(context: HazardContext, statement: StatementSection): boolean {
  if (statement.rewrote.some((relation) => context.relation(relation))) return true;
  return context.actions(statement).some((action) => {
    if (action.does === 'refresh') return true;
    const table =
      'table' in action && action.table !== null ? context.resolve(action.table, statement) : undefined;
    if (table === undefined || !context.relation(table) || context.isReplaced(table, statement)) return false;
    return (
      (action.does === 'create index' && isBuilt(context, { statement, action })) ||
      action.does === 'validate constraint' ||
      action.does === 'enforce constraint' ||
      action.does === 'set not null' ||
      (action.does === 'add constraint' &&
        !action.notValid &&
        action.usingIndex === null &&
        !(action.kind === 'foreign key' && isOfEmptyColumn(context, { statement, action })))
    );
  });
}

/** Rows that a statement inserted into tables that it does not name. */
function byTriggers(context: HazardContext, statements: readonly StatementSection[]): ChangedRows[] {
  const inserted = changedRows(context, statements, true).filter(
    ({ verb, statement, relation }) =>
      verb === 'insert' &&
      context.facts.parsed.get(statement.index)?.effect === 'rows' &&
      !statement.sql.toLowerCase().includes(bare(relation).toLowerCase()),
  );
  return byTable(inserted).flat();
}

/** `1,203,442 rows of public.orders, public.users`, the table with most of them first. */
function rowsOf(changed: readonly ChangedRows[]): string {
  const tables = [...new Set(changed.map(({ relation }) => relation))];
  return `${rowCount(totalRows(changed), isCounted(changed))} of ${listed(tables)}`;
}

function isCounted(changed: readonly ChangedRows[]): boolean {
  return changed.every(({ counted }) => counted);
}

function batchOf({ verb, relation }: ChangedRows): string {
  return verb === 'delete' ? `DELETE FROM ${relation}` : `UPDATE ${relation} SET …`;
}

function timeOf(changed: readonly ChangedRows[]): string {
  const statements = [...new Set(changed.map(({ statement }) => statement))];
  const sum = (figure: (statement: StatementSection) => number) =>
    statements.reduce((before, statement) => before + figure(statement), 0);
  const durationMs = sum((each) => each.durationMs);
  if (statements.every(({ atProductionSize }) => atProductionSize === undefined))
    return formatDuration(durationMs);
  const lowMs = sum((each) => each.atProductionSize?.lowMs ?? each.durationMs);
  const highMs = sum((each) => each.atProductionSize?.highMs ?? each.durationMs);
  return statementTime({
    durationMs,
    atProductionSize: { ms: durationMs, lowMs, highMs, basis: 'measured rate' },
  });
}
