import { realpath } from 'node:fs/promises';
import path from 'node:path';
import type { PlannerStatistics, Profile, ProfiledRelation } from '../../model/profile-model.ts';
import { isMarkedFolder } from '../../ownership/folder-records.ts';
import { USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { isWritten, makeSparseRelation, type SparseRelation } from './sparse-relation.ts';
import { type Plan, planQueries, relationsIn } from './try-queries.ts';

/** Settings of production by which its planner chooses. */
export const PLANNER_SETTINGS = [
  ...['effective_cache_size', 'max_parallel_workers_per_gather', 'random_page_cost', 'seq_page_cost'],
  'work_mem',
];

/** Parts of a profile that decide about plans. */
export type ProductionSizes = Pick<Profile, 'relations' | 'settings'>;

/** The plans, and what the columns were, to tell later which of them lost their statistics. */
export interface ProductionPlans {
  readonly plans: readonly (Plan | null)[];
  readonly columns: ColumnStates;
  /** Tables of which a column has no statistics since the command. */
  readonly lost: readonly Pick<Table, 'schema' | 'name'>[];
}

export type ColumnStates = ReadonlyMap<string, Pick<Column, 'type' | 'analyzed'>>;

interface Column {
  readonly number: number;
  readonly name: string;
  /** With its modifier and collation. */
  readonly type: string;
  readonly analyzed: boolean;
  /** OIDs of the operator that orders it, 0 if none does, and of its collation. */
  readonly less: number;
  readonly collation: number;
}

interface StoredFile {
  readonly oid: number;
  readonly name: string;
  /** In the data directory. */
  readonly file: string;
  readonly pages: number;
  readonly rows: number;
}

interface Table extends StoredFile {
  readonly schema: string;
  readonly indexes: readonly (StoredFile & { readonly columns: readonly string[] })[];
  readonly columns: readonly Column[];
}

const PLACE = `
select pg_catalog.current_setting('data_directory') as folder, pg_catalog.current_setting('block_size')::int as "blockBytes",
  (select s.setting::int from pg_catalog.pg_settings s where s.name = 'segment_size') as "blocksOfSegment"`;

const PAGES = `pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::int8`;
const FILE = `'oid', c.oid::int8, 'name', c.relname, 'file', pg_catalog.pg_relation_filepath(c.oid), 'pages', ${PAGES}, 'rows', c.reltuples`;

const TABLES = `
select t.oid::int8::float8 as oid, n.nspname as schema, t.relname as name, t.reltuples::float8 as rows,
  pg_catalog.pg_relation_filepath(t.oid) as file,
  (pg_catalog.pg_relation_size(t.oid) / pg_catalog.current_setting('block_size')::int8)::float8 as pages,
  (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(${FILE}, 'columns',
      array(select a.attname::text from pg_catalog.pg_attribute a where a.attrelid = t.oid and a.attnum = any (i.indkey)))), '[]')
    from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid where i.indrelid = t.oid) as indexes,
  (select pg_catalog.json_agg(pg_catalog.json_build_object(
      'number', a.attnum, 'name', a.attname, 'type', concat_ws(':', a.atttypid, a.atttypmod, a.attcollation),
      'analyzed', exists (select from pg_catalog.pg_statistic s
        where s.starelid = t.oid and s.staattnum = a.attnum and not s.stainherit),
      'collation', a.attcollation::int8,
      'less', coalesce((select p.amopopr::int8
        from pg_catalog.pg_opclass o join pg_catalog.pg_amop p
          on p.amopfamily = o.opcfamily and p.amoplefttype = a.atttypid and p.amoprighttype = a.atttypid and p.amopstrategy = 1
        where o.opcmethod = (select m.oid from pg_catalog.pg_am m where m.amname = 'btree')
          and o.opcdefault and o.opcintype = a.atttypid), 0)))
    from pg_catalog.pg_attribute a where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped) as columns
from pg_catalog.pg_class t join pg_catalog.pg_namespace n on n.oid = t.relnamespace
where t.relname = any ($1) and t.relkind in ('r', 'm') and t.relpersistence = 'p'
  and ${USER_SCHEMA}`;

const SET_FIGURES = `
update pg_catalog.pg_class set relpages = $2, reltuples = $3, relallvisible = $4, relfilenode = coalesce($5::int8::oid, relfilenode)
where oid = $1::int8::oid`;

const FORGET = 'delete from pg_catalog.pg_statistic where starelid = $1::int8::oid and not stainherit';

// Without the most common values and the histogram. A correlation is of kind 3.
const REMEMBER = `
insert into pg_catalog.pg_statistic (starelid, staattnum, stainherit, stanullfrac, stawidth, stadistinct,
  stakind1, stakind2, stakind3, stakind4, stakind5, staop1, staop2, staop3, staop4, staop5,
  stacoll1, stacoll2, stacoll3, stacoll4, stacoll5, stanumbers1)
select $1::int8::oid, $2, false, $3, $4, $5, case when $7::real is null then 0 else 3 end, 0, 0, 0, 0,
  case when $7::real is null then 0 else $6::int8 end::oid, 0, 0, 0, 0,
  case when $7::real is null then 0 else $8::int8 end::oid, 0, 0, 0, 0,
  case when $7::real is not null then array[$7::real] end`;

/**
 * Plans queries as production's planner would: in a transaction that is rolled back, tables and indexes have production's pages and
 * rows, and columns its figures. The planner asks the file system for the size of a table, so that it gets one: files without content,
 * which take no space, in the place of the table's own.
 *
 * Only on a server whose folder this tool has made on this machine, and as a superuser.
 * @param open opens a superuser's session.
 * @param raw the plans at the sizes here, null for what could not be planned.
 * @param before what this function returned before the command: columns that have lost their statistics since are left without them.
 * @returns undefined if the files of the server are not to be had.
 */
export async function planAtProductionSize(
  open: () => Promise<Session>,
  production: ProductionSizes,
  texts: readonly string[],
  raw: readonly (Plan | null)[],
  before?: ColumnStates,
): Promise<ProductionPlans | undefined> {
  const files: SparseRelation[] = [];
  try {
    return await withSession(open(), async (session) => {
      const [place] = await session.query<Place>(PLACE);
      if (!place || !(await isMarkedFolder(path.dirname(place.folder)))) return undefined;
      await session.query('BEGIN');
      const tables = await enlargeAll(session, production, raw, { place, files, before });
      const planned = await planQueries(
        session,
        texts.filter((_, index) => raw[index]),
      );
      // The transaction is at its end with the first error, and none of these plans failed before.
      const failed = planned.find(({ error }) => error)?.error;
      if (failed) throw new Error(`${failed.message} (SQLSTATE ${failed.sqlstate})`);
      const plans = planned.values();
      return { plans: raw.map((plan) => (plan ? (plans.next().value?.value ?? null) : null)), ...tables };
    });
  } finally {
    // The server has closed them with the session, and rolled back what named them.
    for (const each of files) await each.remove();
  }
}

async function enlargeAll(
  session: Session,
  { relations, settings }: ProductionSizes,
  raw: readonly (Plan | null)[],
  {
    place,
    files,
    before,
  }: Pick<Enlarging, 'place' | 'files'> & { readonly before: ColumnStates | undefined },
): Promise<Omit<ProductionPlans, 'plans'>> {
  const there = new Map(relations.map((each) => [each.relation, each]));
  const blocksThere = Number(settings.block_size ?? place.blockBytes);
  const names = [...new Set(raw.flatMap((plan) => (plan ? relationsIn(plan) : [])))];
  const columns = new Map<string, Pick<Column, 'type' | 'analyzed'>>();
  const hasKept = ({ oid }: Table, column: Column) =>
    !before || !hasLost(column, before.get(`${oid}.${column.number}`));
  for (const name of PLANNER_SETTINGS) {
    const [value] = settings[name]?.split(' ') ?? [];
    if (value !== undefined) await session.query('SELECT pg_catalog.set_config($1, $2, true)', [name, value]);
  }
  const tables = await session.query<Table>(TABLES, [names]);
  for (const { file } of tables.flatMap(({ indexes }) => indexes))
    if (!(await isWritten(path.join(place.folder, file), place.blockBytes))) {
      await session.query('CHECKPOINT');
      break;
    }
  for (const table of tables) {
    for (const { number, type, analyzed } of table.columns)
      columns.set(`${table.oid}.${number}`, { type, analyzed });
    const known = there.get(displayName(table.schema, table.name));
    const kept = table.columns.filter((column) => hasKept(table, column));
    if (known) await enlarge(session, { ...table, columns: kept }, known, { place, blocksThere, files });
  }
  return { columns, lost: tables.filter((table) => table.columns.some((column) => !hasKept(table, column))) };
}

interface Place {
  readonly folder: string;
  readonly blockBytes: number;
  readonly blocksOfSegment: number;
}

interface Enlarging {
  readonly place: Place;
  readonly blocksThere: number;
  /** Gets what is made. */
  readonly files: SparseRelation[];
}

/** A b-tree's pages are filled to this part, and an entry has a header and a pointer. */
const FILLED = 0.9;
const ENTRY_BYTES = 16;
const UNKNOWN_WIDTH = 8;

async function enlarge(
  session: Session,
  table: Table,
  { planner, rows: rowsThere }: ProfiledRelation,
  { place, blocksThere, files }: Enlarging,
): Promise<void> {
  if (!planner || rowsThere === null) return;
  const scale = blocksThere / place.blockBytes;
  const set = async (stored: StoredFile, pages: number, rows: number, visible: number) => {
    const sparse = pages > stored.pages ? await sparseFile(stored, pages, place) : null;
    if (sparse) files.push(sparse);
    const size = Math.max(pages, stored.pages);
    await session.query(SET_FIGURES, [stored.oid, size, rows, visible, sparse?.node ?? null]);
  };
  const pages = Math.ceil(planner.pages * scale);
  // A table that is larger here has as many rows on a page as there.
  const rows = rowsThere * Math.max(1, table.pages / pages);
  await set(
    table,
    pages,
    rows,
    Math.floor((planner.visiblePages / planner.pages) * Math.max(pages, table.pages)),
  );
  const indexesThere = new Map(planner.indexes.map((each) => [each.index, each]));
  for (const index of table.indexes) {
    const known = indexesThere.get(displayName(index.name));
    const entries = known?.rows ?? rows * shareOf(index, table);
    const built = (entries * (ENTRY_BYTES + widthOf(index.columns, planner))) / FILLED / place.blockBytes;
    await set(index, Math.ceil(known ? known.pages * scale : built), entries, 0);
  }
  await session.query(FORGET, [table.oid]);
  const columnsThere = new Map(planner.columns.map((each) => [each.column, each]));
  for (const column of table.columns) {
    const figures = columnsThere.get(displayName(column.name));
    if (!figures) continue;
    await session.query(REMEMBER, [
      ...[table.oid, column.number, figures.nullFraction, figures.width, figures.distinct],
      ...[column.less, column.less === 0 ? null : figures.correlation, column.collation],
    ]);
  }
}

/** A column that was made, retyped or rewritten has no statistics until ANALYZE. One that had none before tells nothing by that. */
function hasLost(column: Column, was: Pick<Column, 'type' | 'analyzed'> | undefined): boolean {
  if (column.analyzed) return false;
  return was === undefined || was.analyzed || was.type !== column.type;
}

/** A partial index that the profile does not have is taken to have the same share of the rows as here. */
function shareOf(index: StoredFile, table: Table): number {
  return index.rows > 0 && table.rows > 0 ? Math.min(1, index.rows / table.rows) : 1;
}

function widthOf(columns: readonly string[], { columns: figures }: PlannerStatistics): number {
  const widths = new Map(figures.map(({ column, width }) => [column, width]));
  return columns.reduce((sum, name) => sum + (widths.get(displayName(name)) ?? UNKNOWN_WIDTH), 0);
}

/** In the folder of the server alone, whatever links lead out of it. */
async function sparseFile(
  { file }: StoredFile,
  blocks: number,
  { folder, blockBytes, blocksOfSegment }: Place,
): Promise<SparseRelation> {
  const own = await realpath(path.dirname(folder));
  const real = await realpath(path.join(folder, file));
  if (!real.startsWith(`${own}${path.sep}`)) throw new Error(`${real} is not in the clone's folder`);
  return makeSparseRelation(real, { blockBytes, blocks, blocksOfSegment });
}
