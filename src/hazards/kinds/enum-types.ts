import { listed } from '../../format.ts';
import { enumValues } from '../../postgres/sql/enum-values.ts';
import { bare, displayName, lastPart, literal, withoutLastPart } from '../../postgres/sql/quote.ts';
import { isNamed } from '../explained-probes.ts';
import type { Finding, HazardRecord } from '../hazard-definition.ts';
import { statementOfDrop } from './named-objects.ts';

/** Removed values of enum types, and lists that lack new ones. A renamed value breaks code as a renamed column does. */
export const ENUM_TYPES: readonly HazardRecord[] = [
  {
    code: 'ENUM_VALUE_REMOVED',
    title: 'an enum type loses a value',
    condition:
      'An enum type that existed before lacks a value that it had. PostgreSQL cannot drop a value: the type is made again without it, and takes the old name.',
    effect:
      'Code that writes the value or compares with it fails with SQLSTATE 22P02 from the commit on, also if no row has it.',
    safer:
      'First release code that does not use the value. It may also stay in the type: an unused value costs nothing.',
    find: (context) =>
      (context.facts.schema?.objects ?? []).flatMap(
        ({ kind, object, formerly, before, after }): Finding[] => {
          if (kind !== 'type' || before === null || after === null) return [];
          const renamed = new Set(
            (context.facts.schema?.renames ?? [])
              .filter(
                (each) => each.kind === 'enum value' && withoutLastPart(each.from) === (formerly ?? object),
              )
              .map(({ from }) => bare(lastPart(from))),
          );
          const now = new Set(enumValues(after));
          const removed = enumValues(before).filter((value) => !now.has(value) && !renamed.has(value));
          if (removed.length === 0) return [];
          const taken = context
            .actionsOf('rename')
            .findLast(({ action }) => action.object !== null && displayName(action.to) === lastPart(object));
          return [
            {
              statement: taken?.statement.index ?? statementOfDrop(context, kind, object),
              relation: null,
              severity: 'warning',
              message: `${object} no longer has ${listed(removed.map(literal))}`,
              evidence: 'it is not known which code uses it',
              advice: 'First release code that does not use the value, or leave it in the type.',
            },
          ];
        },
      ),
  },
  {
    code: 'ENUM_VALUE_UNLISTED',
    title: 'a list of the values of an enum type lacks a new one',
    condition:
      'An enum type that existed before has a new value, and something in the database lists all others: a CHECK, the partitions of a table without a DEFAULT one, a policy, a view, or a function in SQL or PL/pgSQL. A list is IN, = ANY, comparisons joined by OR, or CASE without an ELSE, and has no other values. In a function it has three values or more, and the function names the type or a column of it.',
    effect:
      'A CHECK or a missing partition refuses rows with the new value (SQLSTATE 23514), and a CASE statement fails (20000). A policy or view leaves such rows out, or shows NULL.',
    safer:
      'Extend the list in the next migration, since the transaction that adds a value cannot use it, and release code that writes the value after that.',
    find: (context) =>
      context.facts.catalogue.effects.unlisted.map(({ type, labels, kind, object, relation, refuses }) => {
        const adding = context.facts.statements.findLast(
          ({ tag, error, sql }) =>
            tag === 'ALTER TYPE' &&
            error === null &&
            isNamed(sql, bare(type)) &&
            isNamed(sql, literal(labels[0] ?? '')),
        );
        return {
          statement: adding?.index ?? null,
          relation: relation !== null && context.relation(relation) ? relation : null,
          severity: refuses ? 'warning' : 'notice',
          message: `${LISTS[kind]} ${object} lack${kind === 'partitions' ? '' : 's'} ${listed(labels.map(literal))} of ${type}${refuses ? ': rows or calls with the new value fail' : ', and has all other values'}`,
          evidence: 'its definition after the command',
          advice: 'Extend it in the next migration, before code writes the new value.',
        };
      }),
  },
];

const LISTS = {
  check: 'the constraint',
  policy: 'the policy',
  view: 'the view',
  partitions: 'the partitions of',
  function: 'the function',
} as const;
