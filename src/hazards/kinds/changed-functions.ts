import type { ChangedDefinition } from '../../model/definition-kinds.ts';
import { bare, displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { lastNaming } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, sqlAdvice } from '../hazard-definition.ts';
import { ofKind } from './redefined.ts';

/** Finds functions that do something else under the name that they had, although calls of them still succeed. */
export function changedFunctions(context: HazardContext): Finding[] {
  const { functions } = context.facts.catalogue.definitions;
  const replaced = [...functions].flatMap(([object, { before, after }]) =>
    after === null ? [] : [{ object, before, after }],
  );
  return [
    ...replaced.flatMap((each) => planned(context, each)),
    ...replaced.flatMap((each) => nowStrict(context, each)),
    ...replaced.flatMap((each) => numbering(context, each)),
    ...unlocking(context),
  ];
}

interface Replaced {
  readonly object: string;
  /** The text of pg_get_functiondef(). */
  readonly before: string;
  readonly after: string;
}

/** Functions with another result or volatility. */
function planned(context: HazardContext, { object, before, after }: Replaced): Finding[] {
  const [then, now] = [signatureOf(before), signatureOf(after)];
  const isResult = then.result !== now.result;
  if (!isResult && then.volatility === now.volatility) return [];
  const users = isResult
    ? undefined
    : (usersOf(context, object, 'volatile') ?? usersOf(context, object, 'frozen'));
  const [from, to] = isResult ? [then.result, now.result] : [then.volatility, now.volatility];
  return [
    {
      statement: changing(context, object),
      relation: null,
      severity: isResult || users !== undefined ? 'warning' : 'notice',
      message: isResult
        ? `the function ${object} returns ${to}, and returned ${from} before`
        : `the function ${object} is ${to}, and was ${from} before${users ?? ''}`,
      evidence: 'its definition before and after the command',
      advice: isResult
        ? 'Create the new function under another name until no code calls the old one.'
        : 'Make sure that the body is what the volatility says, and look at the plans of the queries that call it.',
    },
  ];
}

const CONSEQUENCES = {
  volatile: 'call it for each row, and use no index for it',
  frozen: 'may keep a result from when they were planned, although its body asks for the session or the time',
} as const;

/** Says how a new volatility affects policies and views that call a function; undefined: it does not, or there are none. */
function usersOf(
  context: HazardContext,
  object: string,
  kind: keyof typeof CONSEQUENCES,
): string | undefined {
  const found = ofKind(context, kind).find((definition) => isOfFunction(definition, object));
  if (found?.before !== null || found.after === null) return undefined;
  return `: policies or views (${found.after}) ${CONSEQUENCES[kind]}`;
}

/** Words by which a function may return something else than NULL for NULL. */
const OF_NULLS = /\b(?:null|nullif|coalesce|case|distinct|concat\w*|greatest|least)\b/i;

/** Functions that calls with NULL no longer reach. */
function nowStrict(context: HazardContext, { object, before, after }: Replaced): Finding[] {
  const [then, now] = [signatureOf(before), signatureOf(after)];
  if (object.endsWith('()') || then.isStrict || !now.isStrict) return [];
  // Most such functions return NULL for NULL by themselves.
  const isPlain = then.volatility === 'IMMUTABLE' && then.language === 'sql' && !OF_NULLS.test(before);
  return [
    {
      statement: changing(context, object),
      relation: null,
      severity: isPlain ? 'notice' : 'warning',
      message: `the function ${object} is STRICT now: a call with NULL does nothing, and returns NULL`,
      evidence: 'its definition before and after the command',
      advice: sqlAdvice(
        'If running code calls it with NULL:',
        `ALTER FUNCTION ${object} CALLED ON NULL INPUT`,
      ),
    },
  ];
}

const COMMENTS = /--[^\n]*|\/\*.*?\*\//gs;
const OF_SEQUENCE = /\bnextval\s*\(/i;
const OF_ROWS = /\b(?:max|count)\s*\(/i;

/** Functions that took numbers from a sequence, and count the rows that they see instead. */
function numbering(context: HazardContext, { object, before, after }: Replaced): Finding[] {
  const [then, now] = [before, after].map((text) => text.replace(COMMENTS, ' ')) as [string, string];
  const counts = OF_ROWS.test(now) && !OF_ROWS.test(then);
  if (!OF_SEQUENCE.test(then) || OF_SEQUENCE.test(now) || !counts) return [];
  return [
    {
      statement: changing(context, object),
      relation: null,
      severity: 'warning',
      message: `the function ${object} no longer takes numbers from a sequence, and counts rows: two callers get the same number`,
      evidence: 'nextval(), max() and count() in its body before and after the command',
      advice:
        'Keep the sequence: it never returns a number twice, and its callers do not wait for each other.',
    },
  ];
}

/** Functions that took a lock which only one transaction can have, and no longer take one. */
function unlocking(context: HazardContext): Finding[] {
  return ofKind(context, 'locking').flatMap(({ relation, before, after }): Finding[] => {
    const [had = [], has = []] = [before, after].map((text) => (text ? text.split('\n') : []));
    const lost = had.filter((types) => !has.includes(types));
    const changed = (context.facts.schema?.changes ?? [])
      .filter(({ verb, object }) => (verb === 'create' || verb === 'alter') && isCallOf(relation, object))
      .map((change) => ({ ...change, types: change.object.slice(relation.length) }))
      .filter(({ types }) => !has.includes(types));
    // A function with other arguments takes the place of one that is dropped.
    const found =
      changed.find(({ types }) => lost.includes(types)) ?? changed.find(({ verb }) => verb === 'create');
    if (lost.length === 0 || !found) return [];
    return [
      {
        statement: changing(context, found.object),
        relation: null,
        // A single UPDATE or DELETE finds its rows and locks them at once.
        severity: /\b(?:select|perform|execute)\b/i.test(found.sql) ? 'warning' : 'notice',
        message: `the function ${found.object} no longer locks the rows that it reads: two callers can take the same row`,
        evidence:
          'FOR UPDATE, LOCK and advisory locks in its body before and after the command, and in functions that it calls',
        advice: 'Keep the lock, or find the rows and change them in one statement.',
      },
    ];
  });
}

/** Tells if a definition is that of a function, named with the types of its arguments. */
export function isOfFunction(
  { relation, name }: Pick<ChangedDefinition, 'relation' | 'name'>,
  object: string,
): boolean {
  return plain(`${relation}(${name})`) === plain(object);
}

const plain = (signature: string) => signature.replaceAll(' ', '');

/** Tells if a function, named with the types of its arguments, has this name. */
export function isCallOf(name: string, object: string): boolean {
  return object.endsWith(')') && withoutArguments(object) === name;
}

const withoutArguments = (object: string) => object.replace(/\(.*\)$/s, '');

/** The first lines of pg_get_functiondef() up to the body. */
function signatureOf(definition: string) {
  const [head = ''] = definition.split(/^(?:AS |BEGIN ATOMIC|RETURN )/m);
  const [, result = 'nothing'] = /^ RETURNS (.*)$/m.exec(head) ?? [];
  const properties = head.slice(head.indexOf('\n LANGUAGE '));
  const [volatility = 'VOLATILE'] = /\b(?:IMMUTABLE|STABLE)\b/.exec(properties) ?? [];
  const [, language = ''] = /^ LANGUAGE (.*)$/m.exec(properties) ?? [];
  const isStrict = /^(?: (?:WINDOW|IMMUTABLE|STABLE|PARALLEL \w+))* STRICT\b/m.test(properties);
  return { result, volatility, language, isStrict };
}

function changing(context: HazardContext, object: string): number | null {
  return statementOfFunction(context, object) ?? lastNaming(context, withoutArguments(object));
}

/** The last CREATE FUNCTION of a name; null: code made it. @param object with the types of its arguments. */
export function statementOfFunction(context: HazardContext, object: string): number | null {
  const name = withoutArguments(object);
  const found = context
    .actionsOf('create function')
    .findLast(
      ({ action, statement }) =>
        displayName(action.function.name) === lastPart(name) &&
        context.reaches(action.function, bare(withoutLastPart(name)), statement),
    );
  return found?.statement.index ?? null;
}
