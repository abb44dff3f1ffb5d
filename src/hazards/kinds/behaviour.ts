import type { DefinitionFacts } from '../../model/hazard-facts.ts';
import { bare, displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { changeFinding, type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { milder, weighBreakage, worst } from '../severity.ts';
import { changedFunctions } from './changed-functions.ts';
import { droppedObjects, fateOf } from './dropped-objects.ts';
import { statementOfDrop } from './named-objects.ts';
import { ofKind } from './redefined.ts';

/** Statements of running code that still succeed, and do something else than before. */
export const BEHAVIOUR: readonly HazardRecord[] = [
  {
    code: 'TRIGGER_OFF',
    title: 'a trigger of a table no longer fires',
    condition:
      'A trigger of a table that existed before is dropped without another of its name, or is disabled after the command, also in a partition alone; triggers of foreign keys, too (DISABLE TRIGGER ALL).',
    effect:
      'Writes succeed without what the trigger did: checks, audit rows, computed values, copies for others. Nothing fails, so it goes unnoticed.',
    safer:
      'First release code that does its work; enable each trigger again in the same transaction (https://www.postgresql.org/docs/current/sql-altertable.html, DISABLE TRIGGER).',
    find: (context) => [...droppedTriggers(context), ...disabledTriggers(context)],
  },
  {
    code: 'TRIGGER_ADDED',
    title: 'each write of a table runs a new trigger',
    condition:
      'CREATE TRIGGER on a table that existed before the command and had no trigger of that name. A warning if a write like those of an application was accepted before and no longer is.',
    effect:
      'From the commit on, writes of running code do what the trigger does: it may change or refuse a row, takes its time for each row, and locks what it writes.',
    safer:
      'Try the writes of the application with it (--load-command, --queries); a trigger that may refuse rows comes after the code that writes them as it demands (https://www.postgresql.org/docs/current/trigger-definition.html).',
    find: (context) => addedTriggers(context),
  },
  {
    code: 'DEFAULT_CHANGED',
    title: 'a column gets another value if running code does not name it',
    condition:
      'A column that existed before loses its default, or its default becomes a constant or another one; or a generated column is an ordinary one after the command. A default that only changes with the type of its column, or that becomes an identity, is not found. A warning if a computed value becomes a constant one, or is computed no more.',
    effect:
      'INSERTs that do not name the column fail if it is NOT NULL (SQLSTATE 23502), store NULL if it is not, or store another value than the code expects.',
    safer:
      'First release code that writes the column itself (https://www.postgresql.org/docs/current/ddl-default.html).',
    find: (context) => [
      ...[...context.facts.catalogue.definitions.defaults].flatMap(([object, facts]) =>
        changedDefault(context, object, facts),
      ),
      ...noLongerGenerated(context),
    ],
  },
  {
    code: 'FUNCTION_CHANGED',
    title: 'a function returns something else, locks nothing any more, or is planned in another way',
    condition:
      'A function that existed before has another result type after the command; it becomes STRICT (a notice if it was IMMUTABLE, in SQL, and its body does nothing for NULLs); or it has another volatility (IMMUTABLE, STABLE, VOLATILE): a warning if policies or views call it and it became VOLATILE, or it became IMMUTABLE although its body asks for the session or the time. Or its body had FOR UPDATE, FOR NO KEY UPDATE, LOCK or an exclusive advisory lock, and neither it nor a function that it calls has one any more; a notice if it reads nothing before it writes. Or its body had nextval(), and has max() or count() in its place.',
    effect:
      'Callers get values of a type that they do not expect, and prepared statements fail until they are prepared again. A STRICT function does nothing for calls with NULL, and returns NULL. Without the lock two callers can take the same row, or overwrite the changes of each other; without the sequence they get the same number. With another volatility the planner evaluates the function once instead of for each row or the other way round, and an index on a function that is not IMMUTABLE cannot be built again.',
    safer:
      'Create the new function under another name, and drop the old one when no code calls it (https://www.postgresql.org/docs/current/xfunc-volatility.html).',
    find: changedFunctions,
  },
];

function droppedTriggers(context: HazardContext): Finding[] {
  return droppedObjects(context, 'trigger')
    .filter(
      (drop) => context.relation(withoutLastPart(drop.object)) && fateOf(context, drop)?.goneWith == null,
    )
    .map(({ object }) => {
      const relation = withoutLastPart(object);
      return changeFinding(
        context,
        statementOfDrop(context, 'trigger', object),
        relation,
        `drops the trigger ${lastPart(object)}: writes to ${relation} no longer do what it did`,
        'Make sure that running code does without what the trigger did, or does it itself.',
      );
    });
}

function addedTriggers(context: HazardContext): Finding[] {
  const replaced = new Set(droppedObjects(context, 'trigger').map(({ object }) => object));
  return context
    .changes('create', 'trigger')
    .filter(({ object }) => context.relation(withoutLastPart(object)) && !replaced.has(object))
    .map(({ object }): Finding => {
      const relation = withoutLastPart(object);
      const maker = context.actionsOn('create trigger').findLast(({ part }) => part === object);
      return {
        statement: maker?.statement.index ?? null,
        relation,
        severity: 'notice',
        message: `creates the trigger ${lastPart(object)}: writes to ${relation} run it from now on`,
        evidence: relationEvidence(context, relation),
        advice:
          'Make sure that the writes of running code pass it, and that it takes no longer than they may.',
      };
    });
}

function disabledTriggers(context: HazardContext): Finding[] {
  const { unenforced, disabledInPartitions } = context.facts.catalogue.definitions;
  const named = context
    .changes('alter', 'trigger')
    .filter(({ sql }) => / (?:DISABLE|ENABLE REPLICA) TRIGGER /.test(sql))
    .map(({ object }) => ({ object, what: 'trigger', least: 'notice' as const }));
  // In the other partitions it still fires: that is hardly ever meant.
  const apart = disabledInPartitions.map((object) => ({
    object,
    what: 'trigger',
    least: 'warning' as const,
  }));
  // The rows of a table without its foreign keys cannot be trusted any more, whoever uses it.
  const internal = unenforced.map((object) => ({ object, what: 'foreign key', least: 'error' as const }));
  return [...internal, ...named, ...apart]
    .map(({ object, ...rest }) => ({ relation: withoutLastPart(object), name: lastPart(object), ...rest }))
    .filter(({ relation }) => context.relation(relation))
    .map(({ relation, name, what, least }) => ({
      statement:
        context
          .actionsOn('disable trigger')
          .findLast(
            (each) =>
              each.relation === relation &&
              (each.action.trigger === null || (what === 'trigger' && each.action.trigger === bare(name))),
          )?.statement.index ?? null,
      relation,
      severity: worst([least, weighBreakage(context, relation)]),
      message: `the ${what} ${name} of ${relation} is left disabled`,
      evidence: relationEvidence(context, relation),
      advice: sqlAdvice(
        'At the end of the transaction that disables it:',
        `ALTER TABLE ${relation} ENABLE TRIGGER ${what === 'trigger' ? name : 'ALL'}`,
      ),
    }));
}

type DefaultFacts = DefinitionFacts['defaults'] extends ReadonlyMap<string, infer Facts> ? Facts : never;

function changedDefault(context: HazardContext, object: string, facts: DefaultFacts): Finding[] {
  const relation = withoutLastPart(object);
  if (!context.relation(relation) || facts.generated) return [];
  const then = withoutCast(facts.before);
  const now = facts.after === null ? null : withoutCast(facts.after);
  const isDropped = now === null;
  const isFrozen = !isDropped && !isConstant(then) && isConstant(now);
  if (!isDropped && !isFrozen && (!isConstant(then) || then === now)) return [];
  const does = isDropped ? 'drop default' : 'set default';
  const all = context.actionsOn(does).filter(({ action }) => displayName(action.column) === lastPart(object));
  const own = all.filter((each) => each.relation === relation);
  // The partitions of a table follow it.
  if (own.length === 0 && all.length > 0) return [];
  const fills = context.actionsOn('create trigger').some((each) => each.relation === relation);
  const breaks = isDropped && facts.notNull && !fills;
  const result = now ?? (facts.notNull ? 'no value' : 'NULL');
  // Code leaves numbers and keys to the server. Whether it names a column with a constant default, only its own INSERTs show.
  const weight = weighBreakage(context, relation);
  const dropped = breaks && !isConstant(then) ? weight : milder(weight);
  return [
    {
      statement: own.at(-1)?.statement.index ?? null,
      relation,
      severity: isFrozen ? 'warning' : isDropped ? dropped : 'notice',
      message: breaks
        ? `each INSERT into ${relation} must name ${lastPart(object)}, whose default ${then} is dropped`
        : `an INSERT that does not name ${object} stores ${result} instead of ${then}`,
      evidence: relationEvidence(context, relation),
      advice: adviceOfDefault(context, object, then, isDropped),
    },
  ];
}

/** Another type may not take the default from before, or not mean the same by it. */
function adviceOfDefault(context: HazardContext, object: string, then: string, isDropped: boolean): string {
  const [relation, column] = [withoutLastPart(object), lastPart(object)];
  const setting = `ALTER TABLE ${relation} ALTER COLUMN ${column} SET DEFAULT`;
  const type = context.facts.catalogue.definitions.retyped.find((each) => each.object === object)?.to;
  if (type === undefined) return sqlAdvice('Until all running code writes the column:', `${setting} ${then}`);
  return isDropped
    ? sqlAdvice(`Until all running code writes the column, by a value of type ${type}:`, `${setting} …`)
    : `Make sure that the new default means the same in type ${type}.`;
}

/** Columns whose expression is dropped. Changes of the expression are made by dropping the column. */
function noLongerGenerated(context: HazardContext): Finding[] {
  return ofKind(context, 'generated')
    .filter(({ relation, name, after }) => {
      const column = `${relation}.${displayName(name)}`;
      const isGone = context.changed('drop', column) || context.changed('drop', relation);
      return after === null && context.relation(relation) && !isGone && !isRenamed(context, relation, column);
    })
    .map(({ relation, name, before }) => ({
      statement: null,
      relation,
      severity: 'warning',
      message: `${relation}.${displayName(name)} is no longer computed: an INSERT that does not name it stores NULL, and an UPDATE leaves it alone`,
      evidence: `its expression was ${before}; ${relationEvidence(context, relation)}`,
      advice: 'First release code that writes the column itself, or let a trigger compute it.',
    }));
}

function isRenamed(context: HazardContext, relation: string, column: string): boolean {
  const { renamed } = context.facts.catalogue;
  return renamed.has(relation) || (context.facts.schema?.renames ?? []).some(({ from }) => from === column);
}

/** `'new'::text` and `'new'::character varying` are the same value. */
function withoutCast(expression: string): string {
  return expression.replace(/::(?:"[^"]*"|[\w. ])+(?:\([\d,]+\))?$/, '');
}

function isConstant(expression: string): boolean {
  return /^(?:'(?:[^']|'')*'|-?[\d.]+|true|false)$/.test(expression);
}
