import type { SchemaChange, StatementSection } from '../../model/report.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type HazardRecord, type HazardTexts, metOn, sqlAdvice } from '../hazard-definition.ts';
import { milder, weighBreakage } from '../severity.ts';
import { bare, lastPart, withoutLastPart } from './names.ts';

/** What the code that is running, or that depends on the tables, does not expect. */
const JSON_TYPE = /^json(\[\])*$/;

export const APPLICATION: readonly HazardRecord[] = [
  renamed(
    {
      code: 'TABLE_RENAMED',
      title: 'a table or view is renamed',
      condition: 'A table, view or sequence that was there before has another name or schema.',
      effect: 'Code that uses the old name fails from the commit on, until all of it is replaced.',
      safer: 'Leave a view under the old name until no code uses it.',
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
      condition: 'A column that was there before has another name.',
      effect: 'Code that uses the old name fails from the commit on, until all of it is replaced.',
      safer:
        'A new column, kept equal by a trigger, until no code uses the old one; or a view with both names.',
    },
    ['column'],
    (from, to) =>
      sqlAdvice(
        'Have both until no code uses the old one, kept equal by a trigger:',
        `ALTER TABLE ${withoutLastPart(from)} ADD COLUMN ${lastPart(to)} …`,
      ),
    (_from, to) => withoutLastPart(to),
  ),
  renamed(
    {
      code: 'ENUM_VALUE_RENAMED',
      title: 'a value of an enum is renamed',
      condition: 'A value of an enum type that was there before is called otherwise.',
      effect:
        'Code that writes or compares with the old value fails with SQLSTATE 22P02, and code that reads meets one that it does not know.',
      safer: 'Add the new value, let all code know both, change the rows, and leave the old value unused.',
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
    condition: 'A column of a table that was there before has another type.',
    effect:
      'Sessions that have prepared a query of it fail with "cached plan must not change result type" until they connect anew, and code meets values of another type.',
    safer: 'A new column of the new type beside the old one, until all code uses it.',
    find: (ground) => {
      const statements = askers(ground, 'alter type');
      return columnChanges(ground, / TYPE /).map(({ object, sql }) => {
        const relation = withoutLastPart(object);
        const type = / TYPE (.*?)(?: USING .*| COLLATE .*)?$/s.exec(sql)?.[1] ?? '…';
        return {
          statement: statements.get(object) ?? null,
          relation,
          severity: milder(weighBreakage(ground, relation)),
          message: `${object} becomes ${type}`,
          evidence: relationEvidence(ground, relation),
          advice: sqlAdvice(
            'Put the new column beside the old one until all code uses it:',
            `ALTER TABLE ${relation} ADD COLUMN ${displayName(`${bare(object)}_new`)} ${type}`,
          ),
        };
      });
    },
  },
  {
    code: 'NOT_NULL_DROPPED',
    title: 'a column may be NULL before the code expects it',
    condition: 'DROP NOT NULL on a column of a table that was there before the command.',
    effect:
      'The first NULL breaks code that was never written for it, and the way back fails as soon as there is one.',
    safer: 'First release code that can take NULLs everywhere, then DROP NOT NULL.',
    find: (ground) => {
      const statements = askers(ground, 'drop not null');
      return columnChanges(ground, / DROP NOT NULL\b/).map(({ object }) => {
        const relation = withoutLastPart(object);
        return {
          statement: statements.get(object) ?? null,
          relation,
          severity: milder(weighBreakage(ground, relation)),
          message: `${object} may be NULL from now on`,
          evidence: relationEvidence(ground, relation),
          advice: 'Release code that can take NULLs in this column before this migration.',
        };
      });
    },
  },
  {
    code: 'JSON_COLUMN',
    title: 'a column of type json',
    condition: 'A column of a table that was there before is added as json, or becomes json.',
    effect: 'json has no equality: SELECT DISTINCT, GROUP BY and UNION over the table fail from then on.',
    safer: 'jsonb.',
    find: (ground) =>
      [...metOn(ground, 'add column'), ...metOn(ground, 'alter type')]
        .filter(({ action }) => JSON_TYPE.test(action.type))
        .map(({ statement, relation, action }) => ({
          statement: statement.index,
          relation,
          severity: milder(weighBreakage(ground, relation)),
          message: `${relation}.${displayName(action.column)} is json, which cannot be compared`,
          evidence: relationEvidence(ground, relation),
          advice: sqlAdvice(
            'Instead:',
            action.does === 'add column'
              ? `ALTER TABLE ${relation} ADD COLUMN ${displayName(action.column)} jsonb`
              : `ALTER TABLE ${relation} ALTER COLUMN ${displayName(action.column)} TYPE jsonb`,
          ),
        })),
  },
  {
    code: 'REPLICA_IDENTITY_CHANGED',
    title: 'the replica identity is changed',
    condition: 'REPLICA IDENTITY of a table that was there before the command.',
    effect:
      'With NOTHING, published UPDATEs and DELETEs fail; with FULL every old row goes into the WAL; subscribers may not find the rows any more.',
    safer: 'A unique index over NOT NULL columns: REPLICA IDENTITY USING INDEX.',
    find: (ground) =>
      metOn(ground, 'replica identity').map(({ statement, relation }) => {
        return {
          statement: statement.index,
          relation,
          severity: milder(weighBreakage(ground, relation)),
          message: `${relation} is replicated by other columns from now on`,
          evidence: relationEvidence(ground, relation),
          advice: sqlAdvice(
            'Where subscribers need it:',
            `ALTER TABLE ${relation} REPLICA IDENTITY USING INDEX …`,
          ),
        };
      }),
  },
];

function renamed(
  words: HazardTexts,
  kinds: readonly string[],
  advises: (from: string, to: string) => string,
  relationOf: (from: string, to: string) => string | null,
): HazardRecord {
  return {
    ...words,
    find: (ground) => {
      const statements = renamingStatements(ground);
      return (ground.facts.schema?.renames ?? [])
        .filter(({ kind }) => kinds.includes(kind))
        .map(({ from, to }) => {
          const relation = relationOf(from, to);
          const isTable = relation !== null && ground.relation(relation) !== undefined;
          return {
            // The text has both names.
            statement: statements.find(({ sql }) => hasName(sql, from) && hasName(sql, to))?.index ?? null,
            relation,
            severity: isTable ? weighBreakage(ground, relation) : ('warning' as const),
            message: `${from} is called ${to} from now on`,
            evidence: isTable ? relationEvidence(ground, relation) : 'who uses it is not known',
            advice: advises(from, to),
          };
        });
    },
  };
}

function renamingStatements(ground: HazardContext): StatementSection[] {
  return ground.met('rename').map(({ statement }) => statement);
}

function hasName(sql: string, name: string): boolean {
  return sql.includes(bare(name)) || sql.includes(bare(withoutLastPart(name)));
}

/** Changes of columns that were there before, in tables that were there before. */
function columnChanges(ground: HazardContext, sql: RegExp): SchemaChange[] {
  return (ground.facts.schema?.changes ?? []).filter(
    (change) =>
      change.verb === 'alter' &&
      change.kind === 'column' &&
      sql.test(change.sql) &&
      ground.relation(withoutLastPart(change.object)) !== undefined,
  );
}

/** The statements that ask for it, by the column: `public.orders.email`. */
function askers(ground: HazardContext, does: 'alter type' | 'drop not null'): ReadonlyMap<string, number> {
  return new Map(
    metOn(ground, does)
      .toReversed()
      .map(({ relation, action, statement }) => [
        `${relation}.${displayName(action.column)}`,
        statement.index,
      ]),
  );
}
