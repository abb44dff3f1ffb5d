import { formatEstimate, listed } from '../format.ts';
import type { Caveat, DataSection } from '../model/report.ts';
import { HAS_FILES, RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';
import { countRows } from './count-rows.ts';
import { committedRows, NOTHING_WRITTEN, ROW_COUNTERS, type WrittenCounters } from './written-rows.ts';

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
  readonly counters: WrittenCounters;
}

export interface RelationsData {
  readonly relations: ReadonlyMap<number, RelationData>;
  readonly databaseBytes: number;
}

/** Counting larger relations before the command would fill the clone's cache with their pages, and the command would be measured faster. */
const COUNT_BEFORE_UP_TO_BYTES = 64 * 1024 * 1024;
/** Relations that the command did not touch are counted once more only if they are small. */
const COUNT_AGAIN_UP_TO_BYTES = 8 * 1024 * 1024;

const RELATIONS = `
select c.oid, n.nspname as schema, c.relname as name, c.relfilenode as filenode, pg_catalog.pg_relation_size(c.oid) as main,
  case c.reltoastrelid when 0 then 0 else pg_catalog.pg_relation_size(c.reltoastrelid) end as toast,
  c.reltuples as tuples, c.relpages as pages, ${ROW_COUNTERS},
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
  inserted: number | null;
  updated: number | null;
  deleted: number | null;
  committed: number | null;
  analyzed: number | null;
  readable: boolean | null;
}

/**
 * Reads rows and sizes of all tables and materialized views of the session's database. Rows are counted for about a second, after the command
 * those of the relations that it touched first. Others have their rows of `before`, and those that the server counted since.
 * @param before a reading before the command. @param isCurrent the server has counted all rows that the command wrote.
 */
export async function readRelations(
  session: Session,
  before?: RelationsData,
  isCurrent = false,
): Promise<RelationsData> {
  const rows = await session.query<Row>(RELATIONS);
  const [sizes] = await session.query<{ bytes: string; block: number }>(SIZES);
  const read = rows.map((row): RelationData & { readonly row: Row } => ({
    row,
    oid: row.oid,
    schema: row.schema,
    name: row.name,
    filenode: row.filenode,
    sizeBytes: row.main === null || row.toast === null ? null : Number(row.main) + Number(row.toast),
    rows: null,
    exact: false,
    counters: countersOf(row),
  }));
  const counts = await countRows(
    session,
    read.flatMap(({ row, ...relation }) => {
      const then = before?.relations.get(row.oid);
      const touched = then === undefined || isTouched(then, relation);
      const upTo = before ? COUNT_AGAIN_UP_TO_BYTES : COUNT_BEFORE_UP_TO_BYTES;
      const [isRead, bytes] = [row.readable && row.main !== null && row.main !== '0', Number(row.main)];
      const { oid, schema, name } = relation;
      return isRead && ((before && touched) || bytes <= upTo) ? [{ oid, schema, name, bytes, touched }] : [];
    }),
  );
  const held = read.map(({ row, ...relation }): RelationData => {
    const count = row.main === '0' ? 0 : counts.get(row.oid);
    if (count !== undefined) return { ...relation, rows: count, exact: true };
    const { rows: known, exact } = continued(relation, before) ?? { rows: null, exact: false };
    if (known !== null) return { ...relation, rows: known, exact: exact && isCurrent };
    return { ...relation, rows: estimate(row, sizes?.block ?? 8192) };
  });
  return {
    relations: new Map(held.map((relation) => [relation.oid, relation])),
    databaseBytes: Number(sizes?.bytes ?? 0),
  };
}

function countersOf({ inserted, updated, deleted, committed, analyzed }: Row): WrittenCounters {
  return {
    inserted: inserted ?? 0,
    updated: updated ?? 0,
    deleted: deleted ?? 0,
    committed: committed ?? 0,
    analyzed: analyzed ?? 0,
  };
}

function isTouched(then: RelationData, now: RelationData): boolean {
  return (
    then.filenode !== now.filenode ||
    then.sizeBytes !== now.sizeBytes ||
    committedRows(then.counters, now.counters, null, true) !== undefined
  );
}

/**
 * From what was there before and what came and went since. An UPDATE leaves dead rows behind, so that the pages of a
 * relation say little of its rows; a new file (TRUNCATE, a rewrite) begins empty.
 */
function continued(
  now: RelationData,
  before: RelationsData | undefined,
): Pick<RelationData, 'rows' | 'exact'> | null {
  const then = before?.relations.get(now.oid);
  if (!then || then.rows === null || then.filenode !== now.filenode) return null;
  const { growth, exact } = growthOf(then, now);
  return { rows: Math.max(0, then.rows + growth), exact: then.exact && exact };
}

/** Rows more than before, by the server's counters. */
function growthOf(then: RelationData, now: RelationData): { growth: number; exact: boolean } {
  const {
    inserted = 0,
    deleted = 0,
    atMost = false,
  } = committedRows(then.counters, now.counters, null, true) ?? {};
  return { growth: inserted - deleted, exact: !atMost };
}

/** Adds the rows before the command of relations that were counted only after it: the server counted the rows in between. */
export function withRowsBefore(before: RelationsData, after: RelationsData): RelationsData {
  const relations = [...before.relations.values()].map((then) => {
    const now = after.relations.get(then.oid);
    if (!now || then.exact || !now.exact || now.rows === null || then.filenode !== now.filenode) return then;
    const { growth, exact } = growthOf(then, now);
    return exact && now.rows >= growth ? { ...then, rows: now.rows - growth, exact } : then;
  });
  return { ...before, relations: new Map(relations.map((each) => [each.oid, each])) };
}

/** Estimates as the planner does: the density of rows at the last ANALYZE or VACUUM, times the pages of now. */
function estimate({ tuples, pages, main }: Row, blockBytes: number): number | null {
  if (tuples < 0 || main === null) return null;
  return pages === 0 ? Math.round(tuples) : Math.round((tuples / pages) * (Number(main) / blockBytes));
}

/**
 * Makes the report's data section: relations that changed in rows, size or storage are listed, the others counted.
 * @param walBytes difference of pg_current_wal_lsn() over the command; null if it could not be read.
 * @param isShared others write to the same cluster in the meantime.
 * @param maybeRolledBack a part of the command was rolled back.
 */
export function compareRelations(
  before: RelationsData,
  after: RelationsData,
  walBytes: number | null,
  { isShared = false, maybeRolledBack = true } = {},
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
    const growth = entry.exact && !rewritten ? (entry.rowsAfter ?? 0) - (entry.rowsBefore ?? 0) : null;
    const wrote =
      now && committedRows(then?.counters ?? NOTHING_WRITTEN, now.counters, growth, maybeRolledBack);
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
    caveats: [...caveatsOf(tables, walBytes, isShared), ...rolledBackCaveats(written)],
  };
}

const byName = (a: { relation: string }, b: { relation: string }) => a.relation.localeCompare(b.relation);

function caveatsOf(tables: DataSection['tables'], walBytes: number | null, isShared: boolean): Caveat[] {
  const caveats: Caveat[] = [];
  const estimated = tables.filter(({ exact }) => !exact).length;
  if (estimated > 0) {
    const reason = `rows of ${estimated} listed relations are estimates from the last ANALYZE: relations are counted for about a second`;
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

function rolledBackCaveats(written: DataSection['written']): Caveat[] {
  const unsure = written.filter(({ atMost }) => atMost).map(({ relation }) => relation);
  if (unsure.length === 0) return [];
  const reason = `rows of ${listed(unsure)} that were rolled back may be among those that were written: the server counts them together`;
  return [{ path: 'data.written', kind: 'estimate', reason }];
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
        `${formatEstimate(gone, exact)} ${gone === 1 ? 'row' : 'rows'} deleted from ${displayName(now.schema, now.name)}`,
      ];
    })
    .sort();
}
