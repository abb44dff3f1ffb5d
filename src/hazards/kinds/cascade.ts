import { listed } from '../../format.ts';
import type { StatementSection } from '../../model/report.ts';
import type { Action } from '../../model/statement-actions.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import type { HazardContext } from '../hazard-context.ts';
import type { Finding, HazardRecord } from '../hazard-definition.ts';
import { fateOf } from './dropped-objects.ts';

/** Objects that go with those that a statement names. */
export const CASCADES: readonly HazardRecord[] = [
  {
    code: 'CASCADE',
    title: 'CASCADE drops objects that were not named',
    condition:
      'DROP, DROP COLUMN, DROP CONSTRAINT or TRUNCATE with CASCADE, and something that no statement names was dropped or emptied.',
    effect:
      'All dependent objects are dropped as well: views, foreign keys; with TRUNCATE, the rows of other tables.',
    safer:
      'Name all objects to drop, without CASCADE: the statement then fails if anything else depends on them.',
    find: (context) =>
      context.facts.statements
        .filter(({ error }) => error === null)
        .filter((statement) => context.actions(statement).some(isCascade))
        .flatMap((statement): Finding[] => {
          const named = context
            .actions(statement)
            .filter(isCascade)
            .flatMap((action) => namesOf(context, action, statement))
            .filter((each) => isOld(context, each));
          if (named.length === 0) return [];
          const along = [...emptiedToo(context, statement), ...context.once(collateral)];
          if (along.length === 0) return [];
          return [
            {
              statement: statement.index,
              relation: named.find(({ relation }) => relation !== null)?.relation ?? null,
              severity: 'warning',
              message: `CASCADE also drops whatever depends on ${named.map(({ name }) => name).join(', ')}`,
              evidence: `dropped or emptied by the whole command: ${listed(along)}`,
              advice: 'Leave out CASCADE, and drop the dependent objects by name.',
            },
          ];
        }),
  },
];

function isCascade(action: Action): boolean {
  return 'cascade' in action && action.cascade;
}

/** An object that a statement names. */
interface Named {
  /** The kind as in the schema comparison. */
  readonly kind: string;
  /** Without a schema if the statement names none and the relation is unknown. */
  readonly name: string;
  /** The existing relation that it is, or is a part of. */
  readonly relation: string | null;
}

function namesOf(context: HazardContext, action: Action, statement: StatementSection): Named[] {
  const known = (relation: string) => (context.relation(relation) ? relation : null);
  if (action.does === 'drop column' || action.does === 'drop constraint') {
    const relation = context.resolve(action.table, statement);
    const [kind, part] =
      action.does === 'drop column' ? ['column', action.column] : ['constraint', action.constraint];
    return [{ kind, name: `${relation}.${displayName(part)}`, relation: known(relation) }];
  }
  if (action.does !== 'drop' && action.does !== 'truncate') return [];
  const kind = action.does === 'drop' ? action.kind.replaceAll('_', ' ') : 'table';
  const objects = action.does === 'drop' ? action.objects : action.tables;
  return objects.map((object) => {
    if (kind === 'table' || kind === 'materialized view') {
      const name = context.resolve(object, statement);
      return { kind, name, relation: known(name) };
    }
    const name = object.schema === null ? displayName(object.name) : displayName(object.schema, object.name);
    return { kind, name, relation: null };
  });
}

/** Tells if the object existed before, as far as that is known. */
function isOld(context: HazardContext, named: Named): boolean {
  if (named.relation !== null || context.facts.schema === null) return true;
  return context.once(oldObjects).some((old) => isNamed(old, named));
}

const ROUTINES = ['function', 'procedure', 'aggregate'];

function isNamed({ kind, name }: ReturnType<typeof drops>[number], named: Named): boolean {
  const isKind = kind === named.kind || (named.kind === 'routine' && ROUTINES.includes(kind));
  return isKind && (name === named.name || name.endsWith(`.${named.name}`));
}

/** The other tables that TRUNCATE … CASCADE empties: it locks them too. */
function emptiedToo(context: HazardContext, statement: StatementSection): string[] {
  const [truncate] = context.actionsIn(statement, 'truncate');
  if (!truncate) return [];
  const named = truncate.action.tables.map((table) => context.resolve(table, statement));
  return context
    .taken(statement, 'reads')
    .filter(({ relation }) => !named.includes(relation))
    .map(({ relation }) => `the rows of ${relation}`);
}

/** Dropped objects that no statement names and that are not part of another dropped object. */
function collateral(context: HazardContext): string[] {
  const named = (['drop', 'drop column', 'drop constraint'] as const).flatMap((does) =>
    context.actionsOf(does).flatMap(({ action, statement }) => namesOf(context, action, statement)),
  );
  return context
    .once(drops)
    .filter((drop) => fateOf(context, drop)?.goneWith == null)
    .filter((drop) => !named.some((each) => isNamed(drop, each)))
    .map(({ kind, object }) => `${kind} ${object}`);
}

/** Lists the dropped objects, and the name of each without the types of its arguments. */
const drops = (context: HazardContext) => changedObjects(context, ['drop']);
/** Likewise, with those that were made again in another form. */
const oldObjects = (context: HazardContext) => changedObjects(context, ['drop', 'alter']);

function changedObjects(context: HazardContext, verbs: readonly string[]) {
  return (context.facts.schema?.changes ?? [])
    .filter(({ verb }) => verbs.includes(verb))
    .map(({ kind, object }) => ({
      kind,
      object,
      name: ROUTINES.includes(kind) ? object.replace(/\(.*\)$/s, '') : object,
    }));
}
