import type { IdleRevoke } from '../../model/effect-facts.ts';
import { SearchPaths } from '../../model/search-paths.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import type { ParsedStatements } from './already-there.ts';

interface Asked {
  readonly statement: number;
  readonly kind: 'relation' | 'function' | 'schema';
  readonly path: readonly string[];
  readonly name: string;
  readonly types: readonly string[] | null;
  readonly role: string;
  readonly privilege: string;
  readonly columns: readonly string[];
}

/** The privileges that ALL includes: those whose use shows. */
const ALL: Readonly<Record<Asked['kind'], readonly string[]>> = {
  relation: ['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'USAGE'],
  function: ['EXECUTE'],
  schema: ['USAGE', 'CREATE'],
};

const ASKED = `pg_catalog.jsonb_to_recordset($1::pg_catalog.jsonb) as w (statement pg_catalog.int4, kind pg_catalog.text, path pg_catalog.jsonb,
  name pg_catalog.text, types pg_catalog.jsonb, role pg_catalog.text, privilege pg_catalog.text, columns pg_catalog.jsonb)`;

/** The objects that statements name, with their privileges: the first schema of the path that has one. */
const OBJECTS = `
  select o.* from (
    select p.place, n.nspname, c.relname as name, '' as types, c.oid, c.relowner as owner, c.relkind,
      coalesce(c.relacl, pg_catalog.acldefault(case when c.relkind = 'S' then 's' else 'r' end::"char", c.relowner)) as acl
    from pg_catalog.jsonb_array_elements_text(w.path) with ordinality p (schema, place)
    join pg_catalog.pg_namespace n on n.nspname = p.schema
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = w.name and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
    where w.kind = 'relation'
    union all
    select p.place, n.nspname, f.proname, pg_catalog.oidvectortypes(f.proargtypes), f.oid, f.proowner, 'f',
      coalesce(f.proacl, pg_catalog.acldefault('f', f.proowner))
    from pg_catalog.jsonb_array_elements_text(w.path) with ordinality p (schema, place)
    join pg_catalog.pg_namespace n on n.nspname = p.schema
    join pg_catalog.pg_proc f on f.pronamespace = n.oid and f.proname = w.name
    where w.kind = 'function' and (w.types = 'null' or w.types is null or pg_catalog.array_to_string(f.proargtypes::pg_catalog.oid[], ' ') = pg_catalog.array_to_string(array(
      select pg_catalog.to_regtype(t.type)::pg_catalog.oid from pg_catalog.jsonb_array_elements_text(w.types) with ordinality t (type, place) order by t.place), ' '))
    union all
    select 1, '', n.nspname, '', n.oid, n.nspowner, 'n', coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))
    from pg_catalog.pg_namespace n where w.kind = 'schema' and n.nspname = w.name
  ) o order by o.place limit 1`;

const HAS = `case
  when o.relkind = 'f' and w.kind = 'function' then pg_catalog.has_function_privilege(r.oid, o.oid, w.privilege)
  when w.kind = 'schema' then pg_catalog.has_schema_privilege(r.oid, o.oid, w.privilege)
  when o.relkind = 'S' then w.privilege in ('SELECT', 'UPDATE', 'USAGE') and pg_catalog.has_sequence_privilege(r.oid, o.oid, w.privilege)
  when w.privilege in ('USAGE', 'EXECUTE', 'CREATE') then false
  when w.columns <> '[]' then pg_catalog.has_column_privilege(r.oid, o.oid, w.columns ->> 0, w.privilege)
  else pg_catalog.has_table_privilege(r.oid, o.oid, w.privilege) end`;

/**
 * Roles that have the privilege without a grant to them: through PUBLIC, through another role, or, for a column, through the whole
 * table. A grant to the role itself was made after the REVOKE.
 */
const KEPT = `
select w.statement, w.role, w.privilege, o.nspname as schema, o.name, o.types, w.kind,
  pg_catalog.array_agg(distinct case when x.grantee = 0 then 'PUBLIC' when x.grantee = r.oid then 'the whole table'
    else pg_catalog.pg_get_userbyid(x.grantee)::pg_catalog.text end) as through
from ${ASKED}
join pg_catalog.pg_roles r on r.rolname = w.role and not r.rolsuper
cross join lateral (${OBJECTS}) o
cross join lateral pg_catalog.aclexplode(o.acl) x
where x.privilege_type = w.privilege and not pg_catalog.pg_has_role(r.oid, o.owner, 'USAGE') and ${HAS}
  and case when x.grantee = 0 then true else pg_catalog.pg_has_role(r.oid, x.grantee, 'USAGE') end
  and (w.columns <> '[]' or not exists (select from pg_catalog.aclexplode(o.acl) own where own.grantee = r.oid and own.privilege_type = w.privilege))
group by 1, 2, 3, 4, 5, 6, 7
order by 1, 2, 4, 5, 3`;

interface Row {
  readonly statement: number;
  readonly kind: Asked['kind'];
  readonly role: string;
  readonly privilege: string;
  readonly schema: string;
  readonly name: string;
  readonly types: string;
  readonly through: readonly string[];
}

/** Finds the revoked privileges that roles have all the same after the command. */
export async function readIdleRevokes(
  session: Session,
  { statements, parsed }: ParsedStatements,
  searchPath: readonly string[],
): Promise<IdleRevoke[]> {
  const paths = new SearchPaths(statements, parsed, searchPath);
  const asked: Asked[] = [];
  for (const statement of statements.filter(({ error }) => error === null))
    for (const action of parsed.get(statement.index)?.actions ?? []) {
      if (action.does !== 'revoke') continue;
      const { from: kind, objects, roles, privileges } = action;
      const each = privileges.flatMap(({ name, columns }) =>
        name === 'ALL'
          ? ALL[kind].map((privilege) => ({ privilege, columns }))
          : [{ privilege: name, columns }],
      );
      for (const { name, arguments: types } of objects)
        for (const role of roles)
          for (const { privilege, columns } of each)
            asked.push({
              statement: statement.index,
              kind,
              path: name.schema === null ? paths.at(statement) : [name.schema],
              name: name.name,
              types,
              role,
              privilege,
              columns,
            });
    }
  if (asked.length === 0) return [];
  const rows = await session.query<Row & object>(KEPT, [JSON.stringify(asked)]);
  const found = new Map<string, IdleRevoke>();
  for (const row of rows) {
    const object = objectOf(row);
    const key = `${row.statement} ${row.role} ${object}`;
    const known = found.get(key);
    found.set(key, {
      statement: row.statement,
      object,
      role: row.role,
      privileges: [...(known?.privileges ?? []), row.privilege],
      through: [...new Set([...(known?.through ?? []), ...row.through])],
    });
  }
  return [...found.values()];
}

function objectOf({ kind, schema, name, types }: Row): string {
  if (kind === 'schema') return displayName(name);
  return `${displayName(schema, name)}${kind === 'function' ? `(${types})` : ''}`;
}
