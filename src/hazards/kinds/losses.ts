import { formatCount, listed, plural } from '../../format.ts';
import type { Action, DroppedFacts } from '../../model/hazard-facts.ts';
import type { SchemaChange, StatementSection } from '../../model/report.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { relationEvidence, rowCount } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { actionsOn, type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { milder, weighBreakage, weighLoss, worst } from '../severity.ts';
import { lastPart, withoutLastPart } from './names.ts';

/** Data and constraints that are gone afterwards, and that no rollback SQL restores. */
export const LOSSES: readonly HazardRecord[] = [
  {
    code: 'TABLE_DROPPED',
    title: 'a table is dropped with its rows',
    condition: 'A table that existed before is gone, or a different one has its name.',
    effect: 'Its rows are lost, and code that still uses it fails.',
    safer:
      'First rename it, wait until it is certain that nobody misses it, and drop it in a later migration.',
    find: (context) =>
      dropped(context, 'table').map(({ object }) => {
        const rows = context.relation(object)?.rows ?? null;
        return {
          statement: dropperOf(context, 'table', object),
          relation: object,
          severity: weighLoss(context, object, rows),
          message: `drops the table ${object}${rows === 0 ? ', which is empty' : ''}`,
          evidence: relationEvidence(context, object),
          advice: sqlAdvice(
            'Keep it under another name until it is certain that nobody misses it:',
            `ALTER TABLE ${object} RENAME TO ${displayName(`${lastPart(object).replaceAll('"', '')}_unused`)}`,
          ),
        };
      }),
  },
  {
    code: 'COLUMN_DROPPED',
    title: 'a column is dropped with its values',
    condition: 'A column of an existing table is gone, or a different one has its name.',
    effect:
      'Its values are lost, and code that still names it, or has cached the columns of SELECT *, fails.',
    safer: 'First release code that does not use it (ORMs list all columns on their own), then drop it.',
    find: (context) =>
      dropped(context, 'column')
        .filter(({ object }) => context.relation(withoutLastPart(object)))
        .map(({ object }) => {
          const relation = withoutLastPart(object);
          const lost = context.facts.data?.lost.find(
            (each) => each.object === object && each.what === 'dropped',
          );
          const table = context.relation(relation);
          const values = lost?.rowsWithValue ?? (table?.rows === 0 ? 0 : null);
          const counted =
            lost && lost.rowsWithValue !== null && lost.rows !== null
              ? `${lost.exact ? '' : 'about '}${formatCount(lost.rowsWithValue)} of ${rowCount(lost.rows, true)} had a value`
              : relationEvidence(context, relation);
          return {
            statement: dropperOf(context, 'column', object),
            relation,
            severity: worst([
              weighLoss(context, relation, values ?? table?.rows ?? null),
              weighBreakage(context, relation),
            ]),
            message: `drops the column ${object}`,
            evidence: counted,
            advice:
              'First release code that does not use the column; keep its values in another table if they may be needed.',
          };
        }),
  },
  {
    code: 'SCHEMA_DROPPED',
    title: 'a schema is dropped',
    condition: 'A schema that existed before is gone.',
    effect: 'All its objects are gone, and code that has it in its search_path finds other objects, or none.',
    safer:
      'First rename it, wait until it is certain that nobody misses it, and drop it in a later migration.',
    find: (context) =>
      dropped(context, 'schema').map(({ object }) => {
        const inside = [...context.facts.catalogue.relations].filter(([name]) =>
          name.startsWith(`${object}.`),
        );
        const rows = inside.reduce<number | null>(
          (sum, [, relation]) => (sum === null || relation.rows === null ? null : sum + relation.rows),
          0,
        );
        return {
          statement: dropperOf(context, 'schema', object),
          relation: null,
          severity:
            inside.length === 0
              ? ('notice' as const)
              : worst(inside.map(([name]) => weighLoss(context, name, rows))),
          message: `drops the schema ${object}`,
          evidence:
            inside.length === 0
              ? 'it contained no tables'
              : `${plural(inside.length, 'table')}${rows === null ? '' : ` with ${rowCount(rows, false)}`}`,
          advice: sqlAdvice(
            'Keep it under another name until it is certain that nobody misses it:',
            `ALTER SCHEMA ${object} RENAME TO ${displayName(`${object.replaceAll('"', '')}_unused`)}`,
          ),
        };
      }),
  },
  {
    code: 'TABLE_TRUNCATED',
    title: 'a table is truncated',
    condition: 'TRUNCATE of a table that existed before the command.',
    effect:
      'All rows are deleted under ACCESS EXCLUSIVE; transactions with an older snapshot see an empty table as well.',
    safer: 'DELETE the unwanted rows in batches, or copy the table before.',
    find: (context) =>
      context.actionsOf('truncate').flatMap(({ statement, action }) =>
        [
          ...new Set([
            ...action.tables.map((table) => context.resolve(table, statement)),
            ...context.taken(statement, 'reads').map(({ relation }) => relation),
          ]),
        ]
          .filter((relation) => context.relation(relation))
          .map((relation) => ({
            statement: statement.index,
            relation,
            severity: weighLoss(context, relation, context.relation(relation)?.rows ?? null),
            message: `truncates ${relation}`,
            evidence: relationEvidence(context, relation),
            advice: sqlAdvice('Delete the unwanted rows in batches:', `DELETE FROM ${relation} WHERE …`),
          })),
      ),
  },
  {
    code: 'CASCADE',
    title: 'CASCADE drops objects that were not named',
    condition: 'DROP, DROP COLUMN, DROP CONSTRAINT or TRUNCATE with CASCADE.',
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
          const along = [...emptiedToo(context, statement), ...collateral(context)];
          return [
            {
              statement: statement.index,
              relation: named.find(({ relation }) => relation !== null)?.relation ?? null,
              severity: along.length === 0 ? 'notice' : 'warning',
              message: `CASCADE also drops whatever depends on ${named.map(({ name }) => name).join(', ')}`,
              evidence:
                along.length === 0
                  ? 'nothing else was dropped here'
                  : `dropped or emptied by the whole command: ${listed(along)}`,
              advice: 'Leave out CASCADE, and drop the dependent objects by name.',
            },
          ];
        }),
  },
  {
    code: 'CONSTRAINT_DROPPED',
    title: 'a constraint is dropped',
    condition:
      'A constraint of an existing table is gone although its table and columns are not, and no equal one replaced it at once.',
    effect:
      'Rows that violate it can be written from then on, and it cannot be added again until they are found and fixed.',
    safer: 'First add the new constraint NOT VALID and validate it, then drop the old one.',
    find: (context) =>
      dropped(context, 'constraint')
        .filter(({ object }) => context.relation(withoutLastPart(object)))
        .filter((drop) => fateOf(context, drop)?.goneWith == null)
        .flatMap((drop) => {
          const gap = gapOf(context, drop);
          if (gap === null) return [];
          const { object } = drop;
          const relation = withoutLastPart(object);
          const later = gap.equal && `, and adds the equal ${gap.equal} only in a later transaction`;
          return [
            {
              statement: dropperOf(context, 'constraint', object),
              relation,
              severity: milder(weighBreakage(context, relation)),
              message: `drops the constraint ${object}${later ?? ''}`,
              evidence: relationEvidence(context, relation),
              advice:
                'If another constraint replaces it, add that one first (NOT VALID, then VALIDATE CONSTRAINT).',
            },
          ];
        }),
  },
];

/** Drops of the schema comparison, without objects that were re-created under the same name. */
function dropped(context: HazardContext, kind: string): SchemaChange[] {
  const changes = context.facts.schema?.changes ?? [];
  const drops = changes.filter((change) => change.verb === 'drop' && change.kind === kind);
  return drops.filter(({ object, dataLoss }) => dataLoss || !context.changed('create', object));
}

const known = new WeakMap<HazardContext, ReadonlyMap<string, number>>();

/** The index of the statement that drops an object by name; null if a function or a DO block did. */
function dropperOf(context: HazardContext, kind: string, object: string): number | null {
  const found = known.get(context) ?? droppers(context);
  known.set(context, found);
  return found.get(`${kind} ${object}`) ?? null;
}

function droppers(context: HazardContext): ReadonlyMap<string, number> {
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
  for (const { statement, action, relation } of actionsOn(context, 'drop column'))
    note('column', `${relation}.${displayName(action.column)}`, statement);
  for (const { statement, action, relation } of actionsOn(context, 'drop constraint'))
    note('constraint', `${relation}.${displayName(action.constraint)}`, statement);
  return found;
}

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

/** Whether the object existed before, as far as that is known. */
function isOld(context: HazardContext, named: Named): boolean {
  if (named.relation !== null || context.facts.schema === null) return true;
  return drops(context).some((drop) => isNamed(drop, named));
}

const ROUTINES = ['function', 'procedure', 'aggregate'];

function isNamed({ kind, name }: Drop, named: Named): boolean {
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

const collateralOf = new WeakMap<HazardContext, readonly string[]>();

/** Dropped objects that no statement names and that are not part of another dropped object. */
function collateral(context: HazardContext): readonly string[] {
  const before = collateralOf.get(context);
  if (before) return before;
  const named = (['drop', 'drop column', 'drop constraint'] as const).flatMap((does) =>
    context.actionsOf(does).flatMap(({ action, statement }) => namesOf(context, action, statement)),
  );
  const found = drops(context)
    .filter((drop) => fateOf(context, drop)?.goneWith == null)
    .filter((drop) => !named.some((each) => isNamed(drop, each)))
    .map(({ kind, object }) => `${kind} ${object}`);
  collateralOf.set(context, found);
  return found;
}

interface Drop {
  readonly kind: string;
  readonly object: string;
  /** The object without the types of its arguments. */
  readonly name: string;
}

const dropsOf = new WeakMap<HazardContext, readonly Drop[]>();

function drops(context: HazardContext): readonly Drop[] {
  const before = dropsOf.get(context);
  if (before) return before;
  const found = (context.facts.schema?.changes ?? [])
    .filter(({ verb }) => verb === 'drop')
    .map(({ kind, object }) => ({
      kind,
      object,
      name: ROUTINES.includes(kind) ? object.replace(/\(.*\)$/s, '') : object,
    }));
  dropsOf.set(context, found);
  return found;
}

function fateOf(
  { facts }: HazardContext,
  { kind, object }: Pick<Drop, 'kind' | 'object'>,
): DroppedFacts | undefined {
  return facts.catalogue.dropped.get(`${kind} ${object}`);
}

/**
 * The gap in which a dropped constraint is not enforced, until an equal one is added (`equal`) or for good. null if there is
 * no gap: an equal one existed before the drop, or was added in the same transaction; or if a function added it, so that it is not
 * known when.
 */
function gapOf(context: HazardContext, drop: SchemaChange): { readonly equal: string | null } | null {
  const equal = fateOf(context, drop)?.keptAs ?? null;
  if (equal === null) return { equal };
  const index = dropperOf(context, drop.kind, drop.object);
  const dropper = context.facts.statements.find((statement) => statement.index === index);
  const makers = actionsOn(context, 'add constraint').filter(
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
