import type { Caveat, DataSection } from '../model/report.ts';
import { HAS_FILES, RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { waitUntil } from '../postgres/session-helpers.ts';
import { displayName, identifier } from '../postgres/sql/quote.ts';

/** Contents of one relation. Sizes in bytes, with TOAST, without indexes, free space and visibility maps. */
export interface RelationData {
  readonly oid: number;
  readonly schema: string;
  readonly name: string;
  /** Another file means that all rows were written again: a rewrite, or TRUNCATE. */
  readonly filenode: number;
  readonly sizeBytes: number | null;
  /** Counted, or estimated from the last ANALYZE and the size now; null where there was none. */
  readonly rows: number | null;
  readonly exact: boolean;
  /** Rows since the statistics of the database began, those of transactions that were rolled back included. */
  readonly written: Readonly<Record<'inserted' | 'updated' | 'deleted', number>>;
}

export interface RelationsData {
  readonly relations: ReadonlyMap<number, RelationData>;
  readonly databaseBytes: number;
}

const COUNT_UP_TO_BYTES = 8 * 1024 * 1024;
const COUNT_BUDGET_MS = 300;
const COUNT_AT_MOST = 2000;
/** Relations counted by one statement: few enough to notice in time that the budget is spent. */
const COUNT_AT_ONCE = 50;
const COUNT_AT_ONCE_BYTES = 16 * 1024 * 1024;

const RELATIONS = `
select c.oid, n.nspname as schema, c.relname as name, c.relfilenode as filenode, pg_catalog.pg_relation_size(c.oid) as main,
  case c.reltoastrelid when 0 then 0 else pg_catalog.pg_relation_size(c.reltoastrelid) end as toast,
  c.reltuples as tuples, c.relpages as pages,
  pg_catalog.pg_stat_get_tuples_inserted(c.oid) as inserted, pg_catalog.pg_stat_get_tuples_updated(c.oid) as updated,
  pg_catalog.pg_stat_get_tuples_deleted(c.oid) as deleted,
  pg_catalog.has_schema_privilege(n.oid, 'USAGE') and pg_catalog.has_table_privilege(c.oid, 'SELECT')
    and not (c.relrowsecurity and pg_catalog.row_security_active(c.oid)) and (c.relkind = 'r' or c.relispopulated) as readable
from ${RELATIONS_AND_SCHEMAS}
where ${HAS_FILES} and ${USER_SCHEMA}`;

const SIZES = `
select pg_catalog.pg_database_size(b.oid) as bytes, pg_catalog.current_setting('block_size')::int as block
from pg_catalog.pg_database b where b.datname = pg_catalog.current_database()`;

interface Row {
  oid: number;
  schema: string;
  name: string;
  filenode: number;
  main: string | null;
  toast: string | null;
  tuples: number;
  pages: number;
  inserted: string | null;
  updated: string | null;
  deleted: string | null;
  readable: boolean | null;
}

/**
 * Before PostgreSQL 15 the counts of written rows come from a file up to half a second old, and the last writes of the command
 * would be missing without a sign. Later versions have no such file, and give no time.
 */
const COUNTS_ARE_OLD = `
select coalesce(pg_catalog.pg_stat_get_snapshot_timestamp() < $1::timestamptz, false) as old,
  pg_catalog.pg_stat_clear_snapshot()::text as cleared`;
const COUNTS_COME = { everyMs: 20, timeoutMs: 3000 };

/** Waits until the server has counted all writes before now. Sessions report their writes when they end. @returns a caveat if it has not. */
export async function currentCounts(session: Session): Promise<Caveat[]> {
  const [now] = await session.query<{ now: string }>('select pg_catalog.clock_timestamp()::text as now');
  const isOld = async () => (await session.query<{ old: boolean }>(COUNTS_ARE_OLD, [now?.now]))[0]?.old;
  if (await waitUntil(async () => !(await isOld()), COUNTS_COME)) return [];
  const reason =
    'the server had not counted all written rows yet: the last ones of the command may be missing';
  return [{ path: 'data.written', kind: 'unmeasured', reason }];
}

/**
 * Reads what every table and materialized view of the session's database holds. Rows are counted where that is
 * cheap: up to 8 MB each, for about 300 ms in all; relations that were counted `before` come first, so that the same
 * ones are counted twice.
 */
export async function readRelations(session: Session, before?: RelationsData): Promise<RelationsData> {
  const rows = await session.query<Row>(RELATIONS);
  const [sizes] = await session.query<{ bytes: string; block: number }>(SIZES);
  const counts = await countSmall(session, rows, before);
  const held = rows.map((row): RelationData => {
    const count = row.main === '0' ? 0 : counts.get(row.oid);
    return {
      oid: row.oid,
      schema: row.schema,
      name: row.name,
      filenode: row.filenode,
      sizeBytes: row.main === null || row.toast === null ? null : Number(row.main) + Number(row.toast),
      rows: count ?? continued(row, before) ?? estimate(row, sizes?.block ?? 8192),
      exact: count !== undefined,
      written: {
        inserted: Number(row.inserted ?? 0),
        updated: Number(row.updated ?? 0),
        deleted: Number(row.deleted ?? 0),
      },
    };
  });
  return {
    relations: new Map(held.map((relation) => [relation.oid, relation])),
    databaseBytes: Number(sizes?.bytes ?? 0),
  };
}

/**
 * From what was there before and what came and went since. An UPDATE leaves dead rows behind, so that the pages of a
 * relation say little of its rows; a new file (TRUNCATE, a rewrite) begins empty.
 */
function continued(row: Row, before: RelationsData | undefined): number | null {
  const then = before?.relations.get(row.oid);
  if (!then || then.rows === null || then.filenode !== row.filenode || row.inserted === null) return null;
  const inserted = Number(row.inserted) - then.written.inserted;
  const deleted = Number(row.deleted) - then.written.deleted;
  return Math.max(0, then.rows + inserted - deleted);
}

/** Estimates as the planner does: the density of rows at the last ANALYZE or VACUUM, times the pages of now. */
function estimate({ tuples, pages, main }: Row, blockBytes: number): number | null {
  if (tuples < 0 || main === null) return null;
  return pages === 0 ? Math.round(tuples) : Math.round((tuples / pages) * (Number(main) / blockBytes));
}

async function countSmall(
  session: Session,
  rows: readonly Row[],
  before: RelationsData | undefined,
): Promise<Map<number, number>> {
  const counts = new Map<number, number>();
  const known = ({ oid }: Row) => (before?.relations.get(oid)?.exact === true ? 0 : 1);
  const small = rows
    .filter(
      ({ main, readable }) => readable && main !== null && main !== '0' && Number(main) <= COUNT_UP_TO_BYTES,
    )
    .sort((a, b) => known(a) - known(b) || Number(a.main) - Number(b.main))
    .slice(0, COUNT_AT_MOST);
  const deadline = performance.now() + COUNT_BUDGET_MS;
  for (let start = 0; start < small.length && performance.now() < deadline; ) {
    const chunk = small.slice(start, start + chunkLength(small, start));
    start += chunk.length;
    const sql = chunk.map(({ oid, schema, name }) => {
      const relation = `${identifier(schema)}.${identifier(name)}`;
      return `select ${oid}::int8 as oid, pg_catalog.count(*) as n from only ${relation}`;
    });
    for (const { oid, n } of await session.query<{ oid: string; n: string }>(sql.join(' union all ')))
      counts.set(Number(oid), Number(n));
  }
  return counts;
}

function chunkLength(rows: readonly Row[], start: number): number {
  let bytes = 0;
  let length = 0;
  for (const { main } of rows.slice(start, start + COUNT_AT_ONCE)) {
    bytes += Number(main);
    if (length > 0 && bytes > COUNT_AT_ONCE_BYTES) break;
    length++;
  }
  return length;
}

/**
 * Makes the report's data section: relations that changed in rows, size or storage are listed, the others counted.
 * @param walBytes difference of pg_current_wal_lsn() over the command; null if it could not be read.
 * @param isShared others write to the same cluster in the meantime.
 */
export function compareRelations(
  before: RelationsData,
  after: RelationsData,
  walBytes: number | null,
  isShared = false,
): { section: DataSection; caveats: Caveat[] } {
  const tables: DataSection['tables'] = [];
  const written: DataSection['written'] = [];
  let unchangedTables = 0;
  for (const oid of new Set([...before.relations.keys(), ...after.relations.keys()])) {
    const [then, now] = [before.relations.get(oid), after.relations.get(oid)];
    const named = now ?? then;
    if (!named) continue;
    const rewritten = then !== undefined && now !== undefined && then.filenode !== now.filenode;
    const entry = {
      relation: displayName(named.schema, named.name),
      rowsBefore: then ? then.rows : 0,
      rowsAfter: now ? now.rows : 0,
      exact: (then?.exact ?? true) && (now?.exact ?? true),
      bytesBefore: then ? then.sizeBytes : 0,
      bytesAfter: now ? now.sizeBytes : 0,
      rewritten,
    };
    const wrote = now && writtenSince(then?.written, now.written);
    if (wrote) written.push({ relation: entry.relation, ...wrote });
    const kept = then !== undefined && now !== undefined;
    // Counted on one side and estimated on the other, a difference of the two is one of method.
    const sameRows = then?.exact !== now?.exact || then?.rows === now?.rows;
    if (kept && !rewritten && sameRows && then.sizeBytes === now.sizeBytes) unchangedTables++;
    else tables.push(entry);
  }
  tables.sort(byName);
  written.sort(byName);
  const sizeDeltaBytes = after.databaseBytes - before.databaseBytes;
  return {
    section: { tables, unchangedTables, written, lost: [], walBytes, sizeDeltaBytes },
    caveats: caveatsOf(tables, walBytes, isShared),
  };
}

const byName = (a: { relation: string }, b: { relation: string }) => a.relation.localeCompare(b.relation);

/** @returns undefined where nothing was written. */
function writtenSince(
  then: RelationData['written'] | undefined,
  now: RelationData['written'],
): RelationData['written'] | undefined {
  const inserted = now.inserted - (then?.inserted ?? 0);
  const updated = now.updated - (then?.updated ?? 0);
  const deleted = now.deleted - (then?.deleted ?? 0);
  return inserted > 0 || updated > 0 || deleted > 0 ? { inserted, updated, deleted } : undefined;
}

function caveatsOf(tables: DataSection['tables'], walBytes: number | null, isShared: boolean): Caveat[] {
  const caveats: Caveat[] = [];
  const estimated = tables.filter(({ exact }) => !exact).length;
  if (estimated > 0) {
    const reason = `rows of ${estimated} listed relations are estimates from the last ANALYZE: only small relations are counted`;
    caveats.push({ path: 'data.tables', kind: 'estimate', reason });
  }
  if (tables.some(({ rowsBefore, rowsAfter }) => rowsBefore === null || rowsAfter === null)) {
    const reason = 'relations that are too large to count and were never analysed have no number of rows';
    caveats.push({ path: 'data.tables', kind: 'unmeasured', reason });
  }
  if (walBytes === null) {
    caveats.push({
      path: 'data.walBytes',
      kind: 'unmeasured',
      reason: 'the position in the WAL could not be read',
    });
  } else if (isShared) {
    const reason = 'counted for the whole cluster, with what others wrote in the meantime';
    caveats.push({ path: 'data.walBytes', kind: 'estimate', reason });
  }
  return caveats;
}

/**
 * Rows that are gone from relations that are still there, in words: no way back restores them. What is estimated is compared only
 * if the relation was emptied or kept its file: a rewrite drops dead rows, which an estimate counts.
 */
export function rowsGone(before: RelationsData, after: RelationsData): string[] {
  return [...after.relations.values()]
    .flatMap((now) => {
      const then = before.relations.get(now.oid);
      if (!then || then.rows === null || now.rows === null) return [];
      const exact = then.exact && now.exact;
      const isComparable = then.exact === now.exact && (exact || then.filenode === now.filenode);
      const gone = then.rows - now.rows;
      if (gone <= 0 || !(isComparable || now.rows === 0)) return [];
      return [
        `${exact ? '' : 'about '}${gone} ${gone === 1 ? 'row' : 'rows'} deleted from ${displayName(now.schema, now.name)}`,
      ];
    })
    .sort();
}
