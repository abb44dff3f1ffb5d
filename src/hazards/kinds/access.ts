import { formatCount, listed } from '../../format.ts';
import type { ChangedDefinition } from '../../model/definition-kinds.ts';
import { bare, displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import { isNamed } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { milder, weighBreakage, worst } from '../severity.ts';
import { openedToAnonymous } from './anonymous-access.ts';
import { isOfFunction } from './changed-functions.ts';
import { closedRoles, widenedRoles } from './changed-roles.ts';
import { functionsOpened } from './open-functions.ts';
import { rowsByPolicies, tablesWithoutPolicies, viewsPastPolicies } from './policies.ts';
import { ofKind } from './redefined.ts';
import { granted, widened } from './widened-access.ts';

/** Changes of who may see and do what. */
export const ACCESS: readonly HazardRecord[] = [
  {
    code: 'POLICY_CHANGED',
    title: 'row-level security is changed',
    condition:
      'A policy of an existing table is created, changed or dropped, or row-level security is enabled or disabled for it, or forced on its owner. A new permissive policy is a warning beside another one for the same roles, if only the other condition asks for the user or session; so is a policy whose condition becomes true, no longer asks for them, or lets all rows through for PUBLIC too.',
    effect:
      'Queries return fewer rows, or rows that they should not, without any error; without any policy they return none.',
    safer:
      'Create the policies first and ENABLE ROW LEVEL SECURITY last, in one transaction; check the result with the role of the application.',
    find: rowsByPolicies,
  },
  {
    code: 'ROW_SECURITY_FILTERS_WRITE',
    title: 'row-level security keeps a write of the migration from rows',
    condition:
      'After an UPDATE or DELETE of the command, a table has rows that match its WHERE and that its role does not see because of row-level security. They are counted on the clone, as the role and with the settings of the session, and again without row security. Statements with parameters, or with a WITH that writes, are not compared; nor are those, on a clone without a sandbox, whose conditions are not known to be harmless.',
    effect:
      'The statement succeeds and changes too few rows, or none: the migration counts as done, and code finds rows that were never changed.',
    safer:
      'Run the migration as a role with BYPASSRLS. The owner of a table with FORCE ROW LEVEL SECURITY can use NO FORCE within the transaction.',
    find: (context) =>
      context.facts.catalogue.effects.filteredWrites.map(({ statement, relation, role, missed }) => ({
        statement,
        relation,
        severity: 'warning',
        message: `row-level security keeps ${formatCount(missed)} ${missed === 1 ? 'row' : 'rows'} of ${relation} from the statement, which succeeds without them`,
        evidence: `counted on the clone as ${displayName(role)}, and again without row security`,
        advice: sqlAdvice(
          'With a role that may do so, before the migration:',
          `ALTER ROLE ${displayName(role)} BYPASSRLS`,
        ),
      })),
  },
  {
    code: 'ACCESS_WIDENED',
    title: 'roles may see or do more than before',
    condition:
      'PUBLIC gets a privilege on a table, view or sequence, or on all that a role makes later. A role of requests without a login (anon, web_anon, anonymous) gets one on a table without row-level security, on all tables that a role makes later, or to write through a view that is not security_invoker. A view that is replaced shows a role a column that it may not read in the table, of which it may read others; a notice if it may read none. GRANT … ON ALL TABLES gives a role privileges on tables that it does not name: a notice, or a warning for those that had been left out while the role had the privilege on at least half of the schema. A role that logs in gets SUPERUSER or BYPASSRLS, or an existing one the membership in a role with them, in an owner of tables of the database, or in pg_read_all_data and the like; this is found in a clone of the whole cluster.',
    effect:
      'Each of these roles reads or writes it from the commit on; for PUBLIC that is every role of the server, also those of other applications, of reports, and those that are made later. Nothing fails.',
    safer: 'GRANT to the roles that need it, and name the tables.',
    find: (context) => [...widened(context), ...openedToAnonymous(context), ...widenedRoles(context)],
  },
  {
    code: 'FUNCTION_OPENED',
    title: 'more roles may call a function, or it does more with the rights of its owner',
    condition:
      'Every role may call a new or replaced SECURITY DEFINER function without SET search_path, or one that writes tables which a role that logs in may not write (a text that it executes counts as a write). A function that PUBLIC could not call is dropped, and is open to PUBLIC when it is created again; a notice if it runs with the rights of its caller. A notice if requests without a login (anon, web_anon, anonymous) may call a new one that is SECURITY DEFINER and that no GRANT names.',
    effect:
      'CREATE FUNCTION grants EXECUTE to PUBLIC: every role of the server may use it. By its search_path it can put another object in the place of one used by the function.',
    safer:
      'Give the function SET search_path, REVOKE EXECUTE … FROM PUBLIC, and GRANT it to the roles that call it.',
    find: functionsOpened,
  },
  {
    code: 'VIEW_BYPASSES_POLICIES',
    title: 'a view shows or writes rows past row-level security',
    condition:
      'Through a view or materialized view a role of an application sees or writes rows of a table, past the policies of that table: the view is not security_invoker, and its owner is not subject to the policies.',
    effect: 'The role reads or writes rows of others from the commit on. Nothing fails.',
    safer: 'Make the view WITH (security_invoker = true), from PostgreSQL 15 on.',
    find: viewsPastPolicies,
  },
  {
    code: 'NEW_TABLE_WITHOUT_POLICIES',
    title: 'a new table has no row-level security, unlike the others with the same column',
    condition:
      'A new table has no row-level security, and a role of an application may read it. It has a column, such as tenant_id, that the policies of at least two other tables of the schema use to hide rows from this role, and every other table with this column that the role may read has row-level security. Not reported for roles with BYPASSRLS or the rights of the owner, or if the column is only the primary key of the new table.',
    effect: 'The role reads the rows of all tenants or users from the commit on. Nothing fails.',
    safer: 'ENABLE ROW LEVEL SECURITY and CREATE POLICY in the transaction that creates the table.',
    find: tablesWithoutPolicies,
  },
  {
    code: 'PRIVILEGES_REVOKED',
    title: 'privileges are revoked',
    condition:
      'A role loses a privilege on an object that existed before the command. Or a role that logs in loses LOGIN, its validity, sessions of its CONNECTION LIMIT or its name, or the membership in a role that owns or was granted tables of the database, without another one; this is found in a clone of the whole cluster. On a sequence it is as grave as on a table if a role may still INSERT into a table whose default takes its values.',
    effect: 'Code that runs as this role fails with SQLSTATE 42501 after the commit.',
    safer: 'First move the application to a role that has the privileges it needs, then revoke.',
    find: (context) => [...revoked(context), ...closedRoles(context)],
  },
];

function revoked(context: HazardContext): Finding[] {
  return revocations(context).map(({ object, relation, role, lost }) => ({
    statement: revoking(context, object),
    relation,
    severity:
      relation !== null
        ? milder(weighBreakage(context, relation))
        : insertsFailing(context, object) !== undefined
          ? worst(tablesFilled(context, object).map((table) => weighBreakage(context, table)))
          : callersLost(context, object).length > 0
            ? ('warning' as const)
            : ('notice' as const),
    message: `${role} loses ${lost} on ${object}`,
    evidence:
      relation === null
        ? (ofInserts(context, object) ?? ofCallers(context, object))
        : relationEvidence(context, relation),
    advice: `Make sure that nothing that needs the privilege still runs as ${role}.`,
  }));
}

/** The REVOKE that names an object, or the only one. */
function revoking({ facts }: HazardContext, object: string): number | null {
  const revokes = facts.statements.filter(({ tag, error }) => tag === 'REVOKE' && error === null);
  const name = bare(lastPart(object.replace(/\(.*\)$/s, '')));
  const named = revokes.find(({ sql }) => isNamed(sql, name));
  return (named ?? (revokes.length === 1 ? revokes[0] : undefined))?.index ?? null;
}

/** A role that may insert into a table, and no longer use a sequence that fills it. */
function insertsFailing(context: HazardContext, sequence: string): ChangedDefinition | undefined {
  return ofKind(context, 'insert without sequence').find(({ relation }) => relation === sequence);
}

/** The tables into which it may insert. */
function tablesFilled(context: HazardContext, sequence: string): string[] {
  return (insertsFailing(context, sequence)?.after ?? '').split(', ').map(withoutLastPart);
}

/** Roles that may no longer call a function, named with the types of its arguments. */
function callersLost(context: HazardContext, object: string): string[] {
  return ofKind(context, 'callers')
    .filter((definition) => isOfFunction(definition, object))
    .flatMap(({ before, after }) => {
      const left = new Set(after?.split(', '));
      return before === ''
        ? []
        : (before?.split(', ') ?? []).filter((role) => role !== 'PUBLIC' && !left.has(role));
    });
}

function ofInserts(context: HazardContext, object: string): string | undefined {
  const failing = insertsFailing(context, object);
  return (
    failing &&
    `${displayName(failing.name)} may still INSERT into ${listed(tablesFilled(context, object))}, whose default takes a value of it: that fails with SQLSTATE 42501`
  );
}

function ofCallers(context: HazardContext, object: string): string {
  const lost = callersLost(context, object);
  return lost.length === 0
    ? 'it is not known what runs as this role'
    : `${listed(lost)} may no longer call it`;
}

const REVOKE = /^REVOKE .+? (ON .+) FROM ("(?:[^"]|"")*"|PUBLIC)$/;

/**
 * The schema comparison revokes all privileges of a role on an object and grants again those that it keeps, in the changes and in
 * the rollback SQL: privileges that only the rollback SQL grants are lost.
 */
function revocations(context: HazardContext) {
  const { schema } = context.facts;
  if (!schema) return [];
  const kept = granted(schema.changes.map(({ sql }) => sql));
  const had = schema.rollbackSql === null ? undefined : granted(schema.rollbackSql.split(';\n'));
  return schema.changes.flatMap(({ verb, sql, kind, object }) => {
    const [, on, role] = REVOKE.exec(sql) ?? [];
    if (verb !== 'revoke' || on === undefined || role === undefined) return [];
    if (context.changed('create', object)) return [];
    const after = kept.get(`${on} TO ${role}`) ?? [];
    const before = had?.get(`${on} TO ${role}`);
    const lost = before?.filter((privilege) => !after.includes(privilege) && !after.includes('ALL'));
    if (had && (lost ?? []).length === 0) return [];
    const relation = kind === 'column' ? withoutLastPart(object) : object;
    return [
      {
        object,
        relation: context.relation(relation) ? relation : null,
        role: role.replaceAll('"', ''),
        lost: lost ? lost.join(', ') : 'privileges',
      },
    ];
  });
}
