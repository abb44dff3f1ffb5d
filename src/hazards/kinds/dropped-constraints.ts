import { listed } from '../../format.ts';
import type { LostKey, LostSearch } from '../../model/effect-facts.ts';
import { bare, displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import { isNamed, lastNaming } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, sqlAdvice } from '../hazard-definition.ts';
import { milder, type Severity, weighBreakage, worst } from '../severity.ts';
import { droppedObjects, fateOf, gapOf, indexOfDrop } from './dropped-objects.ts';
import { ofKind } from './redefined.ts';

/** Finds dropped constraints of tables and domains, and dropped unique indexes that no probe has tried. */
export function droppedRules(context: HazardContext): Finding[] {
  return [...droppedConstraints(context), ...droppedOfDomains(context), ...droppedUniqueIndexes(context)];
}

function droppedConstraints(context: HazardContext): Finding[] {
  return droppedObjects(context, 'constraint')
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
          statement: indexOfDrop(context, 'constraint', object),
          relation,
          severity: weighConstraint(context, object, gap.equal !== null),
          message: `drops the constraint ${object}${later ?? ''}`,
          evidence: relationEvidence(context, relation),
          advice:
            'If another constraint replaces it, add that one first (NOT VALID, then VALIDATE CONSTRAINT).',
        },
      ];
    });
}

/** Constraints of domains that columns of tables have. */
function droppedOfDomains(context: HazardContext): Finding[] {
  return ofKind(context, 'domain check').flatMap(({ relation: domain, name, before, after }): Finding[] => {
    const object = `${domain}.${displayName(name)}`;
    const fate = fateOf(context, { kind: 'constraint', object });
    const tables = before?.split(', ').filter((table) => context.relation(table)) ?? [];
    const used = tables.filter((table) => weighBreakage(context, table) !== 'notice');
    const relation = used[0] ?? tables[0];
    if (after !== null || relation === undefined || !fate || fate.goneWith !== null || fate.keptAs !== null)
      return [];
    return [
      {
        statement: lastNaming(context, object),
        relation,
        severity: used.length > 0 ? 'warning' : 'notice',
        message: `drops the constraint ${object} of a domain: columns of ${listed(tables)} take any value of its type`,
        evidence: relationEvidence(context, relation),
        advice: sqlAdvice(
          'If another constraint replaces it, first:',
          `ALTER DOMAIN ${domain} ADD CONSTRAINT … CHECK (…) NOT VALID`,
        ),
      },
    ];
  });
}

/** Probes raise a lost CHECK or foreign key. Without a key, code finds two rows and expects one. */
function weighConstraint(context: HazardContext, object: string, isLater: boolean): Severity {
  const relation = withoutLastPart(object);
  const weight = weighBreakage(context, relation);
  const isLost = context.facts.catalogue.effects.lostKeys.some(
    (key) =>
      key.isConstraint &&
      key.relation === relation &&
      lastPart(key.index) === lastPart(object) &&
      (key.builtAs === null || isLater),
  );
  return isLost && weight !== 'notice' ? worst(['warning', milder(weight)]) : milder(weight);
}

/** Unique indexes without a constraint. Probes try those of columns alone: they are reported here if no probe found a duplicate accepted. */
function droppedUniqueIndexes(context: HazardContext): Finding[] {
  const { lostKeys, probes } = context.facts.catalogue.effects;
  return lostKeys
    .filter(({ isConstraint, relation }) => !isConstraint && context.relation(relation))
    .filter(
      ({ isPlain, relation, builtAs }) =>
        !isPlain ||
        builtAs !== null ||
        !probes.some((probe) => probe.relation === relation && probe.kind === 'accepts more'),
    )
    .filter((key) => isByItself(context, key) && !isOfRetyped(context, key))
    .filter((key) => key.builtAs === null || isBuiltLater(context, key.builtAs, key.index))
    .map(({ relation, index, parts, predicate, builtAs }): Finding => {
      const key = `(${parts.join(', ')})${predicate === null ? '' : ` WHERE ${predicate}`}`;
      const consequence =
        builtAs === null
          ? `and no other one of ${relation} refuses the same duplicates`
          : `and builds ${builtAs} in a later transaction: duplicates are accepted until then, and make it fail`;
      return {
        statement: indexOfDrop(context, 'index', index),
        relation,
        severity: builtAs === null ? weighLostKey(context, relation) : weighBreakage(context, relation),
        message: `drops the unique index ${index} on ${key}, ${consequence}`,
        evidence: relationEvidence(context, relation),
        advice: sqlAdvice(
          'If duplicates are still to be refused, outside of a transaction before the drop:',
          `CREATE UNIQUE INDEX CONCURRENTLY ${displayName(`${bare(index)}_new`)} ON ${relation} ${key}`,
        ),
      };
    });
}

function weighLostKey(context: HazardContext, relation: string): Severity {
  return context.relation(relation)?.rows === 0 ? 'notice' : 'warning';
}

/** Tells if an index was dropped in a transaction before the one that builds another in its place. */
function isBuiltLater(context: HazardContext, built: string, dropped: string): boolean {
  const dropper = context.facts.statements.find(
    ({ index }) => index === indexOfDrop(context, 'index', dropped),
  );
  const makers = context
    .actionsOf('create index')
    .filter(({ action }) => action.index !== null && displayName(action.index) === lastPart(built));
  return (
    dropper !== undefined &&
    makers.length > 0 &&
    makers.every(
      ({ statement }) => statement.index > dropper.index && statement.transaction !== dropper.transaction,
    )
  );
}

/** Indexes whose first column or expression no other one has. Foreign keys without an index have their own hazard. */
export function lostSearches(context: HazardContext): LostSearch[] {
  const { effects, unindexedForeignKeys } = context.facts.catalogue;
  const unindexed = [...unindexedForeignKeys.values()].filter(({ known }) => !known);
  return effects.lostSearches
    .filter((index) => context.relation(index.relation) && isByItself(context, index))
    .filter((index) => !isOfRetyped(context, { ...index, parts: [index.part], predicate: null }))
    .filter(
      ({ relation, part }) =>
        !unindexed.some(
          (key) => key.relation === relation && key.columns.some((each) => part === displayName(each)),
        ),
    );
}

/** Tells if an index was dropped alone, and not with its table or a column. */
function isByItself(
  context: HazardContext,
  { relation, index, isConstraint }: Omit<LostSearch, 'part'>,
): boolean {
  const dropped = isConstraint
    ? { kind: 'constraint', object: `${relation}.${lastPart(index)}` }
    : { kind: 'index', object: index };
  return fateOf(context, dropped)?.goneWith == null;
}

/** Tells if a column has another type, by which the same values may be equal: `lower(email)` and a citext. */
function isOfRetyped(
  context: HazardContext,
  { relation, parts, predicate }: Pick<LostKey, 'relation' | 'parts' | 'predicate'>,
): boolean {
  const text = `${parts.join(' ')} ${predicate ?? ''}`;
  return context.facts.catalogue.definitions.retyped.some(
    ({ object }) => withoutLastPart(object) === relation && isNamed(text, bare(object)),
  );
}
