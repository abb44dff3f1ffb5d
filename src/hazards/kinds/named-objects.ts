import { listed } from '../../format.ts';
import type { SchemaChange } from '../../model/report.ts';
import type { Name } from '../../model/statement-actions.ts';
import { bare, displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { rowCount } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { type Severity, weighBreakage, worst } from '../severity.ts';
import { isOfFunction } from './changed-functions.ts';
import { droppedObjects, fateOf } from './dropped-objects.ts';
import { movedExtensions } from './moved-extensions.ts';
import { ofKind } from './redefined.ts';

const ROUTINES = ['function', 'procedure', 'aggregate'];
const DROPPED = ['view', 'materialized view', 'foreign table', 'sequence', ...ROUTINES, 'extension'];
const TYPES = ['type', 'domain'];
/** Tables, views and sequences have TABLE_RENAMED, columns and enum values codes of their own. */
const RENAMED = ['schema', ...TYPES, ...ROUTINES];

/** Objects that no column shows and that callers name: views, functions, sequences, types, schemas, extensions. */
export const OBJECTS: readonly HazardRecord[] = [
  {
    code: 'OBJECT_DROPPED',
    title: 'a view, function, sequence, type or extension that callers may use is dropped',
    condition:
      'A view, materialized view, foreign table, sequence, function, procedure, aggregate, extension, type or domain that existed before is gone. Not found: what a caller cannot name (trigger functions), what belonged to a dropped table, what CASCADE dropped (CASCADE), and a function whose replacement accepts the same calls. A notice for a type, and for a function that only its owner and superusers could call.',
    effect:
      'Code that still names it fails from the commit on, and the server knows of no dependency: neither the application nor the bodies of functions are checked.',
    safer:
      'First release code that does not use it. Rename it a migration before, so that it can be brought back at once (https://www.postgresql.org/docs/current/ddl-depend.html).',
    find: (context) => [...DROPPED, ...droppedTypeKinds(context)].flatMap((kind) => drops(context, kind)),
  },
  {
    code: 'OBJECT_RENAMED',
    title: 'a schema, type, function or extension that callers use is renamed or moved',
    condition:
      'A schema, type, domain, function, procedure or aggregate that existed before has a different name or schema. Or an extension has moved to a schema that is not in the search path of the database, or of a role with its own, and the former schema was.',
    effect:
      'Code that uses the old name fails from the commit until all of it is replaced; a schema takes its tables along, and search_path finds nothing under the old name. Without the operators of an extension a comparison may also mean something else: citext is compared as text.',
    safer:
      'Keep the old name until no code uses it: a function that calls the new one, a schema with views. First add the new schema of an extension to search_path (https://www.postgresql.org/docs/current/sql-alterschema.html).',
    find: (context) => [
      ...(context.facts.schema?.renames ?? [])
        .filter(({ kind }) => RENAMED.includes(kind))
        .filter(({ kind, to }) => !isTriggerFunction(context, kind, to))
        .map(({ kind, from, to }): Finding => {
          const inside = kind === 'schema' ? tablesIn(context, to) : [];
          const users = usersOf(context, from);
          return {
            statement: renaming(context, kind, from, to),
            relation: null,
            severity: worst([users.severity, ...inside.map((table) => weighBreakage(context, table))]),
            message: `the ${kind} ${from} is renamed to ${to}`,
            evidence: inside.length === 0 ? users.evidence : `${describeTables(inside)}; ${users.evidence}`,
            advice:
              kind === 'schema'
                ? sqlAdvice(
                    'In the same transaction, so that both names work until no code uses the old one:',
                    `CREATE SCHEMA ${from}`,
                    `CREATE VIEW ${from}.… AS SELECT * FROM ${to}.…`,
                  )
                : 'Keep an object with the old name beside it until no code uses it.',
          };
        }),
      ...movedExtensions(context),
    ],
  },
];

/** A type goes with the columns that had it, which have hazards of their own: it is news only if there were none. */
function droppedTypeKinds({ facts }: HazardContext): readonly string[] {
  const isWithColumns = facts.schema?.changes.some(
    ({ verb, kind, sql }) =>
      (verb === 'drop' && (kind === 'table' || kind === 'column')) ||
      (kind === 'column' && / TYPE /.test(sql)),
  );
  return isWithColumns ? [] : TYPES;
}

function drops(context: HazardContext, kind: string): Finding[] {
  const cascades = context.actionsOf('drop').some(({ action }) => action.cascade);
  return droppedObjects(context, kind).flatMap((drop): Finding[] => {
    const { object } = drop;
    const statement = statementOfDrop(context, kind, object);
    const isCollateral = statement === null && cascades;
    if (isCollateral || fateOf(context, drop)?.goneWith != null) return [];
    if (isTriggerFunction(context, kind, object) || becomesIdentity(context, drop)) return [];
    const successors = successorsOf(context, drop);
    const accepting = successors.filter(({ accepts }) => accepts);
    const isAmbiguous = accepting.length > 1 && accepting.every(({ isSame }) => !isSame);
    if (accepting.length > 0 && !isAmbiguous) return [];
    const [next] = successors;
    const users = isOfOwner(context, object) ? OF_OWNER : usersOf(context, object);
    const rows = kind === 'materialized view' ? (context.relation(object)?.rows ?? null) : null;
    return [
      {
        statement,
        relation: kind.endsWith('view') || kind.endsWith('table') ? object : null,
        severity: TYPES.includes(kind) ? 'notice' : users.severity,
        message:
          next === undefined
            ? `drops the ${kind} ${object}`
            : isAmbiguous
              ? `replaces the ${kind} ${object} by ${listed(accepting.map((each) => each.object))}: the same calls fit more than one of them, and are refused`
              : `replaces the ${kind} ${object} by ${next.object}, which does not accept the same calls`,
        evidence: rows === null ? users.evidence : `${rowCount(rows, false)}; ${users.evidence}`,
        advice:
          next === undefined
            ? 'First release code that does not use it, and drop it in a later migration.'
            : 'Keep the old function until no code calls it, or give the new parameters a DEFAULT.',
      },
    ];
  });
}

/** Severity and evidence by what is known of the callers: the queries that were tried name the object, do not, or there were none. */
function usersOf(context: HazardContext, object: string): { severity: Severity; evidence: string } {
  const { queries } = context.facts;
  if (!queries || queries.checked === 0)
    return { severity: 'warning', evidence: 'it is not known who uses it' };
  const name = bare(withoutArguments(object)).toLowerCase();
  const users = queries.broken.filter(({ sql }) => sql.toLowerCase().includes(name)).length;
  return users > 0
    ? { severity: 'warning', evidence: `${users} of the application's queries that break name it` }
    : {
        severity: 'notice',
        evidence: `none of the ${queries.checked} queries of ${queries.source} that were tried needs it`,
      };
}

const OF_OWNER = { severity: 'notice', evidence: 'only its owner and superusers could call it' } as const;

/** Tells if no role but its owner could call a function. Other objects that use it keep it from being dropped without CASCADE. */
function isOfOwner(context: HazardContext, object: string): boolean {
  return ofKind(context, 'owner only').some((definition) => isOfFunction(definition, object));
}

/** New functions with the name of a dropped one. `accepts`: they take its arguments, since all others have a default. */
function successorsOf(context: HazardContext, { kind, object }: SchemaChange) {
  if (!ROUTINES.includes(kind)) return [];
  const name = withoutArguments(object);
  const former = argumentsOf(object);
  return (context.facts.schema?.changes ?? [])
    .filter((change) => change.verb === 'create' && withoutArguments(change.object) === name)
    .filter((change) => ROUTINES.includes(change.kind))
    .map((change) => {
      const now = argumentsOf(change.object);
      const optional = / DEFAULT /.test(change.sql) ? change.sql.split(' DEFAULT ').length - 1 : 0;
      const accepts =
        change.kind === kind &&
        former.every((type, index) => now[index] === type) &&
        now.length - former.length <= optional;
      return { object: change.object, accepts, isSame: now.length === former.length };
    });
}

function withoutArguments(object: string): string {
  return object.replace(/\(.*\)$/s, '');
}

function argumentsOf(object: string): string[] {
  const [, list = ''] = /\((.*)\)$/s.exec(object) ?? [];
  return list === '' ? [] : list.split(', ');
}

/** Only triggers call it, and those are found by themselves. */
function isTriggerFunction({ facts }: HazardContext, kind: string, object: string): boolean {
  if (kind !== 'function') return false;
  const described = facts.schema?.objects?.find((each) => each.kind === kind && each.object === object);
  const definition = facts.catalogue.definitions.functions.get(object)?.before ?? described?.before;
  return /^ RETURNS (?:event_)?trigger$/m.test(definition ?? '');
}

/** A serial column that becomes an identity column has another sequence. */
function becomesIdentity({ facts }: HazardContext, { kind, object }: SchemaChange): boolean {
  if (kind !== 'sequence') return false;
  return (facts.schema?.changes ?? []).some(({ sql }) => {
    const [, table = '', column = ''] =
      /^ALTER TABLE \S*"([^"]+)" ALTER COLUMN "([^"]+)" ADD GENERATED /.exec(sql) ?? [];
    return table !== '' && bare(object).startsWith(`${table}_${column}_seq`);
  });
}

function tablesIn({ facts }: HazardContext, schema: string): string[] {
  return [...facts.catalogue.relations.keys()].filter((name) => withoutLastPart(name) === schema);
}

function describeTables(tables: readonly string[]): string {
  return tables.length === 1 ? `it holds ${tables[0]}` : `it holds ${tables.length} tables`;
}

/** The index of the statement that drops an object that is no table; null if a function or CASCADE did. */
export function statementOfDrop(context: HazardContext, kind: string, object: string): number | null {
  const named = withoutArguments(object);
  const found = context
    .actionsOf('drop')
    .filter(({ action }) => isKind(action.kind.replaceAll('_', ' '), kind))
    .filter(({ action }) => action.objects.some((name) => isNamed(name, named, kind)));
  const isIn = ({ action, statement }: (typeof found)[number]) =>
    action.objects.some(
      (name) => isNamed(name, named, kind) && context.reaches(name, bare(withoutLastPart(named)), statement),
    );
  // The search path is not always known.
  return (found.find(isIn) ?? found[0])?.statement.index ?? null;
}

const isKind = (written: string, kind: string) =>
  written === kind || (written === 'routine' && ROUTINES.includes(kind));

/** A trigger's name comes with that of its table, where others have their schema. */
function isNamed({ schema, name }: Name, object: string, kind: string): boolean {
  const within = withoutLastPart(object);
  const place = kind === 'trigger' ? lastPart(within) : within;
  return displayName(name) === lastPart(object) && (schema === null || displayName(schema) === place);
}

function renaming(context: HazardContext, kind: string, from: string, to: string): number | null {
  const old = withoutArguments(from);
  const next = withoutArguments(to);
  const found = context.actionsOf('rename').filter(({ action }) => {
    if (action.object === null || kind === 'column') return false;
    const isTo = [lastPart(next), withoutLastPart(next)].includes(displayName(action.to));
    return isTo && [old, next].some((name) => displayName(action.object?.name ?? '') === lastPart(name));
  });
  const isIn = ({ action, statement }: (typeof found)[number]) =>
    [old, next].some(
      (name) =>
        action.object !== null && context.reaches(action.object, bare(withoutLastPart(name)), statement),
    );
  return (found.findLast(isIn) ?? found.at(-1))?.statement.index ?? null;
}
