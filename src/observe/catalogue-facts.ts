import type { CatalogueFacts, RelationFacts } from '../model/hazard-facts.ts';
import { schemasOf } from '../model/search-paths.ts';
import { HAS_ROWS, RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { timeoutMs } from '../postgres/sql/kinds/setting-actions.ts';
import { displayName, identifier } from '../postgres/sql/quote.ts';
import type { RelationsData } from './relations.ts';

type UnindexedForeignKeys = CatalogueFacts['unindexedForeignKeys'];

interface RelationRow {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  readonly kind: 'r' | 'p' | 'm';
  /** OID of the partitioned table that it is a partition of. */
  readonly parent: string | null;
  readonly unlogged: boolean;
  readonly written: boolean;
}

interface CheckRow {
  readonly schema: string;
  readonly table: string;
  readonly constraint: string;
  readonly validated: boolean;
  readonly definition: string;
  readonly columns: readonly string[];
}

const RELATIONS = `
select c.oid::pg_catalog.int8 as oid, n.nspname as schema, c.relname as name, c.relkind as kind,
  i.inhparent::pg_catalog.int8 as parent, c.relpersistence = 'u' as unlogged,
  exists (select from pg_catalog.aclexplode(c.relacl) x join pg_catalog.pg_roles o on o.oid = x.grantee
    where x.grantee <> c.relowner and x.privilege_type in ('INSERT', 'UPDATE', 'DELETE') and not o.rolsuper
      and (o.rolcanlogin or exists (select from pg_catalog.pg_auth_members m where m.roleid = o.oid))) as written
from ${RELATIONS_AND_SCHEMAS}
left join pg_catalog.pg_inherits i on i.inhrelid = c.oid and c.relispartition
where ${HAS_ROWS} and ${USER_SCHEMA}`;

const CHECKS = `
select n.nspname as schema, c.relname as table, k.conname as constraint, k.convalidated as validated,
  pg_catalog.pg_get_constraintdef(k.oid) as definition,
  (select pg_catalog.array_agg(a.attname::pg_catalog.text) from pg_catalog.pg_attribute a
    where a.attrelid = c.oid and a.attnum = any (k.conkey)) as columns
from pg_catalog.pg_constraint k
join pg_catalog.pg_class c on c.oid = k.conrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where k.contype = 'c' and k.conkey is not null and ${USER_SCHEMA}`;

/** Settings of the database or of the role, which hold for whoever connects. */
const LOCK_TIMEOUT = `
select exists (
  select from pg_catalog.pg_db_role_setting s
  join pg_catalog.pg_database d on d.datname = pg_catalog.current_database()
  cross join pg_catalog.unnest(s.setconfig) as setting
  where s.setdatabase in (0, d.oid)
    and s.setrole in (0, (select r.oid from pg_catalog.pg_roles r where r.rolname = session_user))
    and setting ~ '^lock_timeout=' and setting !~ '^lock_timeout=0[a-z]*$') as has`;

/** The first of those that hold for the role in the database. */
const STATEMENT_TIMEOUT = `
select pg_catalog.substr(setting, pg_catalog.strpos(setting, '=') + 1) as value
from pg_catalog.pg_db_role_setting s
join pg_catalog.pg_database d on d.datname = pg_catalog.current_database()
cross join pg_catalog.unnest(s.setconfig) as setting
where s.setdatabase in (0, d.oid)
  and s.setrole in (0, (select r.oid from pg_catalog.pg_roles r where r.rolname = session_user))
  and setting ~ '^statement_timeout='
order by s.setrole <> 0 desc, s.setdatabase <> 0 desc limit 1`;

/** The setting of the role and the database: this session has set its own. */
const SEARCH_PATH = `
select pg_catalog.replace(reset_val, '"$user"', pg_catalog.quote_ident(session_user)) as path
from pg_catalog.pg_settings where name = 'search_path'`;

/** An index serves a foreign key where its first columns are those of the key, in any order. Lookups by a key find no row with NULL in it. */
const UNINDEXED_FOREIGN_KEYS = `
select n.nspname as schema, c.relname as table, k.conname as constraint, m.nspname as "otherSchema", o.relname as other,
  (select pg_catalog.array_agg(a.attname::pg_catalog.text order by pg_catalog.array_position(k.conkey, a.attnum))
    from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum = any (k.conkey)) as columns
from pg_catalog.pg_constraint k
join pg_catalog.pg_class c on c.oid = k.conrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_class o on o.oid = k.confrelid
join pg_catalog.pg_namespace m on m.oid = o.relnamespace
where k.contype = 'f' and k.conparentid = 0 and ${USER_SCHEMA}
  and not exists (
    select from pg_catalog.pg_index i
    where i.indrelid = c.oid
      and (i.indpred is null or pg_catalog.pg_get_expr(i.indpred, i.indrelid) in (
        select pg_catalog.format('(%I IS NOT NULL)', a.attname)
        from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum = any (k.conkey)))
      and (i.indkey::pg_catalog.int2[])[0:pg_catalog.cardinality(k.conkey) - 1] @> k.conkey)`;

/** Facts that hazards depend on and the report does not show, as they were before the command. */
export type CatalogueBefore = Awaited<ReturnType<typeof readCatalogueBefore>>;

export async function readCatalogueBefore(session: Session) {
  const relations = await session.query<RelationRow>(RELATIONS);
  const checks = await session.query<CheckRow>(CHECKS);
  const unindexedForeignKeys = await readUnindexedForeignKeys(session);
  const [timeout] = await session.query<{ has: boolean }>(LOCK_TIMEOUT);
  const withoutIdentity = await tablesWithoutIdentity(session);
  const lockTimeoutByDefault = timeout?.has ?? false;
  const [setting] = await session.query<{ path: string }>(SEARCH_PATH);
  const searchPath = schemasOf(setting?.path ?? 'public');
  const [limit] = await session.query<{ value: string }>(STATEMENT_TIMEOUT);
  const statementTimeoutMs = timeoutMs(limit?.value ?? '') ?? 0;
  const settings = { searchPath, lockTimeoutByDefault, statementTimeoutMs };
  return { relations, checks, unindexedForeignKeys, withoutIdentity, ...settings };
}

export async function readUnindexedForeignKeys(session: Session): Promise<UnindexedForeignKeys> {
  const rows = await session.query<{
    schema: string;
    table: string;
    constraint: string;
    otherSchema: string;
    other: string;
    columns: string[];
  }>(UNINDEXED_FOREIGN_KEYS);
  return new Map(
    rows.map(({ schema, table, constraint, otherSchema, other, columns }) => [
      displayName(schema, table, constraint),
      {
        relation: displayName(schema, table),
        columns,
        references: displayName(otherSchema, other),
        known: false,
      },
    ]),
  );
}

/** @param after names relations that the command renamed; null where it could not be read. */
export function catalogueFacts(
  before: CatalogueBefore,
  data: RelationsData,
  after:
    | ({ readonly relations: RelationsData } & Pick<
        CatalogueBefore,
        'unindexedForeignKeys' | 'withoutIdentity'
      >)
    | null,
): Omit<CatalogueFacts, 'dropped' | 'orphans' | 'definitions' | 'effects' | 'actsOnServer' | 'leftPrepared'> {
  const relations = new Map<string, RelationFacts>();
  const renamed = new Map<string, string>();
  const identityLost: string[] = [];
  const partitions = new Map<string, RelationRow[]>();
  for (const row of before.relations)
    if (row.parent !== null) partitions.set(row.parent, [...(partitions.get(row.parent) ?? []), row]);
  for (const row of before.relations) {
    const now = after?.relations.relations.get(Number(row.oid)) ?? row;
    const [name, former] = [displayName(now.schema, now.name), displayName(row.schema, row.name)];
    relations.set(name, factsOf(row, data, partitions));
    if (name !== former) renamed.set(former, name);
    if (after?.withoutIdentity.has(row.oid) && !before.withoutIdentity.has(row.oid)) identityLost.push(name);
  }
  const checks = before.checks.map((check) => ({
    relation: displayName(check.schema, check.table),
    constraint: check.constraint,
    validated: check.validated,
    provesNotNull: provenBy(check),
  }));
  return {
    relations,
    renamed,
    identityLost,
    checks,
    unindexedForeignKeys: knownBefore(before.unindexedForeignKeys, after?.unindexedForeignKeys ?? new Map()),
    searchPath: before.searchPath,
    lockTimeoutByDefault: before.lockTimeoutByDefault,
    statementTimeoutMs: before.statementTimeoutMs,
  };
}

/** A key that is re-created with other actions, reads no more than the one that was there. */
function knownBefore(before: UnindexedForeignKeys, after: UnindexedForeignKeys): UnindexedForeignKeys {
  const place = ({ relation, columns }: { relation: string; columns: readonly string[] }) =>
    JSON.stringify([relation, [...columns].sort()]);
  const known = new Set([...before.values()].map(place));
  return new Map([...after].map(([name, key]) => [name, { ...key, known: known.has(place(key)) }]));
}

type Partitions = ReadonlyMap<string, readonly RelationRow[]>;

function factsOf(row: RelationRow, data: RelationsData, partitions: Partitions): RelationFacts {
  if (row.kind === 'p') {
    const parts = (partitions.get(row.oid) ?? []).map((part) => factsOf(part, data, partitions));
    return {
      kind: 'partitioned table',
      sizeBytes: total(parts.map(({ sizeBytes }) => sizeBytes)),
      rows: total(parts.map(({ rows }) => rows)),
      exact: parts.every(({ exact }) => exact),
      written: row.written,
    };
  }
  const relation = data.relations.get(Number(row.oid));
  return {
    kind: row.kind === 'm' ? 'materialized view' : 'table',
    sizeBytes: relation?.sizeBytes ?? null,
    rows: relation?.rows ?? null,
    exact: relation?.exact ?? false,
    unlogged: row.unlogged,
    written: row.written,
  };
}

function total(parts: readonly (number | null)[]): number | null {
  return parts.reduce((sum, part) => (sum === null || part === null ? null : sum + part), 0);
}

/** Reads `CHECK (((a IS NOT NULL) AND (b > 0)))`, as the server prints it. With OR or CASE in it, it may prove nothing. */
function provenBy({ definition, columns }: CheckRow): string[] {
  if (/\b(?:OR|CASE)\b/.test(definition)) return [];
  const names = (column: string) => [column, identifier(column)];
  return columns.filter((column) =>
    names(column).some((name) => definition.includes(`(${name} IS NOT NULL)`)),
  );
}

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
