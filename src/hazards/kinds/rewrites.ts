import type { StatementSection } from '../../model/report.ts';
import type { Action, Name } from '../../model/statement-actions.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type HazardRecord, lockFinding } from '../hazard-definition.ts';
import { worst } from '../severity.ts';
import { CAUSES, isOfColumn, mayRewrite, trialOf } from './rewrite-causes.ts';

/** Actions that give every relation they touch a new file, including partitions and referencing tables. */
const EMPTIES_OR_FILLS = new Set<Action['does']>(['truncate', 'refresh']);
/** Actions whose purpose is a new file; they have hazards of their own. */
const EXPECTED = new Set<Action['does']>(['truncate', 'refresh', 'drop']);

export const REWRITES: readonly HazardRecord[] = [
  ...CAUSES.map(
    ({ isCause, adviceOf, lasting = () => null, findOthers = () => [], ...words }): HazardRecord => ({
      ...words,
      find: (context) => [
        ...rewritten(context).flatMap(({ statement, relation }) => {
          const cause = rewritingActions(context, statement, relation).find(isCause);
          if (!cause) return [];
          const advice = adviceOf(
            relation,
            cause,
            isOfColumn(cause) ? trialOf(context, statement, cause.column) : undefined,
          );
          const found = rewriteFinding(context, statement, relation, words.title, advice);
          const effect = lasting(cause);
          if (effect === null) return [found];
          const severity = worst([found.severity, 'warning']);
          return [{ ...found, severity, message: `${found.message}; ${effect}` }];
        }),
        ...findOthers(context),
      ],
    }),
  ),
  {
    code: 'TABLE_REWRITTEN',
    title: 'a table is rewritten',
    condition:
      'A table that existed before has a new file, and no statement shows why: a function, a DO block, or text that could not be parsed.',
    effect: 'ACCESS EXCLUSIVE while all rows are rewritten, with twice the disk space.',
    safer: 'Find out what the statement does, and follow the advice of the hazard for it.',
    find: (context) =>
      rewritten(context)
        .filter(({ statement, relation }) =>
          rewritingActions(context, statement, relation).every(
            (action) =>
              !EXPECTED.has(action.does) &&
              !isCopiedConcurrently(action) &&
              !CAUSES.some(({ isCause }) => isCause(action)),
          ),
        )
        .filter(({ statement }) => !context.actions(statement).some(({ does }) => EMPTIES_OR_FILLS.has(does)))
        .map(({ statement, relation }) =>
          rewriteFinding(
            context,
            statement,
            relation,
            `${statement.tag ?? 'a statement'} rewrites the whole table`,
            'Run its parts as separate statements, to see which of them rewrites the table.',
          ),
        ),
  },
];

function isCopiedConcurrently(action: Action): boolean {
  return action.does === 'repack' && action.concurrently;
}

function rewritten(context: HazardContext): { statement: StatementSection; relation: string }[] {
  return context.facts.statements.flatMap((statement) =>
    statement.rewrote
      .filter((relation) => context.relation(relation))
      .map((relation) => ({ statement, relation })),
  );
}

/** The statement's actions on the relation, without columns that alone did not rewrite an empty table like it. */
function rewritingActions(context: HazardContext, statement: StatementSection, relation: string): Action[] {
  return onRelation(context, statement, relation).filter(
    (action) => !isOfColumn(action) || mayRewrite(context, statement, action.column),
  );
}

/** The statement's actions on the relation, or on all relations (VACUUM FULL of the whole database). */
function onRelation(context: HazardContext, statement: StatementSection, relation: string): Action[] {
  return context.actions(statement).filter((action) => {
    const names = namesIn(action);
    return names.length === 0 || names.some((name) => context.resolve(name, statement) === relation);
  });
}

function namesIn(action: Action): readonly Name[] {
  if ('tables' in action) return action.tables;
  if ('table' in action) return action.table === null ? [] : [action.table];
  return 'view' in action ? [action.view] : [];
}

function rewriteFinding(
  context: HazardContext,
  statement: StatementSection,
  relation: string,
  words: string,
  advice: string,
) {
  return lockFinding(
    context,
    statement,
    relation,
    `${relation}: ${words}, while no session can read it`,
    advice,
  );
}
