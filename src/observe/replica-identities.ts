import type { Session } from '../postgres/connection/session.ts';

// UPDATE and DELETE fail on such a table (SQLSTATE 55000) whatever wal_level is. A partition is published with its ancestors.
const WITHOUT_IDENTITY = `
with published as materialized (
  select c.oid from pg_catalog.pg_publication p
  join pg_catalog.pg_publication_tables t on t.pubname = p.pubname
  join pg_catalog.pg_namespace n on n.nspname = t.schemaname
  join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.tablename
  where p.pubupdate or p.pubdelete)
select c.oid::pg_catalog.int8 as oid
from pg_catalog.pg_class c
where c.relkind = 'r' and c.relreplident <> 'f' and c.relpersistence = 'p'
  and (c.oid in (select oid from published)
    or exists (select from pg_catalog.pg_partition_ancestors(c.oid) a join published p on p.oid = a.relid where c.relispartition))
  and not exists (
    select from pg_catalog.pg_index i
    where i.indrelid = c.oid and i.indisvalid
      and ((c.relreplident = 'd' and i.indisprimary) or (c.relreplident = 'i' and i.indisreplident)))`;

/** Returns the OIDs of published tables in which the server refuses UPDATE and DELETE, because they have no replica identity. */
export async function tablesWithoutIdentity(session: Session): Promise<ReadonlySet<string>> {
  const [published] = await session.query<{ any: boolean }>(
    'select exists (select from pg_catalog.pg_publication) as any',
  );
  if (!published?.any) return new Set();
  const rows = await session.query<{ oid: string }>(WITHOUT_IDENTITY);
  return new Set(rows.map(({ oid }) => oid));
}
