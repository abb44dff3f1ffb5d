import type { ActionOf } from '../../model/hazard-facts.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { locksEvidence } from '../evidence.ts';
import type { HazardContext, Met } from '../hazard-context.ts';
import {
  blocking,
  type Finding,
  type HazardRecord,
  lockFinding,
  type MetOn,
  metOn,
  ownWords,
  sqlAdvice,
} from '../hazard-definition.ts';
import { notNullSteps } from './builds.ts';
import { bare } from './names.ts';
import { isNumbered } from './rewrites.ts';

type NewConstraint = ActionOf<'add constraint'>;

/** Tables that are read from end to end while others are kept out, to see whether a new rule holds. */
export const SCANS: readonly HazardRecord[] = [
  blocking({
    code: 'CHECK_SCANS_TABLE',
    title: 'a CHECK reads the whole table while reads and writes wait',
    condition: 'ADD CHECK without NOT VALID on a table that was there before the command.',
    effect: 'ACCESS EXCLUSIVE is held on the table while every row is looked at.',
    safer:
      'Add it NOT VALID, then VALIDATE CONSTRAINT in a transaction of its own, which lets reads and writes on.',
    does: 'add constraint',
    when: ({ action }) => action.kind === 'check' && !action.notValid,
    says: ({ relation }) => `reads and writes of ${relation} wait while a CHECK is tested on every row`,
    advises: (met) => notValidFirst(met, 'check', 'CHECK (…)'),
  }),
  {
    code: 'FOREIGN_KEY_SCANS_TABLE',
    title: 'a FOREIGN KEY reads the whole table while writes to both tables wait',
    condition: 'ADD FOREIGN KEY without NOT VALID on a table that was there before the command.',
    effect: 'SHARE ROW EXCLUSIVE is held on both tables while every row is looked up in the other.',
    safer:
      'Add it NOT VALID, then VALIDATE CONSTRAINT in a transaction of its own, which lets reads and writes on.',
    find: (ground) =>
      metOn(ground, 'add constraint')
        .filter(({ action }) => action.kind === 'foreign key' && !action.notValid)
        .filter((met) => !isOfEmptyColumn(ground, met))
        .map((met) => {
          const { statement, relation, action } = met;
          const other = action.references && ground.resolve(action.references, statement);
          const locks = [relation, ...(other ? [other] : [])].flatMap(
            (each) => ground.held(statement, each) ?? [],
          );
          const finding = lockFinding(
            ground,
            statement,
            relation,
            `writes to ${relation}${other ? ` and ${other}` : ''} wait while every row's FOREIGN KEY is looked up`,
            notValidFirst(
              met,
              'fkey',
              `FOREIGN KEY (${action.columns.map((each) => displayName(each)).join(', ')}) REFERENCES ${other ?? '…'}`,
            ),
          );
          return locks.length === 0 ? finding : { ...finding, evidence: locksEvidence(ground, locks) };
        }),
  },
  {
    code: 'SET_NOT_NULL_SCANS_TABLE',
    title: 'SET NOT NULL reads the whole table while reads and writes wait',
    condition: 'SET NOT NULL on a column for which no validated CHECK says that it is not null.',
    effect: 'ACCESS EXCLUSIVE is held on the table while every row is looked at.',
    safer:
      'CHECK (column IS NOT NULL) NOT VALID, VALIDATE CONSTRAINT, and then SET NOT NULL, which reads nothing.',
    find: (ground) =>
      [
        ...metOn(ground, 'set not null').map((met) => ({
          ...met,
          column: met.action.column,
        })),
        ...metOn(ground, 'add constraint')
          .filter(({ action }) => action.kind === 'not null' && !action.notValid && !action.ofNewColumn)
          .map((met) => ({ ...met, column: met.action.columns[0] ?? '' })),
      ]
        .filter(
          ({ statement, relation, column }) =>
            isNews(ground, relation, column) && !isProven(ground, statement.index, relation, column),
        )
        .map(({ statement, relation, column }) =>
          lockFinding(
            ground,
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
      'ALTER DOMAIN adds or validates a constraint, and holds a lock that keeps out writes on tables that use the domain.',
    effect:
      'SHARE is held on every table that has a column of the domain while all their rows are looked at, by VALIDATE CONSTRAINT too before PostgreSQL 18.',
    safer:
      'Add it NOT VALID, which holds for new values at once; validate it when writes may wait, from 18 on at any time.',
    find: (ground) =>
      ground
        .met('alter domain')
        .flatMap(({ statement }): Finding[] =>
          ground
            .taken(statement, 'writes')
            .map(({ relation }) =>
              lockFinding(
                ground,
                statement,
                relation,
                `writes to ${relation} wait while a constraint of its domain is tested on every row`,
                sqlAdvice(
                  'Add it NOT VALID, and validate it at a quiet time:',
                  ownWords({ ground, statement }, (sql) =>
                    /\bADD\b/i.test(sql) ? `${sql} NOT VALID` : sql,
                  ) ?? 'ALTER DOMAIN … ADD CONSTRAINT … CHECK (…) NOT VALID',
                ),
              ),
            ),
        ),
  },
  {
    code: 'ATTACH_PARTITION_SCANS_TABLE',
    title: 'ATTACH PARTITION reads the whole table',
    condition:
      'ATTACH PARTITION of a table with rows, or beside a DEFAULT partition with rows, that has no validated CHECK.',
    effect: 'The table, and the DEFAULT partition, are read from end to end under ACCESS EXCLUSIVE.',
    safer: 'First a CHECK that implies the bounds, NOT VALID and then validated; drop it afterwards.',
    find: (ground) =>
      ground.met('attach partition').flatMap(({ statement, action }) => {
        const partition = ground.resolve(action.partition, statement);
        return [...new Set([partition, ...ground.taken(statement, 'reads').map(({ relation }) => relation)])]
          .filter((relation) => ground.relation(relation) && ground.relation(relation)?.rows !== 0)
          .filter((relation) => !isChecked(ground, statement.index, relation))
          .map((relation) =>
            lockFinding(
              ground,
              statement,
              relation,
              `${relation} is read from end to end under a lock, to see that its rows ${relation === partition ? 'fit the partition' : 'do not belong into the new one'}`,
              sqlAdvice(
                'Prove it first, with the bounds of the partition:',
                `ALTER TABLE ${relation} ADD CONSTRAINT ${displayName(`${bare(relation)}_bounds`)} CHECK (…) NOT VALID`,
                `ALTER TABLE ${relation} VALIDATE CONSTRAINT ${displayName(`${bare(relation)}_bounds`)}`,
              ),
            ),
          );
      }),
  },
];

function notValidFirst(met: MetOn<'add constraint'>, suffix: string, template: string): string {
  const { action, relation } = met;
  const name = displayName(action.constraint ?? [bare(relation), ...action.columns, suffix].join('_'));
  return sqlAdvice(
    'Each in a transaction of its own:',
    (action.constraint === null ? undefined : ownWords(met, (sql) => `${sql} NOT VALID`)) ??
      `ALTER TABLE ${relation} ADD CONSTRAINT ${name} ${template} NOT VALID`,
    `ALTER TABLE ${relation} VALIDATE CONSTRAINT ${name}`,
  );
}

/** A new column without a default holds NULLs only, and PostgreSQL looks none of them up for a FOREIGN KEY. */
export function isOfEmptyColumn(
  ground: HazardContext,
  { statement, action }: Met<'add constraint'>,
): boolean {
  return (
    action.ofNewColumn &&
    ground
      .asked(statement, 'add column')
      .some((added) => added.action.column === action.columns[0] && !added.action.hasDefault)
  );
}

/**
 * The column was not NOT NULL when the statement began: by the comparison, where there is one, and of a column that the
 * command made by how it did that. A new column is filled by then, and its rows are read as those of any other.
 */
function isNews(ground: HazardContext, relation: string, column: string): boolean {
  const name = `${relation}.${displayName(column)}`;
  if (ground.facts.schema === null || ground.changed('alter', name)) return true;
  if (!ground.changed('create', name)) return false;
  return metOn(ground, 'add column').some(
    ({ relation: table, action }) =>
      table === relation && action.column === column && !action.notNull && !isNumbered(action),
  );
}

function isProven(ground: HazardContext, before: number, relation: string, column: string): boolean {
  return validChecks(ground, before, relation).some(({ provesNotNull }) => provesNotNull.includes(column));
}

function isChecked(ground: HazardContext, before: number, relation: string): boolean {
  return validChecks(ground, before, relation).length > 0;
}

/** CHECK constraints that hold for all rows of a relation when a statement begins: old ones, and those of this command. */
function validChecks(
  ground: HazardContext,
  before: number,
  relation: string,
): Pick<NewConstraint, 'provesNotNull'>[] {
  const isEarlier = (met: { relation: string; statement: { index: number } }) =>
    met.relation === relation && met.statement.index < before;
  const validated = new Set(
    metOn(ground, 'validate constraint')
      .filter(isEarlier)
      .map(({ action }) => action.constraint),
  );
  const old = ground.facts.catalogue.checks.filter(
    (check) => check.relation === relation && (check.validated || validated.has(check.constraint)),
  );
  const own = metOn(ground, 'add constraint')
    .filter(isEarlier)
    .map(({ action }) => action)
    .filter(
      ({ kind, notValid, constraint }) => kind === 'check' && (!notValid || validated.has(constraint ?? '')),
    );
  return [...old, ...own];
}
