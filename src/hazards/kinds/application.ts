import type { RefusedType } from '../../model/effect-facts.ts';
import type { SchemaChange } from '../../model/report.ts';
import { bare, displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import {
  changeFinding,
  type Finding,
  type HazardRecord,
  type HazardTexts,
  sqlAdvice,
} from '../hazard-definition.ts';
import { weighBreakage } from '../severity.ts';
import { indexOfCode } from './dropped-objects.ts';

const JSON_TYPE = /^json(\[\])*$/;

/** Changes that running code, or code that depends on the tables, does not expect. */
export const APPLICATION: readonly HazardRecord[] = [
  renamed(
    {
      code: 'TABLE_RENAMED',
      title: 'a table or view is renamed',
      condition:
        'A table, view or sequence that existed before has a different name or schema. A notice if the command makes a view of the old name.',
      effect: 'Code that uses the old name fails from the commit until all of it is replaced.',
      safer: 'Keep a view with the old name until no code uses it.',
    },
    ['table', 'view', 'materialized view', 'foreign table', 'sequence'],
    (from, to) =>
      sqlAdvice(
        'In the same transaction, so that both names work until no code uses the old one:',
        `CREATE VIEW ${from} AS SELECT * FROM ${to}`,
      ),
    (_from, to) => to,
  ),
  renamed(
    {
      code: 'COLUMN_RENAMED',
      title: 'a column is renamed',
      condition: 'A column that existed before has a different name.',
      effect: 'Code that uses the old name fails from the commit until all of it is replaced.',
      safer:
        'Add a new column that a trigger keeps equal until no code uses the old one; or a view with both names.',
    },
    ['column'],
    (from, to) =>
      sqlAdvice(
        'Keep both columns, kept equal by a trigger, until no code uses the old one:',
        `ALTER TABLE ${withoutLastPart(from)} ADD COLUMN ${lastPart(to)} …`,
      ),
    (_from, to) => withoutLastPart(to),
  ),
  renamed(
    {
      code: 'ENUM_VALUE_RENAMED',
      title: 'an enum value is renamed',
      condition: 'A value of an enum type that existed before has a different name.',
      effect:
        'Code that writes the old value or compares with it fails with SQLSTATE 22P02, and code that reads gets a value that it does not know.',
      safer:
        'Add the new value, release code that knows both, change the rows, and leave the old value unused.',
    },
    ['enum value'],
    (from, to) =>
      sqlAdvice(
        'Add the new value beside the old one:',
        `ALTER TYPE ${withoutLastPart(from)} ADD VALUE '${bare(to).replaceAll("'", "''")}'`,
      ),
    () => null,
  ),
  {
    code: 'COLUMN_RETYPED',
    title: "a column's type is changed under running code",
    condition:
      'A column of an existing table has a different type. More severe if the new type takes fewer whole numbers, a time loses its time zone, or values of the old type are no longer stored in the column or compared with it: both statements are prepared on the clone.',
    effect:
      'Sessions that prepared a query on the column fail with "cached plan must not change result type" until they reconnect, and code gets values of a different type. Code that sends values with the old type may fail with SQLSTATE 42804 or 42883; literals and parameters without a type are taken if the new type can read them.',
    safer: 'Add a column of the new type next to the old one until all code uses it.',
    find: (context) =>
      columnChanges(context, / TYPE /).map(({ object, sql }) => {
        const relation = withoutLastPart(object);
        const type = / TYPE (.*?)(?: USING .*| COLLATE .*)?$/s.exec(sql)?.[1] ?? '…';
        const refused = context.facts.catalogue.effects.refusedTypes.find((each) => each.object === object);
        const narrowed = narrowing(context, object) ?? (refused ? refusing(refused) : null);
        const finding = changeFinding(
          context,
          statementOfColumn(context, 'alter type', object),
          relation,
          `${object} becomes ${type}${narrowed === null ? '' : `: ${narrowed}`}`,
          sqlAdvice(
            'Keep the new column next to the old one until all code uses it:',
            `ALTER TABLE ${relation} ADD COLUMN ${displayName(`${bare(object)}_new`)} ${type}`,
          ),
        );
        return narrowed === null
          ? finding
          : {
              ...finding,
              severity: weighBreakage(context, relation),
              ...(refused
                ? { evidence: `${finding.evidence}; ${refused.message} (SQLSTATE ${refused.sqlstate})` }
                : {}),
            };
      }),
  },
  {
    code: 'NEW_COLUMN_REQUIRED',
    title: 'a new column must be written, and running code does not know it',
    condition:
      'A table that existed before gets a column that is NOT NULL and has no default at the end (it was dropped again, or there was none), and the command makes no trigger on the table that may fill it.',
    effect:
      'Each INSERT of code that does not name the column fails with SQLSTATE 23502 until that code is replaced.',
    safer:
      'Keep a DEFAULT until all running code writes the column, and drop it in a later migration (https://www.postgresql.org/docs/current/ddl-alter.html#DDL-ALTER-ADDING-A-COLUMN).',
    find: (context) => {
      const filled = new Set(context.actionsOn('create trigger').map(({ relation }) => relation));
      return context
        .changes('create', 'column')
        .filter(
          ({ sql, object }) =>
            / NOT NULL\b/.test(sql) &&
            !/ (?:DEFAULT|GENERATED) /.test(sql) &&
            context.relation(withoutLastPart(object)) !== undefined &&
            !filled.has(withoutLastPart(object)) &&
            !context.changed('drop', object) &&
            !context.changed('create', withoutLastPart(object)),
        )
        .map(({ object }) => {
          const relation = withoutLastPart(object);
          return {
            statement:
              context.actionsOn('add column').findLast(({ part }) => part === object)?.statement.index ??
              null,
            relation,
            severity: weighBreakage(context, relation),
            message: `each INSERT into ${relation} must name the new column ${lastPart(object)}`,
            evidence: relationEvidence(context, relation),
            advice: sqlAdvice(
              'Until all running code writes the column:',
              `ALTER TABLE ${relation} ALTER COLUMN ${lastPart(object)} SET DEFAULT …`,
            ),
          };
        });
    },
  },
  {
    code: 'NOT_NULL_DROPPED',
    title: 'a column becomes nullable before the code expects it',
    condition: 'DROP NOT NULL on a column of a table that existed before the command.',
    effect:
      'The first NULL breaks code that was never written for it, and the rollback fails as soon as there is one.',
    safer: 'First release code that handles NULLs everywhere, then DROP NOT NULL.',
    find: (context) =>
      columnChanges(context, / DROP NOT NULL\b/).map(({ object }) =>
        changeFinding(
          context,
          statementOfColumn(context, 'drop not null', object),
          withoutLastPart(object),
          `${object} becomes nullable`,
          'Release code that handles NULLs in this column before this migration.',
        ),
      ),
  },
  {
    code: 'JSON_COLUMN',
    title: 'a column has type json',
    condition: 'A column of type json is added to an existing table, or an existing column becomes json.',
    effect:
      'json has no equality operator: SELECT DISTINCT, GROUP BY and UNION on the table fail from then on.',
    safer: 'Use jsonb.',
    find: (context) =>
      [...context.actionsOn('add column'), ...context.actionsOn('alter type')]
        .filter(({ action }) => JSON_TYPE.test(action.type))
        .map(({ statement, relation, action, part }) =>
          changeFinding(
            context,
            statement.index,
            relation,
            `${part} is json, which cannot be compared`,
            sqlAdvice(
              'Instead:',
              action.does === 'add column'
                ? `ALTER TABLE ${relation} ADD COLUMN ${displayName(action.column)} jsonb`
                : `ALTER TABLE ${relation} ALTER COLUMN ${displayName(action.column)} TYPE jsonb`,
            ),
          ),
        ),
  },
  {
    code: 'REPLICA_IDENTITY_CHANGED',
    title: 'the replica identity is changed',
    condition: 'REPLICA IDENTITY is set for a table that existed before the command.',
    effect:
      'With NOTHING, published UPDATEs and DELETEs fail; with FULL, every old row is written to the WAL; subscribers may no longer find the rows.',
    safer: 'Use a unique index on NOT NULL columns: REPLICA IDENTITY USING INDEX.',
    find: (context) =>
      context
        .actionsOn('replica identity')
        .map(({ statement, relation }) =>
          changeFinding(
            context,
            statement.index,
            relation,
            `rows of ${relation} are replicated by a different identity`,
            sqlAdvice('If subscribers need it:', `ALTER TABLE ${relation} REPLICA IDENTITY USING INDEX …`),
          ),
        ),
  },
];

function renamed(
  words: HazardTexts,
  kinds: readonly string[],
  adviceOf: (from: string, to: string) => string,
  relationOf: (from: string, to: string) => string | null,
): HazardRecord {
  return {
    ...words,
    find: (context) => {
      return (context.facts.schema?.renames ?? [])
        .filter(({ kind }) => kinds.includes(kind))
        .map(({ from, to }): Finding => {
          const relation = relationOf(from, to);
          const isTable = relation !== null && context.relation(relation) !== undefined;
          // What the view does not take, the probes find.
          const isKept = (context.facts.schema?.changes ?? []).some(
            ({ verb, kind, object }) => kind === 'view' && verb !== 'drop' && object === from,
          );
          return {
            statement:
              renamingStatement(context, from, to) ??
              (relation === null ? null : indexOfCode(context, relation, bare(lastPart(from)))),
            relation,
            severity: isKept ? 'notice' : isTable ? weighBreakage(context, relation) : 'warning',
            message: `${from} is renamed to ${to}${isKept ? ', and a view has its name' : ''}`,
            evidence: isTable ? relationEvidence(context, relation) : 'it is not known who uses it',
            advice: adviceOf(from, to),
          };
        });
    },
  };
}

/** The statement that gave an object its last name, or moved it; null if a function did. */
function renamingStatement(context: HazardContext, from: string, to: string): number | null {
  const values = context
    .actionsOf('rename value')
    .filter(
      ({ action }) =>
        action.to === bare(to) && displayName(action.type.name) === lastPart(withoutLastPart(from)),
    );
  const found = context.actionsOf('rename').filter(({ action, statement }) => {
    if (action.table === null) return false;
    const isName = displayName(action.to) === lastPart(to);
    if (action.column !== null) {
      const tables = [withoutLastPart(from), withoutLastPart(to)].map(lastPart);
      return isName && tables.includes(displayName(action.table.name));
    }
    const relation = context.resolve(action.table, statement);
    const isMoved = displayName(action.to) === withoutLastPart(to);
    return (isName || isMoved) && [from, to].some((name) => lastPart(name) === lastPart(relation));
  });
  return (found.at(-1) ?? values.at(-1))?.statement.index ?? null;
}

/** Changes of columns that existed before, in tables that existed before. */
function columnChanges(context: HazardContext, sql: RegExp): SchemaChange[] {
  return context
    .changes('alter', 'column')
    .filter(
      (change) => sql.test(change.sql) && context.relation(withoutLastPart(change.object)) !== undefined,
    );
}

/** Finds the statement that changed a column, by its name or else by what it locked. */
export function statementOfColumn(
  context: HazardContext,
  does: 'alter type' | 'drop not null',
  object: string,
): number | null {
  const named = context.actionsOn(does).find(({ part }) => part === object);
  return named?.statement.index ?? indexOfCode(context, withoutLastPart(object), bare(lastPart(object)));
}

function refusing({ from, stored }: RefusedType): string {
  return `it ${stored ? 'refuses' : 'no longer compares with'} values that code sends as ${from}`;
}

const WHOLE_NUMBERS = ['smallint', 'integer', 'bigint'];
/** Digits that a value of the type keeps for sure. */
const FLOATS: Readonly<Record<string, number>> = { real: 6, 'double precision': 15 };

/** Most digits of a number of the type; 0: not a number. */
function digitsOf(type: string): number {
  const digits = { smallint: 5, integer: 10, bigint: 19, numeric: Number.POSITIVE_INFINITY, ...FLOATS }[type];
  return digits ?? Number(type.match(/^numeric\((\d+)/)?.[1] ?? 0);
}

/** Describes the values that a column can no longer store; null: none are known. */
function narrowing(context: HazardContext, object: string): string | null {
  const found = context.facts.catalogue.definitions.retyped.find((each) => each.object === object);
  if (!found) return null;
  const [then, now] = [found.from, found.to].map((type) => WHOLE_NUMBERS.indexOf(type));
  if (then !== undefined && now !== undefined && now >= 0 && now < then)
    return `${found.from} before, whose greater values are refused from now on`;
  const kept = FLOATS[found.to];
  if (kept !== undefined && digitsOf(found.from) > kept)
    return `${found.from} before; ${found.to} keeps only ${kept} digits of a value`;
  return found.from.endsWith(' with time zone') && found.to.endsWith(' without time zone')
    ? 'the moment that a value means then depends on the time zone of the session that reads or writes it'
    : null;
}
