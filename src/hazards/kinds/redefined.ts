import type { ChangedDefinition } from '../../model/definition-kinds.ts';
import { bare, displayName } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import { lastNaming } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, type HazardTexts, sqlAdvice } from '../hazard-definition.ts';
import { type Severity, weighBreakage } from '../severity.ts';

/** Objects that keep their name and mean something else. */
export const REDEFINED: readonly HazardRecord[] = [
  redefined(
    'constraint',
    {
      code: 'CONSTRAINT_CHANGED',
      title: 'a constraint means something else under its name',
      condition:
        'A foreign key, unique, primary or exclusion constraint has the same name as before and another definition: other columns, another action on delete, another time of the check. Or one of these or a CHECK is enforced no longer, or again. Other changes of a CHECK are tried: ACCEPTS_MORE.',
      effect:
        'A DELETE that was refused removes other rows, or one that removed them is refused; a transaction that relied on the deferred check fails at once; ON CONFLICT finds no constraint.',
      safer:
        'Give the new constraint a new name, and drop the old one when running code does not rely on it any more.',
    },
    (context, { relation }) => weighBreakage(context, relation),
    'Make sure that running code expects the new definition.',
  ),
  withAlso(
    redefined(
      'trigger',
      {
        code: 'TRIGGER_CHANGED',
        title: 'a trigger fires for other events or in another order, or runs another function',
        condition:
          'A trigger of a table has the same name as before and another definition. Or triggers of one event fire in another order, because one of them is renamed.',
        effect:
          'Writes succeed without the work of the trigger, or do something else. Nothing fails, so it goes unnoticed.',
        safer: 'Create a trigger with a new name, and drop the old one when its work is superfluous.',
      },
      (context, { relation }) => weighBreakage(context, relation),
      'Make sure that the events which the trigger no longer names need none.',
    ),
    otherOrder,
  ),
  redefined(
    'rule',
    {
      code: 'RULE_ADDED',
      title: 'a rule rewrites the statements of a table',
      condition:
        'An existing table or view has a new rule, or another definition of one. A notice for a view, unless an UPDATE or DELETE of the rule has no WHERE with OLD or NEW.',
      effect:
        'Statements do something else, or nothing at all, and report success: with DO INSTEAD NOTHING written rows vanish, and without a WHERE with OLD each statement changes all rows. INSERT … RETURNING and COPY behave differently.',
      safer: 'Use a trigger, which can raise an error.',
    },
    (context, rule) => (context.relation(rule.relation) || changesAll(rule) ? 'warning' : 'notice'),
    'Use a trigger instead.',
  ),
  redefined(
    'attribute',
    {
      code: 'TYPE_ATTRIBUTE_CHANGED',
      title: 'an attribute of a composite type has another name or type',
      condition: 'An attribute of a composite type that existed before is renamed, or has another type.',
      effect: 'Queries and functions that read the attribute by its old name fail with SQLSTATE 42703.',
      safer: 'Add an attribute, release code that reads it, and leave the old one.',
    },
    () => 'warning',
    'Make sure that no query or function names the attribute as before.',
  ),
  redefined(
    'rights',
    {
      code: 'FUNCTION_RIGHTS_CHANGED',
      title: 'a function runs with the rights of another role',
      condition:
        'A function that existed before is SECURITY INVOKER instead of SECURITY DEFINER, or the other way round.',
      effect:
        'As SECURITY INVOKER it fails with SQLSTATE 42501 for callers without privileges on the tables that it uses; as SECURITY DEFINER callers get the rights of its owner.',
      safer: 'First grant the callers privileges on the tables that it uses.',
    },
    () => 'warning',
    'Call the function as the role of the application.',
  ),
  {
    code: 'DEFAULT_PARTITION_LOST',
    title: 'a partitioned table has no DEFAULT partition any more',
    condition:
      'The DEFAULT partition of a table is dropped or detached, and no other one takes its place. It may have been empty.',
    effect:
      'An INSERT or UPDATE of a row that belongs to none of the other partitions fails with SQLSTATE 23514.',
    safer:
      'First create partitions for all values that the application may write, or keep an empty DEFAULT partition.',
    find: (context) =>
      ofKind(context, 'default partition')
        .filter(
          ({ relation, after }) =>
            after === null &&
            !context.changed('drop', relation) &&
            !context.facts.catalogue.renamed.has(relation),
        )
        .map(({ relation, before }) => ({
          statement: losingPartition(context, before ?? ''),
          relation,
          severity: weighBreakage(context, relation),
          message: `${relation} has no DEFAULT partition any more: a row that no other partition takes is refused`,
          evidence: `${displayName(before ?? '')} was its DEFAULT partition; ${relationEvidence(context, relation)}`,
          advice: sqlAdvice(
            'In the same transaction, under a name of your own:',
            `CREATE TABLE ${relation}_rest PARTITION OF ${relation} DEFAULT`,
          ),
        })),
  },
  {
    code: 'REFRESH_NEEDS_KEY',
    title: 'a materialized view can no longer be refreshed while it is read',
    condition:
      'A materialized view had a unique index of columns, without a WHERE, and has none after the command.',
    effect:
      'REFRESH MATERIALIZED VIEW CONCURRENTLY fails with SQLSTATE 55000, and the view keeps its old rows from then on; without CONCURRENTLY its readers wait.',
    safer: 'First create the other unique index with CONCURRENTLY.',
    find: (context) =>
      ofKind(context, 'refreshable')
        .filter(({ relation, after }) => after === null && !context.changed('drop', relation))
        .filter(({ relation }) => !context.facts.catalogue.renamed.has(relation))
        .map(({ relation }) => ({
          statement: null,
          relation,
          severity: 'warning',
          message: `${relation} has no unique index any more, which REFRESH … CONCURRENTLY needs`,
          evidence: relationEvidence(context, relation),
          advice: sqlAdvice(
            'Outside of a transaction, before the old one is dropped:',
            `CREATE UNIQUE INDEX CONCURRENTLY … ON ${relation} (…)`,
          ),
        })),
  },
  {
    code: 'NULL_ACTION_REFUSED',
    title: 'a foreign key sets a required column to NULL',
    condition:
      'A foreign key has ON DELETE or ON UPDATE SET NULL although a column that it sets is NOT NULL, and had not before.',
    effect:
      'Each DELETE of a row that is referred to fails with SQLSTATE 23502, which names the referring table.',
    safer:
      'ON DELETE RESTRICT or CASCADE, or a column that may be NULL (https://www.postgresql.org/docs/current/ddl-constraints.html).',
    find: (context) =>
      ofKind(context, 'null action')
        .filter(({ before }) => before === null)
        .map(({ relation, name, after }) => ({
          statement:
            context.actionsOf('add constraint').findLast(({ action }) => action.constraint === name)
              ?.statement.index ?? null,
          relation,
          severity: 'warning',
          message: `${displayName(name)} sets a NOT NULL column of ${relation} to NULL: each DELETE of a row that is referred to fails`,
          evidence: after ?? '',
          advice: sqlAdvice(
            'If the column may be empty:',
            `ALTER TABLE ${relation} ALTER COLUMN … DROP NOT NULL`,
          ),
        })),
  },
];

/** Definitions of one kind that changed. */
export function ofKind(context: HazardContext, kind: ChangedDefinition['kind']): ChangedDefinition[] {
  return context.facts.catalogue.effects.redefined.filter((definition) => definition.kind === kind);
}

/** The statement that drops or detaches a partition, by its last name. */
function losingPartition(context: HazardContext, partition: string): number | null {
  const dropped = context
    .actionsOf('drop')
    .find(({ action }) => action.objects.some(({ name }) => name === partition));
  const detached = context
    .actionsOf('detach partition')
    .find(({ action }) => action.partition.name === partition);
  return (dropped ?? detached)?.statement.index ?? null;
}

/** @param isOther tells if a changed definition does not count. */
export function redefined(
  kind: ChangedDefinition['kind'],
  texts: HazardTexts,
  severityOf: (context: HazardContext, definition: ChangedDefinition) => Severity,
  advice: string,
  isOther: (context: HazardContext, definition: ChangedDefinition) => boolean = () => false,
): HazardRecord {
  return {
    ...texts,
    find: (context) =>
      ofKind(context, kind).flatMap((definition): Finding[] => {
        if (isOther(context, definition)) return [];
        const { relation, before, after } = definition;
        const isKnown = context.relation(relation) !== undefined;
        const message = `${subjectOf(definition)}: ${after}${before === null ? '' : `; before: ${before}`}${consequenceOf(definition)}`;
        return [
          {
            statement: statementOf(context, definition),
            relation: isKnown ? relation : null,
            severity: severityOf(context, definition),
            message,
            evidence: isKnown
              ? relationEvidence(context, relation)
              : 'its definition before and after the command',
            advice,
          },
        ];
      }),
  };
}

function statementOf(context: HazardContext, { kind, relation, name }: ChangedDefinition): number | null {
  // Sessions set it for themselves, too.
  if (kind === 'setting') return null;
  const isWhole = kind === 'rights' || kind === 'attribute';
  return lastNaming(context, isWhole ? relation : `${relation}.${displayName(name)}`);
}

function withAlso(hazard: HazardRecord, also: HazardRecord['find']): HazardRecord {
  return { ...hazard, find: (context) => [...hazard.find(context), ...also(context)] };
}

/** Finds triggers of one event that fire in another order under their new names; once for each table. */
function otherOrder(context: HazardContext): Finding[] {
  const renames = context.facts.schema?.renames.filter(({ kind }) => kind === 'trigger') ?? [];
  const found = ofKind(context, 'trigger order').flatMap(({ relation, name, before, after }): Finding[] => {
    const nowOf = (trigger: string) =>
      bare(renames.find(({ from }) => from === `${relation}.${displayName(trigger)}`)?.to ?? trigger);
    const [was, is] = [before, after].map((list) => list?.split(', ') ?? []) as [string[], string[]];
    const then = was.map(nowOf);
    const isSame = then.every((trigger, at) => trigger === is[at]);
    if (then.length !== is.length || isSame || !then.every((trigger) => is.includes(trigger))) return [];
    const moved = is.find((trigger) => !was.includes(trigger));
    return [
      {
        // Triggers that swap their names leave no new name to look for.
        statement: moved === undefined ? null : lastNaming(context, `${relation}.${displayName(moved)}`),
        relation,
        severity: weighBreakage(context, relation),
        message: `triggers of ${relation} fire in another order ${name}: ${after}; before: ${before}`,
        evidence: relationEvidence(context, relation),
        advice: 'Triggers of one event fire in the order of their names: choose one that keeps its place.',
      },
    ];
  });
  return found.filter((each, at) => found.findIndex(({ relation }) => relation === each.relation) === at);
}

function consequenceOf(definition: ChangedDefinition): string {
  if (losesConflicts(definition)) return '; ON CONFLICT can no longer use it, and fails';
  return changesAll(definition) ? '; each statement changes rows that it does not ask for' : '';
}

/** Tells if a rule has an UPDATE or DELETE whose rows do not depend on those of the statement. */
function changesAll({ kind, after }: ChangedDefinition): boolean {
  const [, actions = ''] = /\sDO (?:INSTEAD )?\s*\(?(.*)$/s.exec(kind === 'rule' ? (after ?? '') : '') ?? [];
  return (actions.match(/(?:'(?:[^']|'')*'|"[^"]*"|[^;])+/g) ?? []).some(
    (action) => /^\s*(?:UPDATE|DELETE)\b/.test(action) && !/\b(?:old|new)\b/.test(conditionOf(action)),
  );
}

/** A statement from its own WHERE on; empty: it has none outside of parentheses. */
function conditionOf(statement: string): string {
  let depth = 0;
  for (const { 0: token, index } of statement.matchAll(/'(?:[^']|'')*'|"[^"]*"|[()]|\bWHERE\b/g)) {
    if (token === 'WHERE' && depth === 0) return statement.slice(index);
    depth += token === '(' ? 1 : token === ')' ? -1 : 0;
  }
  return '';
}

/** Tells if a key has become DEFERRABLE, which the server refuses as an arbiter (SQLSTATE 55000). */
function losesConflicts({ kind, before, after }: ChangedDefinition): boolean {
  const [was, is] = [before, after].map((text) =>
    / DEFERRABLE\b/.test(text?.replace('NOT DEFERRABLE', '') ?? ''),
  );
  return (
    kind === 'constraint' && /^(?:UNIQUE|PRIMARY KEY)\b/.test(after ?? '') && is === true && was === false
  );
}

function subjectOf({ kind, relation, name }: ChangedDefinition): string {
  if (kind === 'setting') return `the setting ${name} of ${relation}`;
  if (kind === 'rights') return `the function ${relation}(${name})`;
  return kind === 'attribute' ? `the type ${relation}` : `the ${kind} ${displayName(name)} of ${relation}`;
}
