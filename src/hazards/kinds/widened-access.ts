import { listed, plural } from '../../format.ts';
import { isBookkeeping } from '../../model/migration-tables.ts';
import { bare, displayName, nameParts, withoutLastPart } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import { isNamed, lastNaming } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, sqlAdvice } from '../hazard-definition.ts';
import { ofKind } from './redefined.ts';

/** Finds roles with privileges that they did not have before. */
export function widened(context: HazardContext): Finding[] {
  return [
    ...openedToAll(context),
    ...openedLater(context),
    ...pastColumns(context),
    ...grantedUnnamed(context),
  ];
}

function openedToAll(context: HazardContext): Finding[] {
  return ofKind(context, 'open').flatMap(({ relation, before, after }): Finding[] => {
    const more = gained(before, after);
    if (more.length === 0) return [];
    const known = context.relation(relation) !== undefined;
    return [
      {
        statement: null,
        relation: known ? relation : null,
        severity: 'warning',
        message: `PUBLIC may ${more.join(', ')} on ${relation}: every role of the server`,
        evidence: known ? relationEvidence(context, relation) : `${after}`,
        advice: sqlAdvice(
          'To the roles that need it instead:',
          `REVOKE ALL ON ${relation} FROM PUBLIC`,
          `GRANT ${more.join(', ')} ON ${relation} TO …`,
        ),
      },
    ];
  });
}

/** Privileges in a list that were not in it before. */
export function gained(before: string | null, after: string | null): string[] {
  const had = new Set(before?.split(', '));
  return (after ?? '').split(', ').filter((privilege) => !had.has(privilege));
}

/** Changes of ALTER DEFAULT PRIVILEGES that open later objects of a role to PUBLIC. */
function openedLater(context: HazardContext): Finding[] {
  const later = [
    ...ofKind(context, 'open later').map((each) => ({ ...each, more: gained(each.before, each.after) })),
    ...ofKind(context, 'closed later').map((each) => ({ ...each, more: ['EXECUTE'] })),
  ];
  return later
    .filter(({ more }) => more.length > 0)
    .map(({ relation: role, name, more }): Finding => {
      const [kind = '', schema] = name.split(' in schema ');
      return {
        statement: settingDefaults(context, role, schema),
        relation: null,
        severity: 'warning',
        message: `PUBLIC gets ${more.join(', ')} on each ${name} that ${displayName(role)} makes from now on: every role of the server`,
        evidence: 'pg_default_acl before and after the command',
        advice: sqlAdvice(
          'To the roles that need it instead:',
          defaultsRevoked(role, schema, more, kind, 'PUBLIC'),
        ),
      };
    });
}

/** The last ALTER DEFAULT PRIVILEGES that names the schema, or else the role that makes the objects; or the only one. */
export function settingDefaults(context: HazardContext, role: string, schema: string | undefined) {
  const all = context.facts.statements.filter(
    ({ tag, error }) => tag === 'ALTER DEFAULT PRIVILEGES' && error === null,
  );
  const named = all.filter(({ sql }) => isNamed(sql, schema === undefined ? role : bare(schema)));
  return (named.at(-1) ?? (all.length === 1 ? all[0] : undefined))?.index ?? null;
}

export function defaultsRevoked(
  role: string,
  schema: string | undefined,
  privileges: readonly string[],
  kind: string,
  grantee: string,
): string {
  const within = schema === undefined ? '' : ` IN SCHEMA ${schema}`;
  return `ALTER DEFAULT PRIVILEGES FOR ROLE ${displayName(role)}${within} REVOKE ${privileges.join(', ')} ON ${kind.toUpperCase()}S FROM ${grantee}`;
}

const NOTHING_ELSE = / of nothing$/;

/** Columns that a view shows from now on to roles which it was for before. */
function pastColumns(context: HazardContext): Finding[] {
  return ofKind(context, 'past columns').flatMap(({ relation, name, before, after }): Finding[] => {
    const isReplaced = context.facts.schema?.changes.some(
      ({ verb, kind, object }) =>
        kind === 'view' && object === relation && ['create', 'alter'].includes(verb),
    );
    const columns = gained(before, after).filter((column) => isReplaced && column !== '');
    const role = displayName(name);
    return [false, true].flatMap((isAll): Finding[] => {
      const own = columns.filter((column) => NOTHING_ELSE.test(column) === isAll);
      if (own.length === 0) return [];
      const shown = listed(own.map((column) => column.replace(NOTHING_ELSE, '')));
      return [
        {
          statement: lastNaming(context, relation),
          relation: null,
          severity: isAll ? 'notice' : 'warning',
          message: `the view ${relation} shows ${role} ${shown}, which it may not read in the table`,
          evidence: `${role} has ${isAll ? 'no privileges' : 'privileges on other columns'} of the table, and the view reads as its owner`,
          advice: sqlAdvice(
            'If the role is not to see it, leave it out of the view, or from PostgreSQL 15 on:',
            `ALTER VIEW ${relation} SET (security_invoker = true)`,
          ),
        },
      ];
    });
  });
}

const OF_ALL = /\bON\s+ALL\s+TABLES\s+IN\s+SCHEMA\b/i;

/** Privileges that a role gets by one statement. */
interface Granted {
  readonly role: string;
  readonly statement: number;
  readonly privileges: Set<string>;
  readonly relations: Set<string>;
  /** Relations that had been left out. */
  readonly kept: Set<string>;
}

/** Privileges that roles get by GRANT … ON ALL TABLES, on tables from before the command. */
function grantedUnnamed(context: HazardContext): Finding[] {
  const { statements, schema } = context.facts;
  const ofAll = statements.filter(
    ({ tag, error, sql }) => tag === 'GRANT' && error === null && OF_ALL.test(sql),
  );
  const had = granted(schema?.rollbackSql?.split(';\n') ?? []);
  const told = new Set(ofKind(context, 'anonymous').map(({ relation, name }) => `${relation} TO ${name}`));
  const leftOut = relationsLeftOut(context);
  const got = new Map<string, Granted>();
  for (const { verb, kind, sql, object } of ofAll.length > 0 ? (schema?.changes ?? []) : []) {
    if (verb !== 'grant' || kind === 'column' || !context.relation(object)) continue;
    for (const [key, privileges] of granted([sql])) {
      const role = key.slice(key.lastIndexOf(' TO ') + ' TO '.length).replaceAll('"', '');
      const more = privileges.filter((privilege) => !had.get(key)?.includes(privilege));
      const statement = ofAll.find(
        (each) => isNamed(each.sql, role) && isNamed(each.sql, bare(withoutLastPart(object))),
      );
      if (!statement || more.length === 0 || role === 'PUBLIC' || told.has(`${object} TO ${role}`)) continue;
      const grant = `${statement.index} ${role}`;
      const known = got.get(grant) ?? {
        role,
        statement: statement.index,
        privileges: new Set(),
        relations: new Set(),
        kept: new Set(),
      };
      for (const privilege of more) known.privileges.add(privilege);
      if (more.some((privilege) => leftOut.has(`${privilege} for ${role}: ${object}`)))
        known.kept.add(object);
      got.set(grant, { ...known, relations: known.relations.add(object) });
    }
  }
  return [...got.values()].map(
    ({ role, statement, privileges, relations, kept }): Finding => ({
      statement,
      relation: null,
      severity: kept.size > 0 ? 'warning' : 'notice',
      message: `${displayName(role)} gets ${[...privileges].join(', ')} on ${plural(relations.size, 'table or view', 'tables and views')} that the GRANT does not name: ${kept.size > 0 ? `${listed([...kept], { atMost: 3 })} had been left out of its privileges` : listed([...relations])}`,
      evidence:
        kept.size > 0
          ? 'it had the privilege on at least half of the schema before the command, and not on those'
          : 'privileges before and after the command',
      advice: 'Make sure that the role may see all of them, or name the tables in the GRANT.',
    }),
  );
}

/** Relations that a role had been kept from while it had the privilege on most of their schema: `SELECT for web: public.salaries`. */
function relationsLeftOut(context: HazardContext): Set<string> {
  const lists = ofKind(context, 'left out').map(({ name, before }) => ({
    name,
    list: before?.split('\n') ?? [],
  }));
  return new Set(
    lists.flatMap(({ name, list }) =>
      list
        .map((each) => displayName(...nameParts(each)))
        .filter((relation) => !isBookkeeping(relation))
        .map((relation) => `${name}: ${relation}`),
    ),
  );
}

const GRANT = /^GRANT (.+?) (ON .+) TO ("(?:[^"]|"")*"|PUBLIC)(?: WITH GRANT OPTION)?$/;

/** Granted privileges by object and role: `ON TABLE "public"."orders" TO "reporting"`. */
export function granted(statements: readonly string[]): Map<string, string[]> {
  const grants = new Map<string, string[]>();
  for (const sql of statements) {
    const [, privileges, on, role] = GRANT.exec(sql.trim()) ?? [];
    if (privileges === undefined) continue;
    const key = `${on} TO ${role}`;
    grants.set(key, [...(grants.get(key) ?? []), ...privileges.split(/,\s*/)]);
  }
  return grants;
}
