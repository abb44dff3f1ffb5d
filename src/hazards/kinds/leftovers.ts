import type { StatementSection } from '../../model/report.ts';
import type { ActionOf } from '../../model/statement-actions.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { actionsOn, type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { errorOf, subjectOf } from './failures.ts';
import { lastPart, withoutLastPart } from './names.ts';

/** Objects that are left unfinished. */
export const LEFTOVERS: readonly HazardRecord[] = [
  {
    code: 'INDEX_LEFT_INVALID',
    title: 'an index is left INVALID',
    condition:
      'After the command an index is invalid: the command left it so, or IF NOT EXISTS found an old invalid one.',
    effect:
      'No query uses it, every write maintains it, and CREATE INDEX IF NOT EXISTS accepts it as the index.',
    safer: 'DROP INDEX CONCURRENTLY and build it again.',
    find: (context) =>
      (context.facts.schema?.leftovers ?? [])
        .filter(({ kind }) => kind === 'invalid index')
        .flatMap(({ object, preexisting }): Finding[] => {
          const kept = keeping(context, object);
          if (preexisting && !kept) return [];
          const maker = kept ?? making(context, object);
          return [
            {
              statement: maker?.index ?? null,
              relation: maker ? subjectOf(context, maker) : null,
              severity: 'error',
              message: kept
                ? `IF NOT EXISTS accepts the existing INVALID index ${object}`
                : `the index ${object} is left INVALID`,
              evidence: maker?.error ? errorOf(maker) : 'pg_index.indisvalid is false after the command',
              advice: sqlAdvice(
                'Drop it before it is built again:',
                `DROP INDEX CONCURRENTLY IF EXISTS ${object}`,
              ),
            },
          ];
        }),
  },
  {
    code: 'CONSTRAINT_LEFT_NOT_VALID',
    title: 'a constraint is left NOT VALID',
    condition: 'The command added a constraint NOT VALID and did not validate it.',
    effect:
      'New rows satisfy it, old ones may not: the planner does not use it, and SET NOT NULL still reads the table.',
    safer: 'VALIDATE CONSTRAINT in a later transaction, which does not block reads and writes.',
    find: (context) =>
      (context.facts.schema?.leftovers ?? [])
        .filter(({ kind, preexisting }) => kind === 'constraint not valid' && !preexisting)
        .flatMap(({ object }): Finding[] => {
          const owner = withoutLastPart(object);
          const ofTable = actionsOn(context, 'add constraint').find(
            ({ relation, action }) =>
              relation === owner &&
              action.constraint !== null &&
              displayName(action.constraint) === lastPart(object),
          );
          const ofDomain = context
            .actionsOf('alter domain')
            .find(
              ({ action }) => action.adds === 'check' && displayName(action.domain.name) === lastPart(owner),
            );
          const isTable = context.relation(owner) !== undefined;
          if (!isTable && !ofDomain) return [];
          return [
            {
              statement: (isTable ? ofTable : ofDomain)?.statement.index ?? null,
              relation: isTable ? owner : null,
              severity: 'notice',
              message: `the constraint ${object} is left NOT VALID`,
              evidence: relationEvidence(context, owner),
              advice: sqlAdvice(
                'In a later transaction:',
                `ALTER ${isTable ? 'TABLE' : 'DOMAIN'} ${owner} VALIDATE CONSTRAINT ${lastPart(object)}`,
              ),
            },
          ];
        }),
  },
];

function keeping(context: HazardContext, index: string): StatementSection | undefined {
  const isMade = context.facts.schema?.leftovers.some(
    ({ object, preexisting }) => object === index && !preexisting,
  );
  if (isMade) return undefined;
  return context.facts.statements.find(
    (statement) => !statement.error && makes(context, statement, index, ({ ifNotExists }) => ifNotExists),
  );
}

function making(context: HazardContext, index: string): StatementSection | undefined {
  return context.facts.statements.find((statement) => makes(context, statement, index, () => true));
}

/** Whether the statement creates the index; an index is in the schema of its table. */
function makes(
  context: HazardContext,
  statement: StatementSection,
  index: string,
  when: (action: ActionOf<'create index'>) => boolean,
): boolean {
  return context
    .actionsIn(statement, 'create index')
    .some(
      ({ action }) =>
        action.index !== null &&
        displayName(action.index) === lastPart(index) &&
        withoutLastPart(context.resolve(action.table, statement)) === withoutLastPart(index) &&
        when(action),
    );
}
