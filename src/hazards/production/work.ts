import type { StatementSection } from '../../model/report.ts';
import type { Action } from '../../model/statement-actions.ts';
import type { HazardContext } from '../hazard-context.ts';
import { isBuilt } from '../kinds/builds.ts';
import { isChecked, isNews, isOfEmptyColumn, isProven } from '../kinds/scans.ts';

/**
 * Work that a statement's time grows with: it rewrites a relation, builds an index, looks up all rows in another relation, reads a
 * relation as a whole, changes or reads rows, or runs code that does any of it.
 */
export type WorkKind = 'rewrite' | 'concurrent build' | 'build' | 'lookup' | 'scan' | 'rows' | 'code';

export interface Work {
  readonly kind: WorkKind;
  /** Existing relations, by their names after the command. */
  readonly relations: readonly string[];
  /** It builds b-tree indexes, which several processes may do. */
  readonly sorts?: boolean;
}

/** Kinds by weight: an ALTER TABLE that does several things takes the time of the heaviest. */
const BY_WEIGHT: readonly WorkKind[] = [
  'rewrite',
  'concurrent build',
  'build',
  'lookup',
  'scan',
  'rows',
  'code',
];

/** CREATE TABLE AS, SELECT INTO and CREATE MATERIALIZED VIEW have it as well. */
const SELECTS = /^SELECT\b/;
const RUNS_CODE = /^(?:DO|CALL|COPY)\b/;

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
  if (existing.length === 0) return null;
  return {
    kind,
    relations: existing,
    sorts: works.every((work) => work.kind !== kind || work.sorts === true),
  };
}

/** Files are exchanged for empty ones: that takes a moment, however large they were. */
function emptied(context: HazardContext, statement: StatementSection): boolean {
  return context.actions(statement).some(({ does }) => does === 'truncate' || does === 'refresh');
}

function workOfAction(context: HazardContext, statement: StatementSection, action: Action): Work[] {
  const on = 'table' in action && action.table !== null ? [context.resolve(action.table, statement)] : [];
  switch (action.does) {
    case 'create index':
      return isBuilt(context, { statement, action })
        ? [{ kind: buildOf(action), relations: on, sorts: action.method === 'btree' }]
        : [];
    case 'reindex':
      return [{ kind: buildOf(action), relations: lockedBy(context, statement), sorts: true }];
    case 'add constraint':
      return workOfConstraint(context, statement, action, on);
    case 'set not null':
      return isNews(context, on[0] ?? '', action.column) &&
        !isProven(context, statement.index, on[0] ?? '', action.column)
        ? [{ kind: 'scan', relations: on }]
        : [];
    case 'validate constraint': {
      const others = lockedBy(context, statement, 'ROW SHARE');
      return [{ kind: others.length > 0 ? 'lookup' : 'scan', relations: [...on, ...others] }];
    }
    case 'enforce constraint': {
      const locked = lockedBy(context, statement);
      return [{ kind: locked.length > 1 ? 'lookup' : 'scan', relations: locked }];
    }
    case 'attach partition': {
      const partition = context.resolve(action.partition, statement);
      return isChecked(context, statement.index, partition) ? [] : [{ kind: 'scan', relations: [partition] }];
    }
    case 'alter domain':
      return action.notValid ? [] : [{ kind: 'scan', relations: lockedBy(context, statement) }];
    case 'refresh':
      return [{ kind: 'scan', relations: lockedBy(context, statement, 'ACCESS SHARE') }];
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
    return [{ kind: 'build', relations: on, sorts: kind !== 'exclude' }];
  if (on.every((table) => isNewAndEmpty(context, statement, table))) return [];
  const other = references && context.resolve(references, statement);
  return [{ kind: other ? 'lookup' : 'scan', relations: [...on, ...(other ? [other] : [])] }];
}

/** Tells if the command made the table and put no row into it: none is read or looked up, however large other tables are. */
function isNewAndEmpty(context: HazardContext, statement: StatementSection, table: string): boolean {
  const { data } = context.facts;
  const isNew = !context.relation(table) || context.isReplaced(table, statement);
  return isNew && data?.written.every(({ relation }) => relation !== table) === true;
}

function buildOf({ concurrently }: { readonly concurrently: boolean }): WorkKind {
  return concurrently ? 'concurrent build' : 'build';
}

/** Returns the work that neither the parser nor the files show: the relations that it locked are those that it may have read. */
function workOfTag(context: HazardContext, statement: StatementSection): Work[] {
  const tag = statement.tag ?? '';
  const makesRelation = context.facts.parsed.get(statement.index)?.effect === 'schema';
  if (SELECTS.test(tag) && makesRelation)
    return [{ kind: 'rows', relations: lockedBy(context, statement, 'ACCESS SHARE') }];
  return SELECTS.test(tag) || RUNS_CODE.test(tag)
    ? [{ kind: 'code', relations: lockedBy(context, statement) }]
    : [];
}

/** Existing relations that the statement itself locked, if need be in one mode. */
function lockedBy(context: HazardContext, { locks }: StatementSection, wanted?: string): string[] {
  return (locks ?? [])
    .filter(({ mode, relation }) => (wanted === undefined || mode === wanted) && context.relation(relation))
    .map(({ relation }) => relation);
}
