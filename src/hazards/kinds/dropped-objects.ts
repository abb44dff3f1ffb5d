import type { DroppedFacts } from '../../model/hazard-facts.ts';
import type { SchemaChange, StatementSection } from '../../model/report.ts';
import { displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import type { HazardContext } from '../hazard-context.ts';

/** Drops of the schema comparison, without objects that were re-created under the same name. */
export function droppedObjects(context: HazardContext, kind: string): SchemaChange[] {
  const copied = context.facts.data?.copied ?? [];
  return context
    .changes('drop', kind)
    .filter(
      ({ object, dataLoss }) => dataLoss || copied.includes(object) || !context.changed('create', object),
    );
}

/** The index of the statement that drops an object by name; null if a function or a DO block did. */
export function indexOfDrop(context: HazardContext, kind: string, object: string): number | null {
  return context.once(indexesOfDrops).get(`${kind} ${object}`) ?? null;
}

function indexesOfDrops(context: HazardContext): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const note = (kind: string, object: string, { index }: StatementSection) => {
    const key = `${kind} ${object}`;
    if (!found.has(key)) found.set(key, index);
  };
  for (const { statement, action } of context.actionsOf('drop'))
    for (const name of action.objects)
      note(
        action.kind,
        action.kind === 'schema' ? displayName(name.name) : context.resolve(name, statement),
        statement,
      );
  for (const { statement, action, relation } of context.actionsOn('drop column'))
    note('column', `${relation}.${displayName(action.column)}`, statement);
  // What was renamed before it was dropped has its name from before the command in the schema comparison.
  for (const { statement, action } of context.actionsOf('rename').toReversed()) {
    if (action.table === null || action.column === null) continue;
    const relation = context.resolve(action.table, statement);
    const dropped = found.get(`column ${relation}.${displayName(action.to)}`);
    if (dropped !== undefined && dropped > statement.index)
      found.set(`column ${relation}.${displayName(action.column)}`, dropped);
  }
  for (const { statement, action, relation } of context.actionsOn('drop constraint'))
    note('constraint', `${relation}.${displayName(action.constraint)}`, statement);
  return found;
}

/**
 * The index of the statement whose code changed a relation, where no statement names the change: the one DO block, function or
 * procedure that locked it exclusively, or of several the one whose text has the word.
 * @param relation its name before the command, or after it.
 */
export function indexOfCode(context: HazardContext, relation: string, word: string): number | null {
  const { facts } = context;
  const now = facts.catalogue.renamed.get(relation) ?? relation;
  const running = facts.statements.filter((statement) => {
    const { effect = 'unknown' } = facts.parsed.get(statement.index) ?? {};
    const isCode = statement.error === null && (effect === 'unknown' || effect === 'reads');
    return isCode && context.held(statement, now)?.mode === 'ACCESS EXCLUSIVE';
  });
  const naming = running.filter(({ sql }) => sql.toLowerCase().includes(word.toLowerCase()));
  const [found, ...others] = running.length > 1 ? naming : running;
  return found && others.length === 0 ? found.index : null;
}

/** Returns what else is known of a dropped object. */
export function fateOf(
  { facts }: HazardContext,
  { kind, object }: Pick<SchemaChange, 'kind' | 'object'>,
): DroppedFacts | undefined {
  return facts.catalogue.dropped.get(`${kind} ${object}`);
}

/**
 * The gap in which a dropped constraint is not enforced, until an equal one is added (`equal`) or for good. null if there is
 * no gap: an equal one existed before the drop, or was added in the same transaction; or if a function added it, so that it is not
 * known when.
 */
export function gapOf(context: HazardContext, drop: SchemaChange): { readonly equal: string | null } | null {
  const equal = fateOf(context, drop)?.keptAs ?? null;
  if (equal === null) return { equal };
  const index = indexOfDrop(context, drop.kind, drop.object);
  const dropper = context.facts.statements.find((statement) => statement.index === index);
  const makers = context
    .actionsOn('add constraint')
    .filter(
      ({ relation, action }) =>
        relation === withoutLastPart(equal) &&
        (action.constraint === null || displayName(action.constraint) === lastPart(equal)),
    );
  if (!dropper || makers.length === 0) return null;
  const isAtOnce = makers.some(
    ({ statement }) => statement.index <= dropper.index || statement.transaction === dropper.transaction,
  );
  return isAtOnce ? null : { equal };
}
