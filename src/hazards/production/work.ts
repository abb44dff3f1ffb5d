import type { Action } from '../../model/hazard-facts.ts';
import type { StatementSection } from '../../model/report.ts';
import type { HazardContext } from '../hazard-context.ts';
import { isBuilt } from '../kinds/builds.ts';
import { isChecked, isOfEmptyColumn, isProven } from '../kinds/scans.ts';

/**
 * What a statement's time grows with: it writes a relation anew, builds an index, reads a relation as a whole, changes or reads rows,
 * or runs code that does any of it.
 */
export type WorkKind = 'rewrite' | 'build' | 'scan' | 'rows' | 'code';

export interface Work {
  readonly kind: WorkKind;
  /** Existing relations, by their names after the command. */
  readonly relations: readonly string[];
}

/** Kinds by weight: an ALTER TABLE that does several things takes the time of the heaviest. */
const BY_WEIGHT: readonly WorkKind[] = ['rewrite', 'build', 'scan', 'rows', 'code'];

const READS_ROWS = /^(?:SELECT INTO|CREATE (?:TABLE AS|MATERIALIZED VIEW))$/;
const RUNS_CODE = /^(?:SELECT|DO|CALL|EXECUTE|COPY)$/;

/** Returns the work of a statement that grows with relations that existed before it; null if its time depends on none. */
export function workOf(context: HazardContext, statement: StatementSection): Work | null {
  const rewritten = statement.rewrote.filter((relation) => context.relation(relation));
  const works: Work[] = [
    ...(rewritten.length === 0 || emptied(context, statement)
      ? []
      : [{ kind: 'rewrite' as const, relations: rewritten }]),
    ...context.actions(statement).flatMap((action) => workOfAction(context, statement, action)),
    ...workOfTag(context, statement),
  ];
  const kind = BY_WEIGHT.find((each) => works.some((work) => work.kind === each));
  if (kind === undefined) return null;
  const relations = new Set(works.flatMap((work) => work.relations));
  const existing = [...relations].filter(
    (relation) => context.relation(relation) && !context.isReplaced(relation, statement),
  );
  return existing.length === 0 ? null : { kind, relations: existing };
}

/** Files are exchanged for empty ones: that takes a moment, however large they were. */
function emptied(context: HazardContext, statement: StatementSection): boolean {
  return context.actions(statement).some(({ does }) => does === 'truncate' || does === 'refresh');
}

function workOfAction(context: HazardContext, statement: StatementSection, action: Action): Work[] {
  const on = 'table' in action && action.table !== null ? [context.resolve(action.table, statement)] : [];
  switch (action.does) {
    case 'create index':
      return isBuilt(context, { statement, action }) ? [{ kind: 'build', relations: on }] : [];
    case 'reindex':
      return [{ kind: 'build', relations: lockedBy(context, statement) }];
    case 'add constraint':
      return workOfConstraint(context, statement, action, on);
    case 'set not null':
      return isProven(context, statement.index, on[0] ?? '', action.column)
        ? []
        : [{ kind: 'scan', relations: on }];
    case 'validate constraint':
      return [{ kind: 'scan', relations: [...on, ...lockedBy(context, statement, 'ROW SHARE')] }];
    case 'attach partition': {
      const partition = context.resolve(action.partition, statement);
      return isChecked(context, statement.index, partition) ? [] : [{ kind: 'scan', relations: [partition] }];
    }
    case 'alter domain':
      return action.notValid ? [] : [{ kind: 'scan', relations: lockedBy(context, statement) }];
    case 'refresh':
    case 'insert':
      return [{ kind: 'rows', relations: lockedBy(context, statement, 'ACCESS SHARE') }];
    case 'update':
    case 'delete':
    case 'merge':
      return [{ kind: 'rows', relations: on }];
    default:
      return [];
  }
}

function workOfConstraint(
  context: HazardContext,
  statement: StatementSection,
  action: Extract<Action, { does: 'add constraint' }>,
  on: readonly string[],
): Work[] {
  const { kind, notValid, usingIndex, references } = action;
  if (notValid || usingIndex !== null || isOfEmptyColumn(context, { statement, action })) return [];
  if (kind === 'unique' || kind === 'primary key' || kind === 'exclude')
    return [{ kind: 'build', relations: on }];
  const other = references && context.resolve(references, statement);
  return [{ kind: 'scan', relations: [...on, ...(other ? [other] : [])] }];
}

/** What neither the parser nor the files show: the relations that it locked are those that it may have read. */
function workOfTag(context: HazardContext, statement: StatementSection): Work[] {
  const tag = statement.tag ?? '';
  if (READS_ROWS.test(tag))
    return [{ kind: 'rows', relations: lockedBy(context, statement, 'ACCESS SHARE') }];
  return RUNS_CODE.test(tag) ? [{ kind: 'code', relations: lockedBy(context, statement) }] : [];
}

/** Existing relations that the statement itself locked, if need be in one mode. */
function lockedBy(context: HazardContext, { locks }: StatementSection, wanted?: string): string[] {
  return (locks ?? [])
    .filter(({ mode, relation }) => (wanted === undefined || mode === wanted) && context.relation(relation))
    .map(({ relation }) => relation);
}
