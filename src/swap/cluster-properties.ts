import { createHash } from 'node:crypto';
import type { Session } from '../postgres/connection/session.ts';

/**
 * Reads everything that the cluster's catalogs hold of a database, except its name, OID, datallowconn and age: a successor must
 * have the same properties as the original. The comment is set together with the name.
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

/** A database's properties in the cluster's catalogs, by the catalogs' names. */
export type ClusterProperties = Readonly<Record<string, unknown>>;

/** Reads the properties of a database. @param session in any database of its server. */
export async function readClusterProperties(session: Session, oid: number): Promise<ClusterProperties> {
  const [row] = await session.query<{ properties: ClusterProperties }>(PROPERTIES, [oid]);
  if (!row) throw new Error(`no database with OID ${oid}`);
  return row.properties;
}

/** Properties that are compared by themselves; all others count as one. */
const BY_THEMSELVES: Readonly<Record<string, string>> = {
  datacl: 'privileges',
  settings: 'settings',
  labels: 'security labels',
};
const DIGEST_CHARACTERS = 12;

/** Digests the properties of a database, and its comment, by the words for them. */
export function propertyDigests(
  properties: ClusterProperties,
  comment: string | null,
): Record<string, string> {
  const parts: Record<string, Record<string, unknown>> = { comment: { comment } };
  for (const [name, value] of Object.entries(properties)) {
    const words = BY_THEMSELVES[name] ?? 'owner and options';
    parts[words] = { ...parts[words], [name]: value };
  }
  const digest = (part: unknown) =>
    createHash('sha256').update(JSON.stringify(part)).digest('hex').slice(0, DIGEST_CHARACTERS);
  return Object.fromEntries(Object.entries(parts).map(([words, part]) => [words, digest(part)]));
}

/** Names the properties in which two databases differ, or one database at two moments. */
export function differingProperties(first: ClusterProperties, second: ClusterProperties): string[] {
  const names = [...new Set([...Object.keys(first), ...Object.keys(second)])].sort();
  return names.filter((name) => JSON.stringify(first[name]) !== JSON.stringify(second[name]));
}
