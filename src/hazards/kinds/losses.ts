import { formatCount, listed, plural } from '../../format.ts';
import type { Action, DroppedFacts } from '../../model/hazard-facts.ts';
import type { SchemaChange, StatementSection } from '../../model/report.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { relationEvidence, rowCount } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, metOn, sqlAdvice } from '../hazard-definition.ts';
import { milder, weighBreakage, weighLoss, worst } from '../severity.ts';
import { lastPart, withoutLastPart } from './names.ts';

/** What is gone afterwards, and that no way back restores. */
export const LOSSES: readonly HazardRecord[] = [
  {
    code: 'TABLE_DROPPED',
    title: 'a table is dropped, with its rows',
    condition: 'A table that was there before is gone, or another one stands under its name.',
    effect: 'Its rows are lost, and code that still uses it fails.',
    safer: 'Rename it first, wait until nobody has missed it, and drop it in a later migration.',
    find: (ground) =>
      dropped(ground, 'table').map(({ object }) => {
        const rows = ground.relation(object)?.rows ?? null;
        return {
          statement: dropperOf(ground, 'table', object),
          relation: object,
          severity: weighLoss(ground, object, rows),
          message: `drops the table ${object}${rows === 0 ? ', which is empty' : ''}`,
          evidence: relationEvidence(ground, object),
          advice: sqlAdvice(
            'Keep it under another name until nobody has missed it:',
            `ALTER TABLE ${object} RENAME TO ${displayName(`${lastPart(object).replaceAll('"', '')}_unused`)}`,
          ),
        };
      }),
  },
  {
    code: 'COLUMN_DROPPED',
    title: 'a column is dropped, with its values',
    condition: 'A column of a table that was there before is gone, or another one stands under its name.',
    effect: 'Its values are lost, and code that still names it, or that has cached SELECT *, fails.',
    safer: 'First a release whose code does not use it (ORMs list columns by themselves), then the drop.',
    find: (ground) =>
      dropped(ground, 'column')
        .filter(({ object }) => ground.relation(withoutLastPart(object)))
        .map(({ object }) => {
          const relation = withoutLastPart(object);
          const lost = ground.facts.data?.lost.find(
            (each) => each.object === object && each.what === 'dropped',
          );
          const table = ground.relation(relation);
          const values = lost?.rowsWithValue ?? (table?.rows === 0 ? 0 : null);
          const counted =
            lost && lost.rowsWithValue !== null && lost.rows !== null
              ? `${lost.exact ? '' : 'about '}${formatCount(lost.rowsWithValue)} of ${rowCount(lost.rows, true)} had a value`
              : relationEvidence(ground, relation);
          return {
            statement: dropperOf(ground, 'column', object),
            relation,
            severity: worst([
              weighLoss(ground, relation, values ?? table?.rows ?? null),
              weighBreakage(ground, relation),
            ]),
            message: `drops the column ${object}`,
            evidence: counted,
            advice:
              'Release code that does not use the column first; keep its values in a table of their own if they may be needed.',
          };
        }),
  },
  {
    code: 'SCHEMA_DROPPED',
    title: 'a schema is dropped',
    condition: 'A schema that was there before is gone.',
    effect:
      'All that it held is gone with it, and code that has it in its search_path finds other objects, or none.',
    safer: 'Rename it first, wait until nobody has missed it, and drop it in a later migration.',
    find: (ground) =>
      dropped(ground, 'schema').map(({ object }) => {
        const inside = [...ground.facts.catalogue.relations].filter(([name]) =>
          name.startsWith(`${object}.`),
        );
        const rows = inside.reduce<number | null>(
          (sum, [, relation]) => (sum === null || relation.rows === null ? null : sum + relation.rows),
          0,
        );
        return {
          statement: dropperOf(ground, 'schema', object),
          relation: null,
          severity:
            inside.length === 0
              ? ('notice' as const)
              : worst(inside.map(([name]) => weighLoss(ground, name, rows))),
          message: `drops the schema ${object}`,
          evidence:
            inside.length === 0
              ? 'it held no tables'
              : `${plural(inside.length, 'table')}${rows === null ? '' : ` with ${rowCount(rows, false)}`}`,
          advice: sqlAdvice(
            'Keep it under another name until nobody has missed it:',
            `ALTER SCHEMA ${object} RENAME TO ${displayName(`${object.replaceAll('"', '')}_unused`)}`,
          ),
        };
      }),
  },
  {
    code: 'TABLE_TRUNCATED',
    title: 'a table is emptied',
    condition: 'TRUNCATE of a table that was there before the command.',
    effect:
      'All rows are lost under ACCESS EXCLUSIVE; transactions with an older snapshot see the table empty as well.',
    safer: 'DELETE in batches of the rows that are not wanted, or a copy before it.',
    find: (ground) =>
      ground.met('truncate').flatMap(({ statement, action }) =>
        [
          ...new Set([
            ...action.tables.map((table) => ground.resolve(table, statement)),
            ...ground.taken(statement, 'reads').map(({ relation }) => relation),
          ]),
        ]
          .filter((relation) => ground.relation(relation))
          .map((relation) => ({
            statement: statement.index,
            relation,
            severity: weighLoss(ground, relation, ground.relation(relation)?.rows ?? null),
            message: `empties ${relation}`,
            evidence: relationEvidence(ground, relation),
            advice: sqlAdvice('Delete what is not wanted, in batches:', `DELETE FROM ${relation} WHERE …`),
          })),
      ),
  },
  {
    code: 'CASCADE',
    title: 'CASCADE takes along what was not named',
    condition: 'DROP, DROP COLUMN, DROP CONSTRAINT or TRUNCATE with CASCADE.',
    effect:
      'Whatever depends on it goes as well: views, foreign keys, with TRUNCATE the rows of other tables.',
    safer: 'Name what is to go, without CASCADE: the statement then fails if something else depends on it.',
    find: (ground) =>
      ground.facts.statements
        .filter(({ error }) => error === null)
        .filter((statement) => ground.actions(statement).some(isCascade))
        .flatMap((statement): Finding[] => {
          const named = ground
            .actions(statement)
            .filter(isCascade)
            .flatMap((action) => namesOf(ground, action, statement))
            .filter((each) => isOld(ground, each));
          if (named.length === 0) return [];
          const along = [...emptiedToo(ground, statement), ...collateral(ground)];
          return [
            {
              statement: statement.index,
              relation: named.find(({ relation }) => relation !== null)?.relation ?? null,
              severity: along.length === 0 ? 'notice' : 'warning',
              message: `CASCADE takes along whatever depends on ${named.map(({ name }) => name).join(', ')}`,
              evidence:
                along.length === 0
                  ? 'nothing else went with it here'
                  : `gone with the whole command: ${listed(along)}`,
              advice: 'Leave CASCADE out, and drop by name what depends on it.',
            },
          ];
        }),
  },
  {
    code: 'CONSTRAINT_DROPPED',
    title: 'a constraint is dropped',
    condition:
      'A constraint of a table that was there before is gone, its table and columns are not, and no equal one has taken its place at once.',
    effect:
      'From then on rows get in that break the rule, and it cannot be had back until they are found and mended.',
    safer: 'Put the new rule in first, NOT VALID and validated, and drop the old one afterwards.',
    find: (ground) =>
      dropped(ground, 'constraint')
        .filter(({ object }) => ground.relation(withoutLastPart(object)))
        .filter((drop) => fateOf(ground, drop)?.goneWith == null)
        .flatMap((drop) => {
          const gap = gapOf(ground, drop);
          if (gap === null) return [];
          const { object } = drop;
          const relation = withoutLastPart(object);
          const later = gap.equal && `, and makes ${gap.equal} in its place in a later transaction`;
          return [
            {
              statement: dropperOf(ground, 'constraint', object),
              relation,
              severity: milder(weighBreakage(ground, relation)),
              message: `drops the constraint ${object}${later ?? ''}`,
              evidence: relationEvidence(ground, relation),
              advice:
                'If another one takes its place, add that one first (NOT VALID, then VALIDATE CONSTRAINT).',
            },
          ];
        }),
  },
];

/** What the schema comparison calls dropped, and not made again under the same name. */
function dropped(ground: HazardContext, kind: string): SchemaChange[] {
  const changes = ground.facts.schema?.changes ?? [];
  const drops = changes.filter((change) => change.verb === 'drop' && change.kind === kind);
  return drops.filter(({ object, dataLoss }) => dataLoss || !ground.changed('create', object));
}

const known = new WeakMap<HazardContext, ReadonlyMap<string, number>>();

/** The statement that names what it drops; null where a function or a DO block did it. */
function dropperOf(ground: HazardContext, kind: string, object: string): number | null {
  const found = known.get(ground) ?? droppers(ground);
  known.set(ground, found);
  return found.get(`${kind} ${object}`) ?? null;
}

function droppers(ground: HazardContext): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const note = (kind: string, object: string, { index }: StatementSection) => {
    const key = `${kind} ${object}`;
    if (!found.has(key)) found.set(key, index);
  };
  for (const { statement, action } of ground.met('drop'))
    for (const name of action.objects)
      note(
        action.kind,
        action.kind === 'schema' ? displayName(name.name) : ground.resolve(name, statement),
        statement,
      );
  for (const { statement, action, relation } of metOn(ground, 'drop column'))
    note('column', `${relation}.${displayName(action.column)}`, statement);
  for (const { statement, action, relation } of metOn(ground, 'drop constraint'))
    note('constraint', `${relation}.${displayName(action.constraint)}`, statement);
  return found;
}

function isCascade(action: Action): boolean {
  return 'cascade' in action && action.cascade;
}

/** Something that a statement names itself. */
interface Named {
  /** As the schema comparison calls it. */
  readonly kind: string;
  /** Where the statement says no schema, and the relation is not known, without one. */
  readonly name: string;
  /** The relation that was there before and that it is, or is a part of. */
  readonly relation: string | null;
}

function namesOf(ground: HazardContext, action: Action, statement: StatementSection): Named[] {
  const known = (relation: string) => (ground.relation(relation) ? relation : null);
  if (action.does === 'drop column' || action.does === 'drop constraint') {
    const relation = ground.resolve(action.table, statement);
    const [kind, part] =
      action.does === 'drop column' ? ['column', action.column] : ['constraint', action.constraint];
    return [{ kind, name: `${relation}.${displayName(part)}`, relation: known(relation) }];
  }
  if (action.does !== 'drop' && action.does !== 'truncate') return [];
  const kind = action.does === 'drop' ? action.kind.replaceAll('_', ' ') : 'table';
  const objects = action.does === 'drop' ? action.objects : action.tables;
  return objects.map((object) => {
    if (kind === 'table' || kind === 'materialized view') {
      const name = ground.resolve(object, statement);
      return { kind, name, relation: known(name) };
    }
    const name = object.schema === null ? displayName(object.name) : displayName(object.schema, object.name);
    return { kind, name, relation: null };
  });
}

/** It was there before, as far as that is known. */
function isOld(ground: HazardContext, named: Named): boolean {
  if (named.relation !== null || ground.facts.schema === null) return true;
  return drops(ground).some((drop) => isNamed(drop, named));
}

const ROUTINES = ['function', 'procedure', 'aggregate'];

function isNamed({ kind, name }: Drop, named: Named): boolean {
  const isKind = kind === named.kind || (named.kind === 'routine' && ROUTINES.includes(kind));
  return isKind && (name === named.name || name.endsWith(`.${named.name}`));
}

/** TRUNCATE … CASCADE locks the tables that it empties as well. */
function emptiedToo(ground: HazardContext, statement: StatementSection): string[] {
  const [truncate] = ground.asked(statement, 'truncate');
  if (!truncate) return [];
  const named = truncate.action.tables.map((table) => ground.resolve(table, statement));
  return ground
    .taken(statement, 'reads')
    .filter(({ relation }) => !named.includes(relation))
    .map(({ relation }) => `the rows of ${relation}`);
}

const collateralOf = new WeakMap<HazardContext, readonly string[]>();

/** What went although no statement names it, and that is no part of something else that went. */
function collateral(ground: HazardContext): readonly string[] {
  const before = collateralOf.get(ground);
  if (before) return before;
  const named = (['drop', 'drop column', 'drop constraint'] as const).flatMap((does) =>
    ground.met(does).flatMap(({ action, statement }) => namesOf(ground, action, statement)),
  );
  const found = drops(ground)
    .filter((drop) => fateOf(ground, drop)?.goneWith == null)
    .filter((drop) => !named.some((each) => isNamed(drop, each)))
    .map(({ kind, object }) => `${kind} ${object}`);
  collateralOf.set(ground, found);
  return found;
}

interface Drop {
  readonly kind: string;
  readonly object: string;
  /** The object without the types of its arguments. */
  readonly name: string;
}

const dropsOf = new WeakMap<HazardContext, readonly Drop[]>();

function drops(ground: HazardContext): readonly Drop[] {
  const before = dropsOf.get(ground);
  if (before) return before;
  const found = (ground.facts.schema?.changes ?? [])
    .filter(({ verb }) => verb === 'drop')
    .map(({ kind, object }) => ({
      kind,
      object,
      name: ROUTINES.includes(kind) ? object.replace(/\(.*\)$/s, '') : object,
    }));
  dropsOf.set(ground, found);
  return found;
}

function fateOf(
  { facts }: HazardContext,
  { kind, object }: Pick<Drop, 'kind' | 'object'>,
): DroppedFacts | undefined {
  return facts.catalogue.dropped.get(`${kind} ${object}`);
}

/**
 * The time in which nothing holds the rule of a constraint that was dropped, until an equal one comes or for good. null
 * where there is none: an equal one was there before it went, or came in the same transaction; or what made that cannot
 * be told, because a function did it.
 */
function gapOf(ground: HazardContext, drop: SchemaChange): { readonly equal: string | null } | null {
  const equal = fateOf(ground, drop)?.keptAs ?? null;
  if (equal === null) return { equal };
  const index = dropperOf(ground, drop.kind, drop.object);
  const dropper = ground.facts.statements.find((statement) => statement.index === index);
  const makers = metOn(ground, 'add constraint').filter(
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
