import type { Session } from '../postgres/connection/session.ts';

/**
 * Everything that the cluster's catalogues hold of a database, but for its name, its OID, its door and its age: what a
 * successor must have as the original has it. The comment is given with the name.
 */
const PROPERTIES = `
SELECT (to_jsonb(d) - '{oid,datname,datallowconn,datfrozenxid,datminmxid,datacl}'::text[])
       || jsonb_build_object(
            'datacl', (SELECT jsonb_agg(to_jsonb(a) ORDER BY a.grantor, a.grantee, a.privilege_type)
                         FROM aclexplode(d.datacl) a),
            'settings', (SELECT jsonb_agg(jsonb_build_array(s.setrole::text, s.setconfig) ORDER BY s.setrole)
                           FROM pg_db_role_setting s WHERE s.setdatabase = d.oid),
            'labels', (SELECT jsonb_agg(jsonb_build_array(l.provider, l.label) ORDER BY l.provider)
                         FROM pg_shseclabel l WHERE l.classoid = 1262 AND l.objoid = d.oid)) AS properties
  FROM pg_database d WHERE d.oid = $1`;

/** What a database is for its cluster, each property under its catalogue's name for it. */
export type ClusterProperties = Readonly<Record<string, unknown>>;

/** @param session in any database of their server. */
export async function readClusterProperties(session: Session, oid: number): Promise<ClusterProperties> {
  const [row] = await session.query<{ properties: ClusterProperties }>(PROPERTIES, [oid]);
  if (!row) throw new Error(`no database with OID ${oid}`);
  return row.properties;
}

/** Names of the properties in which two databases differ, or one at two moments. */
export function differingProperties(first: ClusterProperties, second: ClusterProperties): string[] {
  const names = [...new Set([...Object.keys(first), ...Object.keys(second)])].sort();
  return names.filter((name) => JSON.stringify(first[name]) !== JSON.stringify(second[name]));
}
