import type { ActionOf } from '../../model/hazard-facts.ts';
import type { StatementSection } from '../../model/report.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, metOn, sqlAdvice } from '../hazard-definition.ts';
import { errorOf, subjectOf } from './failures.ts';
import { lastPart, withoutLastPart } from './names.ts';

/** What is left half-done. */
export const LEFTOVERS: readonly HazardRecord[] = [
  {
    code: 'INDEX_LEFT_INVALID',
    title: 'an index is left INVALID',
    condition:
      'After the command there is an index that is not valid: it was left so, or IF NOT EXISTS found an old one.',
    effect:
      'No query uses it, every write maintains it, and CREATE INDEX IF NOT EXISTS takes it for the real one.',
    safer: 'DROP INDEX CONCURRENTLY and build it again.',
    find: (ground) =>
      (ground.facts.schema?.leftovers ?? [])
        .filter(({ kind }) => kind === 'invalid index')
        .flatMap(({ object, preexisting }): Finding[] => {
          const kept = keeping(ground, object);
          if (preexisting && !kept) return [];
          const maker = kept ?? making(ground, object);
          return [
            {
              statement: maker?.index ?? null,
              relation: maker ? subjectOf(ground, maker) : null,
              severity: 'error',
              message: kept
                ? `IF NOT EXISTS takes the INVALID index ${object} for the one that is wanted`
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
    condition: 'The command added a constraint NOT VALID, and did not validate it.',
    effect:
      'New rows obey it, old ones may not: the planner does not use it, and SET NOT NULL still reads the table.',
    safer: 'VALIDATE CONSTRAINT in a later transaction; reads and writes go on meanwhile.',
    find: (ground) =>
      (ground.facts.schema?.leftovers ?? [])
        .filter(({ kind, preexisting }) => kind === 'constraint not valid' && !preexisting)
        .flatMap(({ object }): Finding[] => {
          const owner = withoutLastPart(object);
          const ofTable = metOn(ground, 'add constraint').find(
            ({ relation, action }) =>
              relation === owner &&
              action.constraint !== null &&
              displayName(action.constraint) === lastPart(object),
          );
          const ofDomain = ground
            .met('alter domain')
            .find(
              ({ action }) => action.adds === 'check' && displayName(action.domain.name) === lastPart(owner),
            );
          const isTable = ground.relation(owner) !== undefined;
          if (!isTable && !ofDomain) return [];
          return [
            {
              statement: (isTable ? ofTable : ofDomain)?.statement.index ?? null,
              relation: isTable ? owner : null,
              severity: 'notice',
              message: `the constraint ${object} is left NOT VALID`,
              evidence: relationEvidence(ground, owner),
              advice: sqlAdvice(
                'In a later transaction:',
                `ALTER ${isTable ? 'TABLE' : 'DOMAIN'} ${owner} VALIDATE CONSTRAINT ${lastPart(object)}`,
              ),
            },
          ];
        }),
  },
];

function keeping(ground: HazardContext, index: string): StatementSection | undefined {
  const isMade = ground.facts.schema?.leftovers.some(
    ({ object, preexisting }) => object === index && !preexisting,
  );
  if (isMade) return undefined;
  return ground.facts.statements.find(
    (statement) => !statement.error && makes(ground, statement, index, ({ ifNotExists }) => ifNotExists),
  );
}

function making(ground: HazardContext, index: string): StatementSection | undefined {
  return ground.facts.statements.find((statement) => makes(ground, statement, index, () => true));
}

/** An index is in the schema of its table. */
function makes(
  ground: HazardContext,
  statement: StatementSection,
  index: string,
  when: (action: ActionOf<'create index'>) => boolean,
): boolean {
  return ground
    .asked(statement, 'create index')
    .some(
      ({ action }) =>
        action.index !== null &&
        displayName(action.index) === lastPart(index) &&
        withoutLastPart(ground.resolve(action.table, statement)) === withoutLastPart(index) &&
        when(action),
    );
}
