import type { ProfiledAccess } from '../model/profile-model.ts';
import {
  IS_QUERIED,
  ofExtension,
  RELATIONS_AND_SCHEMAS,
  USER_SCHEMA,
} from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';

/** Relations as applications use them: partitions are reached through their table, and those of extensions are not the application's. */
const SCHEMAS = `
WITH relations AS MATERIALIZED (
  SELECT n.nspname::text AS schema, c.relowner, c.relacl
    FROM ${RELATIONS_AND_SCHEMAS}
   WHERE ${IS_QUERIED} AND NOT c.relispartition AND ${USER_SCHEMA}
     AND NOT ${ofExtension('pg_class', 'c.oid')}
), granted AS (
  SELECT r.schema, pg_get_userbyid(a.grantee)::text AS role, a.privilege_type::text AS privilege, count(*)::int AS relations
    FROM relations r CROSS JOIN aclexplode(r.relacl) a
   WHERE a.grantee <> 0 AND a.grantee <> r.relowner AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
   GROUP BY 1, 2, 3
)
SELECT r.schema, count(*)::int AS relations,
       pg_get_userbyid(mode() WITHIN GROUP (ORDER BY r.relowner))::text AS creator,
       (SELECT coalesce(json_agg(json_build_object('role', g.role, 'privilege', g.privilege, 'relations', g.relations)
                                 ORDER BY g.role, g.privilege), '[]')
          FROM granted g WHERE g.schema = r.schema) AS granted
  FROM relations r GROUP BY 1 ORDER BY 1`;

const ROLES = `
SELECT g.rolname::text AS role,
       ARRAY(SELECT o.rolname::text FROM pg_roles o WHERE o.oid <> g.oid AND pg_has_role(g.oid, o.oid, 'USAGE') ORDER BY 1) AS has
  FROM pg_roles g
 WHERE g.rolname = ANY ($1::text[]) AND NOT g.rolsuper
   AND (g.rolcanlogin OR EXISTS (SELECT FROM pg_auth_members m WHERE m.roleid = g.oid))
 ORDER BY 1`;

const DEFAULTS = `
SELECT pg_get_userbyid(d.defaclrole)::text AS creator, n.nspname::text AS schema,
       CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END AS role,
       array_agg(a.privilege_type::text ORDER BY a.privilege_type) AS privileges
  FROM pg_default_acl d LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace CROSS JOIN aclexplode(d.defaclacl) a
 WHERE d.defaclobjtype = 'r' AND a.grantee <> d.defaclrole
 GROUP BY 1, 2, a.grantee ORDER BY 1, 2, 3`;

/** Reads what roles may do with the relations of each schema, and with those that will be made there. */
export async function readAccess(session: Session): Promise<ProfiledAccess> {
  const schemas = await session.query<ProfiledAccess['schemas'][number]>(SCHEMAS);
  const granted = new Set(schemas.flatMap((each) => each.granted.map(({ role }) => role)));
  return {
    schemas: [...schemas],
    roles: [...(await session.query<ProfiledAccess['roles'][number]>(ROLES, [[...granted]]))],
    defaults: [...(await session.query<ProfiledAccess['defaults'][number]>(DEFAULTS))],
  };
}
