import { listed } from '../../format.ts';
import { isBookkeeping } from '../../model/migration-tables.ts';
import { bare, displayName, lastPart, nameParts, withoutLastPart } from '../../postgres/sql/quote.ts';
import { isNamed, lastNaming } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, sqlAdvice } from '../hazard-definition.ts';
import { statementOfFunction } from './changed-functions.ts';
import { ofKind } from './redefined.ts';
import { gained } from './widened-access.ts';

/** Finds new tables and views that a role may not use, although it may use nearly all others of the schema. */
export function newWithoutGrants(context: HazardContext): Finding[] {
  const grants = context.facts.catalogue.effects.missingGrants.filter(
    ({ relation, role }) => !isBookkeeping(relation) && !isRevoked(context, relation, role),
  );
  const groups = new Set(grants.map(({ role, relation }) => `${withoutLastPart(relation)} ${role}`));
  return [...groups].flatMap((group): Finding[] => {
    const own = grants.filter(({ role, relation }) => `${withoutLastPart(relation)} ${role}` === group);
    const [first] = own;
    if (!first) return [];
    const relations = own.map(({ relation }) => relation);
    const role = displayName(first.role);
    const defaults =
      first.defaultsOf.length === 0
        ? ''
        : `; default privileges for it exist only for what ${listed(first.defaultsOf)} creates, and ${first.owner} ${first.byProfile ? 'owns the others' : 'created this'}`;
    return [
      {
        statement: creating(context, relations) ?? lastNaming(context, first.relation),
        relation: first.relation,
        severity: 'warning',
        message: `${role} may not use ${listed(relations)}, unlike the other ${first.siblings} relations of the schema`,
        evidence: `lacks ${listed(first.privileges)}${first.byProfile ? ' in production, by the profile' : ''}${defaults}`,
        advice: sqlAdvice(
          'In the same migration:',
          ...own.map(
            ({ relation, privileges }) => `GRANT ${privileges.join(', ')} ON ${relation} TO ${role}`,
          ),
        ),
      },
    ];
  });
}

/** Finds tables, views and functions that are made again, without the privileges that roles had on the former ones. */
export function madeAgainWithoutGrants(context: HazardContext): Finding[] {
  return [...relationsClosed(context), ...functionsWithout(context)];
}

/** Finds relations made under the name of others, without privileges that roles had on those: a grant ends with its relation. */
function relationsClosed(context: HazardContext): Finding[] {
  const lost = context.facts.catalogue.effects.lostGrants.filter(
    ({ relation, role }) => !isRevoked(context, relation, role),
  );
  return [...new Set(lost.map(({ relation }) => relation))].map((relation): Finding => {
    const own = lost
      .filter((each) => each.relation === relation)
      .map(({ role, privileges }) => ({
        role: role === 'PUBLIC' ? role : displayName(role),
        privileges: privileges.join(', '),
      }));
    return {
      statement: creating(context, [relation]) ?? lastNaming(context, relation),
      relation,
      severity: 'warning',
      message: `${relation} is created again, without privileges that ${listed(own.map(({ role }) => role))} had`,
      evidence: own.map(({ role, privileges }) => `${role} lacks ${privileges}`).join('; '),
      advice: sqlAdvice(
        'In the same migration:',
        ...own.map(({ role, privileges }) => `GRANT ${privileges} ON ${relation} TO ${role}`),
      ),
    };
  });
}

/** Finds roles that may insert into a table, and may not use a sequence that fills a column: a GRANT of INSERT does not include it. */
export function sequencesWithoutGrants(context: HazardContext): Finding[] {
  const failing = ofKind(context, 'insert without sequence').flatMap(
    ({ relation: sequence, name, before, after }) =>
      isTakenFrom(context, sequence, name)
        ? []
        : gained(before, after).map((column) => ({ sequence, column, role: displayName(name) })),
  );
  const roleOf = new Map<string, string[]>();
  for (const { column, role } of failing) roleOf.set(column, [...(roleOf.get(column) ?? []), role]);
  const groups = new Set([...roleOf.values()].map((roles) => listed(roles)));
  return [...groups].map((roles): Finding => {
    const own = failing.filter(({ column }) => listed(roleOf.get(column) ?? []) === roles);
    const columns = [...new Set(own.map(({ column }) => column))];
    const tables = [...new Set(columns.map(withoutLastPart))];
    const sequences = [...new Set(own.map(({ sequence }) => sequence))];
    const [table = ''] = tables;
    return {
      statement: creating(context, tables) ?? lastNaming(context, table),
      relation: table,
      severity: 'warning',
      message: `${roles} may INSERT into ${listed(tables)}, but not use ${listed(sequences)}, from which ${columns.length === 1 ? `its column ${lastPart(columns[0] ?? '')} takes its values` : 'their columns take values'}`,
      evidence:
        'lacks USAGE and UPDATE on the sequence: INSERT on the table is not enough for a default that takes its next value',
      advice: sqlAdvice(
        'In the same migration, or make the column an identity, whose sequence needs no privilege:',
        `GRANT USAGE ON SEQUENCE ${sequences.join(', ')} TO ${[...new Set(own.map(({ role }) => role))].join(', ')}`,
      ),
    };
  });
}

/** Tells if the command takes privileges on an existing sequence from the role: another hazard reports it. */
function isTakenFrom(context: HazardContext, sequence: string, role: string): boolean {
  return (context.facts.schema?.changes ?? []).some(
    ({ verb, object, sql }) =>
      verb === 'revoke' && object === sequence && isNamed(sql, role) && !context.changed('create', sequence),
  );
}

/** Tells if the command itself takes privileges on the relation from the role. */
function isRevoked(context: HazardContext, relation: string, role: string): boolean {
  const [schema = '', own = ''] = nameParts(relation);
  return context
    .actionsOf('revoke')
    .some(
      ({ action, statement }) =>
        action.from === 'relation' &&
        action.roles.includes(role) &&
        action.objects.some(({ name }) => name.name === own && context.reaches(name, schema, statement)),
    );
}

/** The statement that creates one of the tables. */
export function creating(context: HazardContext, relations: readonly string[]): number | null {
  const found = context
    .actionsOf('create table')
    .find(({ action, statement }) => relations.includes(context.resolve(action.table, statement)));
  return found?.statement.index ?? null;
}

/** Functions made under the name of dropped ones, which roles could call: a grant ends with its function. */
function functionsWithout(context: HazardContext): Finding[] {
  const callable = ofKind(context, 'callers').map(({ relation, name, before, after }) => {
    const object = `${relation}(${name})`;
    const isAgain = context.changed('create', object);
    return {
      relation,
      object,
      // Null: it did not exist, or it still does.
      could: after === null || isAgain ? (before?.split(', ') ?? null) : null,
      may: before === null || isAgain ? (after?.split(', ') ?? null) : null,
    };
  });
  return [...new Set(callable.map(({ relation }) => relation))].flatMap((relation): Finding[] => {
    const own = callable.filter((each) => each.relation === relation);
    const may = own.flatMap((each) => each.may ?? []).filter((role) => role !== '');
    const lost = [...new Set(own.flatMap(({ could }) => could ?? []))].filter(
      (role) => !['', 'PUBLIC', ...may].includes(role) && !isClosed(context, relation, role, may),
    );
    const made = own.find((each) => each.may !== null);
    if (!made || lost.length === 0 || may.includes('PUBLIC')) return [];
    const gone = own.filter(({ could }) => could?.some((role) => lost.includes(role)));
    const roles = lost.map((role) => displayName(role));
    return [
      {
        statement: statementOfFunction(context, made.object),
        relation: null,
        severity: 'warning',
        message: `${listed(roles)} may not call ${made.object}, and could call ${listed(gone.map(({ object }) => object))}, which was dropped`,
        evidence: 'EXECUTE before and after the command: privileges end with the function',
        advice: sqlAdvice(
          'In the same migration:',
          `GRANT EXECUTE ON ROUTINE ${made.object} TO ${roles.join(', ')}`,
        ),
      },
    ];
  });
}

/** Tells if the command takes a function of this name from the role, or from PUBLIC while other roles get it. */
function isClosed(
  context: HazardContext,
  relation: string,
  role: string,
  others: readonly string[],
): boolean {
  const name = bare(lastPart(relation));
  const byName = context
    .actionsOf('revoke')
    .some(
      ({ action }) =>
        action.from === 'function' &&
        action.roles.includes(role) &&
        action.objects.some((object) => object.name.name === name),
    );
  const ofPublic = context.facts.statements.some(
    ({ tag, error, sql }) =>
      tag === 'REVOKE' && error === null && isNamed(sql, name) && /\bPUBLIC\b/i.test(sql),
  );
  return byName || (ofPublic && others.length > 0);
}
