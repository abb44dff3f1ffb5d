import { formatCount, listed, plural } from '../../format.ts';
import { isOverwritten } from '../../model/converted-column.ts';
import { isBookkeeping } from '../../model/migration-tables.ts';
import type { ConvertedColumn, StatementSection } from '../../model/report.ts';
import type { Action, ActionOf } from '../../model/statement-actions.ts';
import { bare, displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { byTable, type ChangedRows, changedRows, totalRows } from '../changed-rows.ts';
import { conversionCounts, relationEvidence, rowCount } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { weighLoss } from '../severity.ts';
import { MANY_ROWS } from '../thresholds.ts';

/** Rows that the command deleted, and values that it wrote over. */
export const ROW_LOSSES: readonly HazardRecord[] = [
  {
    code: 'ROWS_DELETED',
    title: 'rows are deleted',
    condition: `A table that existed before has lost all of its rows, half of them, or ${formatCount(MANY_ROWS)} by DELETE or MERGE; or rows were deleted by a foreign key with ON DELETE CASCADE, whose table the statement does not name. Not found: rows of which as many were inserted into another table, and a migration tool's own tables. A notice if the table is UNLOGGED.`,
    effect:
      'The rows are lost with the commit, and the way back does not restore them; those of a cascade appear in no count of the statement.',
    safer:
      'First count what the condition finds, NULLs included, and copy the rows to a table that stays. Delete the rows of referring tables by separate statements.',
    find: (context) => [...byTheirStatement(context), ...byCascade(context)],
  },
  {
    code: 'VALUES_OVERWRITTEN',
    title: 'an UPDATE loses values',
    condition: `Rows of a table were updated, and values of a column that existed before are NULL now, of ten different values or more less than half are left, or JSON objects have none of their keys or values left. Times count only if they became NULL, or if a BEFORE trigger changed ${formatCount(MANY_ROWS)} or more that no UPDATE names; so does any column in which a trigger set one value. The rows of some pages are compared with those of the target by primary key; a caveat names the tables whose updated rows are not among them. An UPDATE … FROM counts too if several rows of FROM with different values match one row.`,
    effect:
      'The values from before are lost with the commit, and no way back restores them. A join without a condition, a join with several matches, jsonb_set() with a NULL, = instead of || for JSON or a CASE without ELSE does so by mistake.',
    safer:
      'Write to a new column, compare the two, and drop the old one in a later migration; or copy the rows to a table that stays.',
    find: (context) => [
      ...(context.facts.data?.overwritten ?? []).flatMap((each) => overwritten(context, each)),
      ...leftToChance(context),
    ],
  },
  {
    code: 'CONDITION_NEVER_TRUE',
    title: 'a condition with a NULL is never true',
    condition:
      'An INSERT, UPDATE or DELETE changed no row, although its table has some, and its condition cannot be true: it compares with NULL (= NULL, <> NULL), or the subquery of a NOT IN has a NULL on the clone. The subquery is run once more after the command.',
    effect: 'The statement succeeds without an effect, and what follows is built on rows that are not there.',
    safer: 'Write IS NULL or IS DISTINCT FROM, and NOT EXISTS instead of NOT IN.',
    find: (context) =>
      context.facts.catalogue.effects.neverTrue.flatMap(({ statement: index, nulls }): Finding[] => {
        const statement = context.facts.statements.find((each) => each.index === index);
        const action = statement && context.actions(statement).find(isWrite);
        if (!statement || !action) return [];
        const relation = context.resolve(action.table, statement);
        const isEmpty = context.relation(relation)?.rows === 0;
        if (isBookkeeping(relation) || (action.does !== 'insert' && (isEmpty || !context.relation(relation))))
          return [];
        return [
          {
            statement: index,
            relation,
            severity: 'warning',
            message:
              nulls === null
                ? `a comparison with NULL is never true: nothing in ${relation} is changed`
                : `NOT IN is never true if its subquery has a NULL: nothing in ${relation} is changed`,
            evidence: `0 rows changed${nulls === null ? '' : `; ${plural(nulls, 'NULL')} in the subquery`}; ${relationEvidence(context, relation)}`,
            advice:
              nulls === null
                ? 'Write IS NULL or IS NOT NULL.'
                : 'Write NOT EXISTS, or leave the NULLs out of the subquery.',
          },
        ];
      }),
  },
];

type Write = ActionOf<'insert' | 'update' | 'delete' | 'merge'>;

function isWrite(action: Action): action is Write {
  return action.does === 'insert' || action.does === 'update' || action.does === 'delete';
}

function overwritten(context: HazardContext, column: ConvertedColumn): Finding[] {
  const { object, rows, compared, becameNull, keysLost = 0, changed, triggers, exact } = column;
  const relation = withoutLastPart(object);
  if (!isCounted(context, relation)) return [];
  const ofAll = (count: number) => (exact || rows === null ? count : Math.ceil((rows * count) / compared));
  const isByTrigger = triggers !== undefined && !isOverwritten(column) && keysLost === 0;
  if (isByTrigger && ofAll(changed ?? 0) < MANY_ROWS) return [];
  const sample = exact ? '' : `, in a sample of ${relationEvidence(context, relation)}`;
  const lost = becameNull > 0 ? becameNull : keysLost;
  return [
    {
      statement: updating(context, relation),
      relation,
      severity: context.relation(relation)?.unlogged ? 'notice' : 'warning',
      message: isByTrigger
        ? `a trigger changes ${object}, which no UPDATE of the command names`
        : becameNull > 0
          ? `values of ${object} become NULL`
          : keysLost > 0
            ? `JSON objects of ${object} lose all their keys`
            : `different values of ${object} become the same`,
      evidence: `${listed(conversionCounts(column))}${sample}`,
      ...(lost > 0 ? { lostRows: ofAll(lost) } : {}),
      advice: isByTrigger
        ? 'If the values are to stay as they are, let the trigger skip rows for a setting that the migration makes (SET LOCAL). If not, name the column in the UPDATE.'
        : sqlAdvice(
            'Keep the old values until it is certain that they are not missed:',
            `ALTER TABLE ${relation} ADD COLUMN ${displayName(`${bare(lastPart(object))}_new`)} …`,
          ),
    },
  ];
}

/** Rows that several rows of FROM match, with different values. */
function leftToChance(context: HazardContext): Finding[] {
  return context.facts.catalogue.effects.severalMatches
    .filter(({ relation }) => isCounted(context, relation))
    .map(({ statement, relation, rows }) => ({
      statement,
      relation,
      severity: context.relation(relation)?.unlogged ? 'notice' : 'warning',
      message: `several rows of FROM match one row of ${relation}: it is left to chance which values it gets`,
      evidence: `${rowCount(rows, true)} with several matches and different values for them, counted on the clone after the command`,
      advice:
        'Join with one row for each: a subquery with DISTINCT ON … ORDER BY, or GROUP BY with min() or max().',
    }));
}

/** The last statement that updates a relation by name. */
function updating(context: HazardContext, relation: string): number | null {
  const found = context.facts.statements.findLast(
    (statement) =>
      statement.error === null &&
      context
        .actions(statement)
        .some(
          (action) =>
            (action.does === 'update' || action.does === 'merge' || action.does === 'insert') &&
            context.former(context.resolve(action.table, statement)) === relation,
        ),
  );
  return found?.index ?? null;
}

function byTheirStatement(context: HazardContext): Finding[] {
  const deleted = changedRows(context, context.facts.statements, false).filter(
    ({ verb, relation, statement }) =>
      (verb === 'delete' || verb === 'merge') &&
      deletedFrom(context, statement).includes(relation) &&
      !statement.rolledBack &&
      isCounted(context, relation),
  );
  return byTable(deleted).flatMap((ofTable) => deletedBy(context, ofTable));
}

function deletedBy(context: HazardContext, changes: readonly ChangedRows[]): Finding[] {
  const [most] = changes;
  const { data } = context.facts;
  if (!most || !data) return [];
  const { relation, statement } = most;
  const { rows = null, unlogged = false } = context.relation(relation) ?? {};
  const written = data.written.find((each) => each.relation === relation);
  const total = totalRows(changes);
  // A partitioned table has no count of its partitions' rows. MERGE counts updates, too.
  const deleted = written === undefined ? total : Math.min(total, written.deleted);
  if (deleted === 0 || isMoved(context, most, deleted)) return [];
  const copy = `${withoutLastPart(relation)}.${displayName(`${bare(lastPart(relation))}_deleted`)}`;
  const isAll = data.tables.find((table) => table.relation === relation)?.rowsAfter === 0;
  if (!isAll && deleted < MANY_ROWS && (rows === null || deleted * 2 < rows)) return [];
  return [
    {
      statement: statement.index,
      relation,
      severity: unlogged ? 'notice' : isAll ? weighLoss(context, relation, deleted) : 'warning',
      message: `deletes ${isAll ? 'all' : formatCount(deleted)} rows of ${relation}`,
      evidence: `${plural(deleted, 'row')} deleted, counted by the server; ${relationEvidence(context, relation)}`,
      lostRows: deleted,
      // Default privileges may open each new table to others; row security without a policy closes it to all but its owner.
      advice: sqlAdvice(
        'Before, in one transaction, in a table that stays until it is certain that they are not missed:',
        `CREATE TABLE ${copy} AS SELECT * FROM ${relation} WHERE …`,
        `ALTER TABLE ${copy} ENABLE ROW LEVEL SECURITY`,
      ),
    },
  ];
}

function byCascade(context: HazardContext): Finding[] {
  return changedRows(context, context.facts.statements, false)
    .filter(({ verb, relation, statement }) => {
      const named = deletedFrom(context, statement);
      return (
        verb === 'delete' && named.length > 0 && !named.includes(relation) && isCounted(context, relation)
      );
    })
    .map(({ statement, relation, rows, counted }) => ({
      statement: statement.index,
      relation,
      severity: context.relation(relation)?.unlogged ? 'notice' : 'warning',
      message: `deletes rows of ${relation} too, which the statement does not name`,
      evidence: `${rowCount(rows, counted)} deleted${counted ? ', counted by the server' : ''}; ${relationEvidence(context, relation)}`,
      lostRows: rows,
      advice: `If they are to go: delete them first, by a statement that names ${relation}. If not: ON DELETE RESTRICT.`,
    }));
}

function isCounted(context: HazardContext, relation: string): boolean {
  return context.relation(relation) !== undefined && !isBookkeeping(relation);
}

function deletedFrom(context: HazardContext, statement: StatementSection): string[] {
  return context
    .actions(statement)
    .flatMap((action) =>
      action.does === 'delete' || action.does === 'merge' ? [context.resolve(action.table, statement)] : [],
    );
}

/** Tells if the session has put as many rows into another table, which stays. */
function isMoved(context: HazardContext, { statement, relation }: ChangedRows, deleted: number): boolean {
  const { statements, data } = context.facts;
  const kept = new Map(data?.tables.map((table) => [table.relation, table.rowsAfter ?? 0]));
  return statements
    .filter(({ session, error }) => session === statement.session && error === null)
    .flatMap((other) =>
      context.actions(other).flatMap((action) => {
        if (action.does !== 'insert' && action.does !== 'create table') return [];
        if (action.does === 'insert' && (other.rows ?? 0) < deleted) return [];
        return [context.resolve(action.table, other)];
      }),
    )
    .some((name) => name !== relation && (kept.get(name) ?? 0) >= deleted);
}
