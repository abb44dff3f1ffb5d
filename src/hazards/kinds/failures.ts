import { plural } from '../../format.ts';
import type { Hazard, StatementSection } from '../../model/report.ts';
import type { Action } from '../../model/statement-actions.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';

/** Statements that failed on the clone because of the existing rows, or of how they were run. */
export const FAILURES: readonly HazardRecord[] = [
  {
    code: 'CONCURRENTLY_IN_TRANSACTION',
    title: 'CONCURRENTLY is refused inside a transaction',
    condition: 'A statement with CONCURRENTLY failed with SQLSTATE 25001.',
    effect: 'The migration stops there; statements that were committed before it are kept.',
    safer: 'Tell the migration tool to run this migration without a transaction.',
    find: (context) =>
      failed(context, '25001')
        .filter((statement) =>
          context.actions(statement).some((action) => 'concurrently' in action && action.concurrently),
        )
        .map((statement) =>
          failure(
            context,
            statement,
            'CONCURRENTLY cannot run inside a transaction, and the migration opened one',
            'Mark the migration as not transactional (Rails disable_ddl_transaction!, Django atomic = False, Flyway executeInTransaction=false, Alembic autocommit_block(), …).',
          ),
        ),
  },
  {
    code: 'NOT_NULL_WITHOUT_DEFAULT',
    title: 'a NOT NULL column without a default cannot be added to a table with rows',
    condition: 'ADD COLUMN … NOT NULL without a DEFAULT failed with SQLSTATE 23502.',
    effect: 'The migration fails on every table with rows, although it passed on empty ones.',
    safer:
      'Add it with a constant DEFAULT, which is instant; or add it nullable, fill it, and SET NOT NULL at the end.',
    find: (context) =>
      failed(context, '23502').flatMap((statement) =>
        unfilledColumns(context, statement).map(({ action }) => {
          const relation = context.resolve(action.table, statement);
          return {
            ...failure(
              context,
              statement,
              `${relation} has rows, in which the new column ${displayName(action.column)} would be NULL`,
              sqlAdvice(
                'With a constant default it is instant:',
                `ALTER TABLE ${relation} ADD COLUMN ${displayName(action.column)} ${action.type} NOT NULL DEFAULT …`,
              ),
            ),
            relation,
            evidence: `${errorOf(statement)}; ${relationEvidence(context, relation)}`,
          };
        }),
      ),
  },
  {
    code: 'DEFAULT_NOT_CONVERTED',
    title: 'the default of a column cannot be converted to its new type',
    condition:
      'ALTER COLUMN … TYPE failed with SQLSTATE 42804 without a hint of the server, which it gives if the values are the reason.',
    effect:
      'The migration stops there. USING is for the values of the rows; the default is converted by an assignment cast, which text and an enum, for example, do not have.',
    safer:
      'Drop the default, change the type, and set the default again, in one ALTER TABLE (https://www.postgresql.org/docs/current/sql-altertable.html).',
    find: (context) =>
      failed(context, '42804')
        .filter(({ error }) => error?.hint === null)
        .flatMap((statement) => {
          const all = context.actionsIn(statement, 'alter type');
          const [first] = all;
          if (!first) return [];
          const relation = context.resolve(first.action.table, statement);
          const isOne = all.length === 1;
          const column = isOne ? displayName(first.action.column) : '…';
          const type = isOne ? first.action.type : '…';
          const using = { assignment: '', cast: ` USING ${column}::${type}`, expression: ' USING …' };
          return [
            failure(
              context,
              statement,
              `the default of ${isOne ? `${relation}.${column}` : `a column of ${relation}`} cannot be converted to its new type`,
              sqlAdvice(
                'In one statement:',
                `ALTER TABLE ${relation} ALTER COLUMN ${column} DROP DEFAULT, ALTER COLUMN ${column} TYPE ${type}${using[first.action.conversion]}, ALTER COLUMN ${column} SET DEFAULT …`,
              ),
            ),
          ];
        }),
  },
  {
    code: 'UNIQUE_OVER_DUPLICATES',
    title: 'a unique index cannot be built because of duplicates',
    condition:
      'CREATE UNIQUE INDEX, ADD UNIQUE or ADD PRIMARY KEY failed with SQLSTATE 23505; or a DO block with EXCEPTION passed over that failure: the statement, tried once more on the clone, fails.',
    effect:
      'The migration fails, or succeeds without the index; a concurrent build leaves an INVALID index behind, which still slows down writes.',
    safer: 'Find and merge the duplicates first, and prevent new ones in the meantime.',
    find: (context) => [
      ...swallowed(context, (sqlstate) => sqlstate === '23505', 'has duplicates'),
      ...failed(context, '23505').flatMap((statement) => {
        const action = context.actions(statement).find(isUnique);
        if (!action) return [];
        const relation = context.resolve(action.table, statement);
        const columns = (action.columns ?? []).map((column) =>
          column === null ? null : displayName(column),
        );
        const isNamed = columns.length > 0 && !columns.includes(null);
        const key = isNamed ? columns.join(', ') : '…';
        const where = action.does === 'create index' && action.partial ? ' WHERE …' : '';
        return [
          violation(
            context,
            statement,
            relation,
            `${relation} has duplicates${isNamed ? ` of (${key})` : ''}`,
            sqlAdvice(
              'Find them:',
              `SELECT ${key}, count(*) FROM ${relation}${where} GROUP BY ${key} HAVING count(*) > 1`,
            ),
          ),
        ];
      }),
    ],
  },
  {
    code: 'ENUM_VALUE_USED_AT_ONCE',
    title: 'an enum value is used in the transaction that adds it',
    condition: 'A statement failed with SQLSTATE 55P04.',
    effect:
      'ALTER TYPE … ADD VALUE can run in a transaction, but the value cannot be used before the commit: the migration fails.',
    safer:
      'Add the value in a migration of its own, and use it in the next one (https://www.postgresql.org/docs/current/sql-altertype.html).',
    find: (context) =>
      failed(context, '55P04').map((statement) =>
        failure(
          context,
          statement,
          'the new enum value is used before its transaction is committed',
          'Commit right after ALTER TYPE … ADD VALUE, and use the value in a later transaction.',
        ),
      ),
  },
  {
    code: 'ROWS_VIOLATE_CONSTRAINT',
    title: 'existing rows violate a new constraint',
    condition:
      'ADD CONSTRAINT, VALIDATE CONSTRAINT, ALTER CONSTRAINT … ENFORCED, SET NOT NULL, ALTER DOMAIN or ATTACH PARTITION failed with SQLSTATE 23502, 23503, 23514 or 23P01; or a DO block with EXCEPTION passed over that failure of a constraint.',
    effect: 'The migration fails on this data, although it passed on other data.',
    safer: 'Add it NOT VALID, so that no more such rows are written; fix the existing ones; then validate.',
    find: (context) => [
      ...swallowed(context, (sqlstate) => sqlstate !== '23505', 'has rows that violate the new constraint'),
      ...failed(context, '23502', '23503', '23514', '23P01').flatMap((statement): Finding[] => {
        const isTold =
          statement.error?.sqlstate === '23502' && unfilledColumns(context, statement).length > 0;
        if (isTold || !context.actions(statement).some(isRule)) return [];
        const relation = subjectOf(context, statement) ?? 'a table';
        const nulls = nullsOf(context, statement);
        const [message, advice] = nulls ?? violatedWords(relation);
        return [violation(context, statement, relation, message, advice)];
      }),
    ],
  },
];

const violatedWords = (relation: string) =>
  [
    `rows of ${relation} violate the new constraint`,
    'Add it NOT VALID, fix the rows in batches, and VALIDATE CONSTRAINT at the end.',
  ] as const;

/** Message and advice if the rows with NULL were counted. */
function nullsOf({ facts }: HazardContext, { index }: StatementSection) {
  const nulls = facts.catalogue.effects.nullRows.find(({ statement }) => statement === index);
  if (nulls === undefined) return undefined;
  const { relation, column, rows } = nulls;
  const counted = `${plural(rows, 'row')} of ${relation}`;
  return [
    `${counted} ${rows === 1 ? 'has' : 'have'} NULL in ${column}`,
    sqlAdvice(
      `Fill or delete the ${counted} with NULL in ${column} first, and rehearse again:`,
      `SELECT * FROM ${relation} WHERE ${column} IS NULL LIMIT 20`,
      `UPDATE ${relation} SET ${column} = … WHERE ${column} IS NULL`,
    ),
  ] as const;
}

/** Tells if a hazard says why this statement failed. */
export function explainsFailure(
  { code, statement }: Pick<Hazard, 'code' | 'statement'>,
  failed: StatementSection | undefined,
): boolean {
  return failed !== undefined && statement === failed.index && FAILURES.some((each) => each.code === code);
}

/** New columns that are NOT NULL and would be NULL in each row. */
function unfilledColumns(context: HazardContext, statement: StatementSection) {
  return context
    .actionsIn(statement, 'add column')
    .filter(({ action }) => action.notNull && !action.hasDefault);
}

function failed({ facts }: HazardContext, ...sqlstates: string[]): StatementSection[] {
  return facts.statements.filter(({ error }) => error !== null && sqlstates.includes(error.sqlstate));
}

/** Failures that a DO block passes over. */
function swallowed(
  { facts }: HazardContext,
  isAsked: (sqlstate: string) => boolean,
  what: string,
): Finding[] {
  return facts.catalogue.effects.swallowed
    .filter(({ sqlstate }) => isAsked(sqlstate))
    .map(({ statement, relation, message, sqlstate }) => ({
      statement,
      relation,
      severity: 'warning',
      message: `${relation ?? 'a table'} ${what}, and the DO block passes over the error`,
      evidence: `${message} (SQLSTATE ${sqlstate}), tried on the clone after the command`,
      advice:
        'Catch only the errors that are meant (WHEN duplicate_table, duplicate_object), and fix the rows first.',
    }));
}

/** If the command itself reports the failure, it does not pass anyway, and the hazard only says why. */
function failure(
  context: HazardContext,
  statement: StatementSection,
  message: string,
  advice: string,
): Finding {
  return {
    statement: statement.index,
    relation: subjectOf(context, statement),
    severity: context.facts.command.exitCode === 0 ? 'error' : 'warning',
    message,
    evidence: errorOf(statement),
    advice,
  };
}

export function errorOf({ error }: StatementSection): string {
  return error ? `${error.message} (SQLSTATE ${error.sqlstate})` : '';
}

function violation(
  context: HazardContext,
  statement: StatementSection,
  relation: string,
  message: string,
  advice: string,
): Finding {
  const detail = statement.error?.detail;
  const evidence = `${errorOf(statement)}${detail ? `: ${detail}` : ''}; ${relationEvidence(context, relation)}`;
  return { ...failure(context, statement, message, advice), relation, evidence };
}

type Unique = Extract<Action, { does: 'create index' | 'add constraint' }>;

function isUnique(action: Action): action is Unique {
  return (
    (action.does === 'create index' && action.unique) ||
    (action.does === 'add constraint' && (action.kind === 'unique' || action.kind === 'primary key'))
  );
}

const RULES = new Set<Action['does']>([
  'add constraint',
  'validate constraint',
  'enforce constraint',
  'set not null',
  'alter domain',
  'attach partition',
]);

function isRule(action: Action): boolean {
  return RULES.has(action.does);
}

/** The table that the server names in the error, or the first one of the statement. */
export function subjectOf(context: HazardContext, statement: StatementSection): string | null {
  const { error } = statement;
  if (error?.table) return displayName(error.schema ?? 'public', error.table);
  const action = context.actions(statement).find((each) => 'table' in each);
  return action && 'table' in action && action.table ? context.resolve(action.table, statement) : null;
}
