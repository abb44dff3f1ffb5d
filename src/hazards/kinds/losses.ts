import { formatCount, formatEstimate, listed, plural } from '../../format.ts';
import { isReplaced, losesValues } from '../../model/converted-column.ts';
import { isBookkeeping } from '../../model/migration-tables.ts';
import type { ConvertedColumn } from '../../model/report.ts';
import { bare, displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { conversionCounts, relationEvidence, rowCount } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { weighBreakage, weighLoss, worst } from '../severity.ts';
import { droppedRules } from './dropped-constraints.ts';
import { droppedObjects, indexOfCode, indexOfDrop } from './dropped-objects.ts';

/** Data and constraints that are gone afterwards, and that no rollback SQL restores. */
export const LOSSES: readonly HazardRecord[] = [
  {
    code: 'TABLE_DROPPED',
    title: 'a table is dropped with its rows',
    condition:
      'A table that existed before no longer exists, or a different one has its name. Milder if another table has the same rows, compared as a whole in tables of up to 100,000 rows and 100 MB. In a dump without rows: a warning, or by the rows that a profile has.',
    effect: 'Its rows are lost, and code that still uses it fails.',
    safer:
      'First rename it, wait until it is certain that it is not missed, and drop it in a later migration.',
    find: (context) =>
      droppedObjects(context, 'table').map(({ object }) => {
        const rows = context.relation(object)?.rows ?? null;
        const copy = context.facts.data?.copiedTables?.find(({ relation }) => relation === object)?.to;
        const isEmpty = rows === 0 ? ', which is empty' : '';
        return {
          statement: indexOfDrop(context, 'table', object),
          relation: object,
          severity: copy === undefined ? weighLoss(context, object, rows) : weighBreakage(context, object),
          message: `drops the table ${object}${copy === undefined ? isEmpty : `, whose rows ${copy} has`}`,
          evidence: `${relationEvidence(context, object)}${copy === undefined ? '' : `; each row is in ${copy} too, with the same values`}`,
          lostRows: copy === undefined ? rows : 0,
          advice: sqlAdvice(
            'Keep it under another name until it is certain that it is not missed:',
            `ALTER TABLE ${object} RENAME TO ${displayName(`${lastPart(object).replaceAll('"', '')}_unused`)}`,
          ),
        };
      }),
  },
  {
    code: 'COLUMN_DROPPED',
    title: 'a column is dropped with its values',
    condition:
      'A column of an existing table is gone, or a different one has its name. At least a warning if a new column has most of its values, but not all; values of some pages are looked up. In a dump without rows: a warning, or by the rows that a profile has.',
    effect:
      'Its values are lost, and code that still names it, or has cached the columns of SELECT *, fails.',
    safer: 'First release code that does not use it (ORMs list all columns on their own), then drop it.',
    find: (context) => {
      // A view may have the name of a table that is dropped.
      const tables = new Set(droppedObjects(context, 'table').map(({ object }) => object));
      return droppedObjects(context, 'column')
        .filter(({ object }) => context.relation(withoutLastPart(object)))
        .filter(({ object }) => !tables.has(withoutLastPart(object)))
        .map(({ object }) => {
          const relation = withoutLastPart(object);
          const lost = context.facts.data?.lost.find(
            (each) => each.object === object && each.what === 'dropped',
          );
          const table = context.relation(relation);
          const values = lost?.rowsWithValue ?? (table?.rows === 0 ? 0 : null);
          const counted =
            lost && lost.rowsWithValue !== null && lost.rows !== null
              ? `${formatEstimate(lost.rowsWithValue, lost.exact)} of ${rowCount(lost.rows, lost.exact)} had a value`
              : relationEvidence(context, relation);
          const statement =
            indexOfDrop(context, 'column', object) ?? indexOfCode(context, relation, bare(lastPart(object)));
          const copy = copyOf(context, object, statement);
          const isSame = context.facts.data?.copied?.includes(object) ?? false;
          const lacking = lost?.copy;
          return {
            statement,
            relation,
            severity: worst([
              lacking ? 'warning' : 'notice',
              isSame ? 'notice' : weighLoss(context, relation, values ?? table?.rows ?? null),
              weighBreakage(context, relation),
            ]),
            message:
              copy === null
                ? `drops the column ${object}${lacking ? `, and ${lacking.column} lacks some of its values` : ''}`
                : `replaces the column ${object} by ${copy}, which takes its name${isSame ? ' and has the same values' : ''}`,
            lostRows: isSame ? 0 : values,
            evidence: isSame
              ? 'each row has the same value, compared by primary key'
              : `${counted}${lacking ? `; ${formatCount(lacking.missing)} of ${plural(lacking.values, 'value')} of some pages are not in ${lacking.column}` : ''}`,
            advice:
              copy === null
                ? 'First release code that does not use the column; keep its values in another table if they may be needed.'
                : sqlAdvice(
                    'Right before the drop, no row may differ unless it is meant to:',
                    `SELECT count(*) FROM ${relation} WHERE ${lastPart(object)}::text IS DISTINCT FROM ${copy}::text`,
                  ),
          };
        });
    },
  },
  {
    code: 'VALUES_CONVERTED',
    title: 'a change of type replaces values',
    condition:
      'ALTER COLUMN … TYPE … USING, also in a DO block or a function, leaves other values than before, or NULL; or the new type cuts or rounds values, so that casting them back gives others: numbers lose the leading zeros of a text, dates the time of day. A notice, unless values become NULL or are cut, values that differ in more than their spelling become the same, or most numbers become other ones. Each row is compared with the target, in tables of more than 100,000 rows or 100 MB a sample.',
    effect: 'The values from before are gone: ALTER TABLE back to the old type does not bring them back.',
    safer:
      'Write the converted values to a new column, compare the two, and drop the old one in a later migration.',
    find: (context) => [
      ...(context.facts.data?.converted ?? []).flatMap((column) => converted(context, column)),
      ...narrowed(context),
    ],
  },
  {
    code: 'SCHEMA_DROPPED',
    title: 'a schema is dropped',
    condition: 'A schema that existed before is gone.',
    effect: 'All its objects are gone, and code that has it in its search_path finds other objects, or none.',
    safer:
      'First rename it, wait until it is certain that it is not missed, and drop it in a later migration.',
    find: (context) =>
      droppedObjects(context, 'schema').map(({ object }) => {
        const inside = [...context.facts.catalogue.relations].filter(([name]) =>
          name.startsWith(`${object}.`),
        );
        const rows = inside.reduce<number | null>(
          (sum, [, relation]) => (sum === null || relation.rows === null ? null : sum + relation.rows),
          0,
        );
        return {
          statement: indexOfDrop(context, 'schema', object),
          relation: null,
          severity:
            inside.length === 0
              ? ('notice' as const)
              : worst(inside.map(([name]) => weighLoss(context, name, rows))),
          message: `drops the schema ${object}`,
          lostRows: rows,
          evidence:
            inside.length === 0
              ? 'it contained no tables'
              : `${plural(inside.length, 'table')}${
                  rows === null
                    ? ''
                    : ` with ${rowCount(
                        rows,
                        inside.every(([, { exact }]) => exact),
                      )}`
                }`,
          advice: sqlAdvice(
            'Keep it under another name until it is certain that it is not missed:',
            `ALTER SCHEMA ${object} RENAME TO ${displayName(`${object.replaceAll('"', '')}_unused`)}`,
          ),
        };
      }),
  },
  {
    code: 'TABLE_TRUNCATED',
    title: 'a table is truncated',
    condition:
      "TRUNCATE of a table that existed before the command, except migration tools' own tables. At most a notice if the table is UNLOGGED: a crash may empty it at any time.",
    effect:
      'All rows are deleted under ACCESS EXCLUSIVE; transactions with an older snapshot see an empty table as well.',
    safer: 'DELETE the unwanted rows in batches, or copy the table before.',
    find: (context) =>
      context.actionsOf('truncate').flatMap(({ statement, action }) =>
        [
          ...new Set([
            ...action.tables.map((table) => context.resolve(table, statement)),
            ...context.taken(statement, 'reads').map(({ relation }) => relation),
          ]),
        ]
          .filter((relation) => context.relation(relation) && !isBookkeeping(relation))
          .map((relation) => ({
            statement: statement.index,
            relation,
            severity: context.relation(relation)?.unlogged
              ? 'notice'
              : weighLoss(context, relation, context.relation(relation)?.rows ?? null),
            message: `truncates ${relation}`,
            lostRows: context.relation(relation)?.rows ?? null,
            evidence: relationEvidence(context, relation),
            advice: sqlAdvice('Delete the unwanted rows in batches:', `DELETE FROM ${relation} WHERE …`),
          })),
      ),
  },
  {
    code: 'CONSTRAINT_DROPPED',
    title: 'a constraint or a unique index is dropped',
    condition:
      'A constraint of an existing table is gone although its table and columns are not, and no equal one replaced it at once; or one of a domain that tables use. Or a unique index is dropped, and no other one refuses the same duplicates, or one only after a later transaction; probes try one of columns alone (ACCEPTS_MORE). A warning for such an index of a table with rows, and for a unique, primary or exclusion constraint if no other key refuses the same rows, and an application may write the table or it is large.',
    effect:
      'Rows that violate it can be written from then on, and it cannot be added again until they are found and fixed. INSERT … ON CONFLICT with the columns of a dropped key fails (SQLSTATE 42P10).',
    safer: 'First add the new constraint NOT VALID and validate it, then drop the old one.',
    find: droppedRules,
  },
];

function converted(context: HazardContext, column: ConvertedColumn): Finding[] {
  const { object, rows, compared, values, becameNull, cut = 0, exact } = column;
  if (compared > 0 && !isReplaced(column)) return [];
  const relation = withoutLastPart(object);
  const isGrave = losesValues(column);
  const areOthers = areOtherNumbers(context, column);
  const changed = becameNull + cut > 0 ? becameNull + cut : values;
  const lost = exact ? changed : rows === null ? null : Math.ceil((rows * changed) / Math.max(1, compared));
  return [
    {
      statement: statementOfConversion(context, relation, lastPart(object)),
      relation,
      severity: isGrave
        ? mergesFew(column)
          ? 'warning'
          : weighLoss(context, relation, lost)
        : areOthers
          ? 'warning'
          : 'notice',
      lostRows: lost,
      message:
        compared === 0
          ? `the values of ${object} may be replaced: they could not be compared`
          : becameNull > 0
            ? `values of ${object} become NULL`
            : cut > 0
              ? `values of ${object} are cut`
              : isGrave
                ? `different values of ${object} become the same`
                : areOthers
                  ? `numbers of ${object} become other numbers, which running code does not expect`
                  : `values of ${object} change`,
      evidence:
        compared === 0
          ? relationEvidence(context, relation)
          : `${listed(conversionCounts(column))}${exact ? '' : `, in a sample of ${relationEvidence(context, relation)}`}`,
      advice: sqlAdvice(
        'Keep the old values until it is certain that they are not missed:',
        `ALTER TABLE ${relation} ADD COLUMN ${displayName(`${bare(lastPart(object))}_new`)} …`,
      ),
    },
  ];
}

/** Most of the values are other numbers, such as cents in place of euros, which running code does not expect. */
function areOtherNumbers({ facts }: HazardContext, { object, values, changed }: ConvertedColumn): boolean {
  const types = facts.catalogue.definitions.retyped.find((each) => each.object === object);
  const ofNumbers = types && [types.from, types.to].every((type) => NUMBERS.test(type));
  return ofNumbers === true && (changed ?? 0) * 2 > values;
}

const NUMBERS = /^(?:smallint|integer|bigint|numeric|real|double precision)\b/;

/** Most of the different values are left: some are merged, maybe on purpose. */
function mergesFew({ becameNull, cut = 0, distinctBefore, distinctAfter }: ConvertedColumn): boolean {
  return becameNull + cut === 0 && distinctAfter * 2 >= distinctBefore;
}

/** Values that the cast to the new type changes. */
function narrowed(context: HazardContext): Finding[] {
  return (context.facts.data?.lost ?? []).flatMap((column): Finding[] => {
    const { object, what, rowsWithValue, rowsChanged, exact } = column;
    const relation = withoutLastPart(object);
    if (what !== 'narrowed' || !rowsChanged || !context.relation(relation)) return [];
    return [
      {
        statement: statementOfConversion(context, relation, lastPart(object)),
        relation,
        severity: weighLoss(context, relation, rowsChanged),
        lostRows: rowsChanged,
        message: `the new type of ${object} cuts or rounds its values`,
        evidence: `${formatEstimate(rowsChanged, exact)} of ${formatEstimate(rowsWithValue ?? rowsChanged, exact)} ${rowsWithValue === 1 ? 'value does' : 'values do'} not come back by a cast to the type of before`,
        advice: sqlAdvice(
          'Keep the old values until it is certain that they are not missed:',
          `ALTER TABLE ${relation} ADD COLUMN ${displayName(`${bare(lastPart(object))}_new`)} …`,
        ),
      },
    ];
  });
}

/** By name, and else by what rewrote the table: a DO block or a function. */
function statementOfConversion(context: HazardContext, relation: string, column: string): number | null {
  const rewriting = context.facts.statements.filter(({ rewrote }) => rewrote.length > 0);
  const named = rewriting.filter((statement) =>
    context
      .actionsIn(statement, 'alter type')
      .some(
        ({ action }) =>
          displayName(action.column) === column && context.resolve(action.table, statement) === relation,
      ),
  );
  const after = context.facts.catalogue.renamed.get(relation) ?? relation;
  const found = named[0] ?? rewriting.find(({ rewrote }) => rewrote.includes(after));
  return found?.index ?? indexOfCode(context, relation, column);
}

/** The column that takes the name of a dropped one later. @param dropped the index of the statement that drops it. */
function copyOf(context: HazardContext, object: string, dropped: number | null): string | null {
  const found = context
    .actionsOf('rename')
    .find(
      ({ action, statement }) =>
        dropped !== null &&
        statement.index > dropped &&
        action.column !== null &&
        action.table !== null &&
        displayName(action.to) === lastPart(object) &&
        context.resolve(action.table, statement) === withoutLastPart(object),
    );
  return found?.action.column == null ? null : displayName(found.action.column);
}
