import { messageOf, sqlstateOf } from '../../errors.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import { settingClause } from '../properties.ts';

const ROLES = `
SELECT rolname AS name, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls,
       rolconnlimit AS "limit"
  FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY oid`;

/** Since version 16 each membership has its own INHERIT and SET options. */
const OPTIONS_SINCE = 160000;

function membershipsQuery(versionNum: number): string {
  const more = versionNum >= OPTIONS_SINCE ? ', a.inherit_option AS inherit, a.set_option AS "set"' : '';
  return `
SELECT r.rolname AS role, m.rolname AS member, a.admin_option AS admin${more}
  FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid JOIN pg_roles m ON m.oid = a.member`;
}

const SETTINGS = `
SELECT CASE WHEN s.setrole <> 0 THEN pg_get_userbyid(s.setrole) END AS role,
       split_part(c.setting, '=', 1) AS name, substr(c.setting, strpos(c.setting, '=') + 1) AS value
  FROM pg_db_role_setting s, unnest(s.setconfig) WITH ORDINALITY c(setting, position)
 WHERE s.setdatabase = 0
 ORDER BY s.setrole, c.position`;

interface Role {
  name: string;
  rolsuper: boolean;
  rolinherit: boolean;
  rolcreaterole: boolean;
  rolcreatedb: boolean;
  rolcanlogin: boolean;
  rolreplication: boolean;
  rolbypassrls: boolean;
  limit: number;
}

interface Membership {
  role: string;
  member: string;
  admin: boolean;
  inherit?: boolean;
  set?: boolean;
}

const ATTRIBUTES = [
  ['rolsuper', 'SUPERUSER'],
  ['rolinherit', 'INHERIT'],
  ['rolcreaterole', 'CREATEROLE'],
  ['rolcreatedb', 'CREATEDB'],
  ['rolcanlogin', 'LOGIN'],
  ['rolreplication', 'REPLICATION'],
  ['rolbypassrls', 'BYPASSRLS'],
] as const satisfies readonly (readonly [keyof Role, string])[];

/**
 * Creates the roles of one server on another of the same version, with attributes, memberships and settings, but without
 * passwords, which only superusers may read.
 * @returns settings that the other server does not know.
 */
export async function repeatRoles(from: Session, to: Session, versionNum: number): Promise<string[]> {
  const roles = await from.query<Role>(ROLES);
  const memberships = await from.query<Membership>(membershipsQuery(versionNum));
  await to.query([...roles.map(roleStatement), ...memberships.map(membershipStatement)].join(';\n'));
  const unknown: string[] = [];
  for (const { role, name, value } of await from.query<{ role: string | null; name: string; value: string }>(
    SETTINGS,
  )) {
    const of = role === null ? 'ALL' : identifier(role);
    try {
      await to.query(`ALTER ROLE ${of} ${settingClause(name, value)}`);
    } catch (error) {
      if (sqlstateOf(error) === undefined) throw error;
      unknown.push(`${name} of ${role ?? 'all roles'}: ${messageOf(error)}`);
    }
  }
  return unknown;
}

function roleStatement(role: Role): string {
  const attributes = ATTRIBUTES.map(([key, word]) => (role[key] ? word : `NO${word}`));
  return `CREATE ROLE ${identifier(role.name)} ${attributes.join(' ')} CONNECTION LIMIT ${role.limit}`;
}

function membershipStatement({ role, member, admin, inherit, set }: Membership): string {
  const grant = `GRANT ${identifier(role)} TO ${identifier(member)}`;
  if (inherit === undefined || set === undefined) return admin ? `${grant} WITH ADMIN OPTION` : grant;
  return `${grant} WITH ADMIN ${admin}, INHERIT ${inherit}, SET ${set}`;
}
