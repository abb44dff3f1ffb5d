import type { ActionOf } from '../../model/statement-actions.ts';
import { bare, displayName } from '../../postgres/sql/quote.ts';
import { notNullSteps, notValidSteps } from '../../postgres/sql/safer-constraints.ts';
import { locksEvidence } from '../evidence.ts';
import type { HazardContext, RelationAction, StatementAction } from '../hazard-context.ts';
import { blocking, type Finding, type HazardRecord, lockFinding, sqlAdvice } from '../hazard-definition.ts';
import { isNumbered } from './rewrite-causes.ts';

type NewConstraint = ActionOf<'add constraint'>;

/** Tables that are read as a whole, while other sessions are blocked, to check a new constraint. */
export const SCANS: readonly HazardRecord[] = [
  blocking({
    code: 'CHECK_SCANS_TABLE',
    title: 'a CHECK reads the whole table while reads and writes wait',
    condition: 'ADD CHECK without NOT VALID on a table that existed before the command.',
    effect: 'ACCESS EXCLUSIVE is held on the table while every row is checked.',
    safer:
      'Add it NOT VALID, then VALIDATE CONSTRAINT in a transaction of its own, which does not block reads and writes.',
    does: 'add constraint',
    when: ({ action }) => action.kind === 'check' && !action.notValid,
    messageOf: ({ relation }) => `reads and writes of ${relation} wait while every row is checked`,
    adviceOf: (found) => notValidFirst(found, 'check', 'CHECK (…)'),
  }),
  {
    code: 'FOREIGN_KEY_SCANS_TABLE',
    title: 'a FOREIGN KEY reads the whole table while writes to both tables wait',
    condition: 'ADD FOREIGN KEY without NOT VALID on a table that existed before the command.',
    effect:
      'SHARE ROW EXCLUSIVE is held on both tables while every row is looked up in the referenced table.',
    safer:
      'Add it NOT VALID, then VALIDATE CONSTRAINT in a transaction of its own, which does not block reads and writes.',
    find: (context) =>
      context
        .actionsOn('add constraint')
        .filter(({ action }) => action.kind === 'foreign key' && !action.notValid)
        .filter((found) => !isOfEmptyColumn(context, found))
        .map((found) => {
          const { statement, relation, action } = found;
          const other = action.references && context.resolve(action.references, statement);
          const both = context.existing([relation, ...(other ? [other] : [])]);
          const locks = both.flatMap((each) => context.held(statement, each) ?? []);
          const finding = lockFinding(
            context,
            statement,
            relation,
            `writes to ${both.join(' and ')} wait while the FOREIGN KEY of every row is looked up`,
            notValidFirst(
              found,
              'fkey',
              `FOREIGN KEY (${action.columns.map((each) => displayName(each)).join(', ')}) REFERENCES ${other ?? '…'}`,
            ),
          );
          return locks.length === 0 ? finding : { ...finding, evidence: locksEvidence(context, locks) };
        }),
  },
  blocking({
    code: 'ENFORCED_SCANS_TABLE',
    title: 'a constraint that is enforced again reads the whole table while other sessions wait',
    condition:
      'ALTER CONSTRAINT … ENFORCED on a table that existed before the command: a FOREIGN KEY from PostgreSQL 18 on, a CHECK from 19 on.',
    effect: 'The lock of ALTER TABLE is held on the table while every row is checked.',
    safer:
      'Add an equal constraint NOT VALID under another name, VALIDATE it in a transaction of its own, and drop the one that is not enforced.',
    does: 'enforce constraint',
    messageOf: ({ relation }) => `sessions that need ${relation} wait while every row is checked`,
    adviceOf: ({ relation, action: { constraint } }) =>
      sqlAdvice(
        'Each in a transaction of its own, with the definition of the old one:',
        ...notValidSteps(relation, displayName(`${constraint}_enforced`), '…'),
        `ALTER TABLE ${relation} DROP CONSTRAINT ${displayName(constraint)}`,
      ),
  }),
  {
    code: 'SET_NOT_NULL_SCANS_TABLE',
    title: 'SET NOT NULL reads the whole table while reads and writes wait',
    condition: 'SET NOT NULL on a column for which no validated CHECK proves that it has no NULLs.',
    effect: 'ACCESS EXCLUSIVE is held on the table while every row is checked.',
    safer:
      'Add CHECK (column IS NOT NULL) NOT VALID, VALIDATE CONSTRAINT, and then SET NOT NULL, which reads nothing.',
    find: (context) =>
      [
        ...context.actionsOn('set not null').map((found) => ({
          ...found,
          column: found.action.column,
        })),
        ...context
          .actionsOn('add constraint')
          .filter(({ action }) => action.kind === 'not null' && !action.notValid && !action.ofNewColumn)
          .map((found) => ({ ...found, column: found.action.columns[0] ?? '' })),
      ]
        .filter(
          ({ statement, relation, column }) =>
            isNews(context, relation, column) && !isProven(context, statement.index, relation, column),
        )
        .map(({ statement, relation, column }) =>
          lockFinding(
            context,
            statement,
            relation,
            `reads and writes of ${relation} wait while ${displayName(column)} is searched for NULLs`,
            sqlAdvice(
              'Prove it first, each in a transaction of its own:',
              ...notNullSteps(relation, displayName(column)),
            ),
          ),
        ),
  },
  {
    code: 'DOMAIN_CONSTRAINT_SCANS_TABLES',
    title: "a domain's constraint reads every table that uses it",
    condition:
      'ALTER DOMAIN adds or validates a constraint, and holds a lock that blocks writes on tables that use the domain.',
    effect:
      'SHARE is held on every table that has a column of the domain while all their rows are checked, by VALIDATE CONSTRAINT as well.',
    safer: 'Add it NOT VALID, which applies to new values at once; validate it when writes may wait.',
    find: (context) =>
      context
        .actionsOf('alter domain')
        .flatMap(({ statement }): Finding[] =>
          context
            .taken(statement, 'writes')
            .map(({ relation }) =>
              lockFinding(
                context,
                statement,
                relation,
                `writes to ${relation} wait while a constraint of its domain is checked for every row`,
                sqlAdvice(
                  'Add it NOT VALID, and validate it at a time of little traffic:',
                  ...(context.saferText(statement, 'not valid') ?? [
                    'ALTER DOMAIN … ADD CONSTRAINT … CHECK (…) NOT VALID',
                  ]),
                ),
              ),
            ),
        ),
  },
  {
    code: 'ATTACH_PARTITION_SCANS_TABLE',
    title: 'ATTACH PARTITION reads the whole table',
    condition:
      'ATTACH PARTITION of a table with rows, or next to a DEFAULT partition with rows, without a validated CHECK.',
    effect: 'The table and the DEFAULT partition are read as a whole under ACCESS EXCLUSIVE.',
    safer: 'First add a CHECK that implies the bounds, NOT VALID, and validate it; drop it afterwards.',
    find: (context) =>
      context.actionsOf('attach partition').flatMap(({ statement, action }) => {
        const partition = context.resolve(action.partition, statement);
        return [...new Set([partition, ...context.taken(statement, 'reads').map(({ relation }) => relation)])]
          .filter((relation) => context.relation(relation) && context.relation(relation)?.rows !== 0)
          .filter((relation) => !isChecked(context, statement.index, relation))
          .map((relation) =>
            lockFinding(
              context,
              statement,
              relation,
              `reads and writes of ${relation} wait while the whole table is read, to check that its rows ${relation === partition ? 'fit the partition' : 'do not belong to the new partition'}`,
              sqlAdvice(
                'Prove it first, with the bounds of the partition:',
                ...notValidSteps(relation, displayName(`${bare(relation)}_bounds`), 'CHECK (…)'),
              ),
            ),
          );
      }),
  },
];

function notValidFirst(found: RelationAction<'add constraint'>, suffix: string, template: string): string {
  const { action, relation, context, statement } = found;
  const name = displayName(action.constraint ?? [bare(relation), ...action.columns, suffix].join('_'));
  const [add, validate] = notValidSteps(relation, name, template);
  const own = context.saferText(statement, 'not valid') ?? [add];
  return sqlAdvice('Each in a transaction of its own:', ...own, validate);
}

/** Tells if the constraint is on a new column without a default: it holds only NULLs, which PostgreSQL does not look up for a FOREIGN KEY. */
export function isOfEmptyColumn(
  context: HazardContext,
  { statement, action }: StatementAction<'add constraint'>,
): boolean {
  return (
    action.ofNewColumn &&
    context
      .actionsIn(statement, 'add column')
      .some((added) => added.action.column === action.columns[0] && !added.action.hasDefault)
  );
}

/**
 * Tells if the column was nullable when the statement began: according to the schema comparison if there is one, and for a new
 * column according to the statement that added it. A new column is filled by then, and its rows are read like any others.
 */
export function isNews(context: HazardContext, relation: string, column: string): boolean {
  const name = `${relation}.${displayName(column)}`;
  if (context.facts.schema === null || context.changed('alter', name)) return true;
  if (!context.changed('create', name)) return false;
  return context
    .actionsOn('add column')
    .some(
      ({ relation: table, action }) =>
        table === relation && action.column === column && !action.notNull && !isNumbered(action),
    );
}

/** Tells if a CHECK that is valid by then proves that the column has no NULLs. */
export function isProven(context: HazardContext, before: number, relation: string, column: string): boolean {
  return validChecks(context, before, relation).some(({ provesNotNull }) => provesNotNull.includes(column));
}

/** Tells if the relation has a CHECK that is valid by then. */
export function isChecked(context: HazardContext, before: number, relation: string): boolean {
  return validChecks(context, before, relation).length > 0;
}

/** CHECK constraints that are valid for all rows of a relation when a statement begins: old ones, and those of this command. */
function validChecks(
  context: HazardContext,
  before: number,
  relation: string,
): Pick<NewConstraint, 'provesNotNull'>[] {
  const isEarlier = (found: { relation: string; statement: { index: number } }) =>
    found.relation === relation && found.statement.index < before;
  const validated = new Set(
    context
      .actionsOn('validate constraint')
      .filter(isEarlier)
      .map(({ action }) => action.constraint),
  );
  const old = context.facts.catalogue.checks.filter(
    (check) => check.relation === relation && (check.validated || validated.has(check.constraint)),
  );
  const own = context
    .actionsOn('add constraint')
    .filter(isEarlier)
    .map(({ action }) => action)
    .filter(
      ({ kind, notValid, constraint }) => kind === 'check' && (!notValid || validated.has(constraint ?? '')),
    );
  return [...old, ...own];
}
