import { readFile } from 'node:fs/promises';
import { identifier, literal } from '../../src/postgres/sql/quote.ts';
import { withClient } from './client.ts';
import { changedUrl } from './cloning.ts';

/** What the cluster's catalogues hold of a database, by its name, but for OIDs and ages, with its comment. */
const PROPERTIES = `
SELECT to_jsonb(d) - '{oid,datfrozenxid,datminmxid}'::text[] AS database,
       shobj_description(d.oid, 'pg_database') AS comment,
       (SELECT jsonb_agg(jsonb_build_array(pg_get_userbyid(a.grantor), a.grantee::regrole::text, a.privilege_type, a.is_grantable)
                         ORDER BY a.grantor, a.grantee, a.privilege_type) FROM aclexplode(d.datacl) a) AS acl,
       (SELECT jsonb_agg(jsonb_build_array(s.setrole::regrole::text, s.setconfig) ORDER BY s.setrole)
          FROM pg_db_role_setting s WHERE s.setdatabase = d.oid) AS settings
  FROM pg_database d WHERE d.datname = $1`;

export async function clusterProperties(serverUrl: string, name: string): Promise<unknown> {
  return withClient(serverUrl, async (client) => (await client.query(PROPERTIES, [name])).rows[0]);
}

const OID = 'SELECT oid::int AS oid FROM pg_database WHERE datname = $1';

export async function oidOf(serverUrl: string, name: string): Promise<number | undefined> {
  const { rows } = await withClient(serverUrl, (client) => client.query<{ oid: number }>(OID, [name]));
  return rows[0]?.oid;
}

/** Names of databases beside those that every server has. */
export async function databasesBeside(serverUrl: string, ...known: string[]): Promise<string[]> {
  const { rows } = await withClient(serverUrl, (client) =>
    client.query<{ name: string }>('SELECT datname::text AS name FROM pg_database ORDER BY datname'),
  );
  const usual = ['postgres', 'template0', 'template1', ...known];
  return rows.map(({ name }) => name).filter((name) => !usual.includes(name));
}

export function inDatabase(serverUrl: string, database: string): string {
  return changedUrl(serverUrl, { database });
}

/** Roles of oddTarget(). */
export const ODD_OWNER = 'ow"ner';
export const ODD_GRANTER = "grant'er";

const COMMENT = `it's the "users'" own; $$ \\ ü`;

/** Makes a target with everything that TEMPLATE leaves behind, all of it under odd names. */
export function oddTarget(name: string): string[] {
  const [database, owner, granter] = [name, ODD_OWNER, ODD_GRANTER].map(identifier);
  return [
    `CREATE ROLE ${owner} CREATEDB LOGIN PASSWORD 'ownerpass'`,
    `CREATE ROLE ${granter}`,
    `CREATE ROLE reader`,
    `CREATE DATABASE ${database} OWNER ${owner} CONNECTION LIMIT 37`,
    `COMMENT ON DATABASE ${database} IS ${literal(COMMENT)}`,
    `REVOKE TEMPORARY ON DATABASE ${database} FROM PUBLIC`,
    `GRANT CREATE ON DATABASE ${database} TO ${granter} WITH GRANT OPTION`,
    `SET ROLE ${granter}; GRANT CREATE ON DATABASE ${database} TO reader; RESET ROLE`,
    `ALTER DATABASE ${database} SET search_path TO "$user", public, "odd, 'one'"`,
    `ALTER DATABASE ${database} SET app.motto TO 'it''s "so"; \\'`,
    `ALTER ROLE ${granter} IN DATABASE ${database} SET work_mem TO '7MB'`,
  ];
}

/** The process that opens the target again, started by this one. */
export async function guardOf(pid: number): Promise<number> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  for (const child of children.trim().split(' ').map(Number)) {
    const words = await readFile(`/proc/${child}/cmdline`, 'utf8').catch(() => '');
    if (words.includes('swap/reopen-agent-process')) return child;
  }
  throw new Error(`no guard among the children of ${pid}`);
}
