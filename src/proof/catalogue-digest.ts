import type { Session } from '../postgres/connection/session.ts';
import { cataloguesOf, TEMPORARY_OBJECTS } from './catalogues.ts';

/**
 * Shows exactly, and within milliseconds, whether any row of the catalogues that hold a schema was written. It folds every
 * object's OID with the transaction that wrote its row, whatever the order of the rows. It compares one database with
 * itself only: OIDs and transaction ids mean nothing elsewhere.
 *
 * VACUUM and ANALYZE overwrite their figures in place and leave xmin alone, so they do not change the digest. Every statement that
 * gives a relation a new file (TRUNCATE, REINDEX, CLUSTER, VACUUM FULL) changes it, as DDL does.
 */
export interface CatalogueDigest {
  readonly catalogues: Readonly<Record<string, { rows: number; sum: string }>>;
  /** Catalogues that the role cannot read completely, each with the consequence. */
  readonly unread: readonly string[];
}

/** pg_user_mapping holds passwords and is for superusers; its view shows the options to their owner only. */
const MAPPINGS = { name: 'pg_user_mapping', row: 'oid' };
const MAPPINGS_SHOWN = `select 'pg_user_mappings', pg_catalog.count(*),
  pg_catalog.sum(pg_catalog.hash_record_extended(row(umid, srvid, umuser, umoptions), 0)) from pg_catalog.pg_user_mappings`;

const fold = ({ name, row, where }: { name: string; row: string; where?: string }) =>
  `select '${name}', pg_catalog.count(*), pg_catalog.sum(pg_catalog.hash_record_extended(row(${row}, xmin), 0))
   from pg_catalog.${name}${where === undefined ? '' : ` where ${where}`}`;

/** Checked first, because a refused statement is written to the server's log. */
const SERVER = `select pg_catalog.current_setting('server_version_num')::int as version,
  pg_catalog.has_table_privilege('pg_catalog.pg_user_mapping', 'SELECT') as "readsMappings",
  exists (select from pg_catalog.pg_user_mappings) as "hasMappings"`;

/** Folds the catalogues of the session's database, reading each catalogue once. */
export async function catalogueDigest(session: Session): Promise<CatalogueDigest> {
  const [server] = await session.query<{ version: number; readsMappings: boolean; hasMappings: boolean }>(
    SERVER,
  );
  const { version = 0, readsMappings = false, hasMappings = false } = server ?? {};
  const mappings = readsMappings ? fold(MAPPINGS) : MAPPINGS_SHOWN;
  const sql = `with ${TEMPORARY_OBJECTS} ${cataloguesOf(version).map(fold).join('\nunion all\n')} union all ${mappings}`;
  const found = await session.query<{ name: string; rows: string; sum: string | null }>(
    `select digest.* from (${sql}) digest(name, rows, sum)`,
  );
  return {
    catalogues: Object.fromEntries(
      found.map(({ name, rows, sum }) => [name, { rows: Number(rows), sum: sum ?? '0' }]),
    ),
    unread: readsMappings || !hasMappings ? [] : ['options of other roles’ user mappings may change unseen'],
  };
}

/** The catalogues in which the two differ, sorted; none when nothing was written. */
export function compareDigests(a: CatalogueDigest, b: CatalogueDigest): string[] {
  const names = new Set([...Object.keys(a.catalogues), ...Object.keys(b.catalogues)]);
  return [...names]
    .filter((name) => {
      const [one, other] = [a.catalogues[name], b.catalogues[name]];
      return one?.rows !== other?.rows || one?.sum !== other?.sum;
    })
    .sort();
}
