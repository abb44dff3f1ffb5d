import { displayName, identifier, literal } from '../../postgres/sql/quote.ts';
import {
  about,
  COLUMN_LISTS_SINCE,
  isInsertsOnly,
  keyObjections,
  qualified,
  shown,
  tableOf,
} from './follow-table.ts';
import type {
  CatalogueColumn,
  CatalogueRule,
  CatalogueTable,
  ColumnType,
  OnlineCatalogue,
} from './online-catalogue.ts';
import type { OnlineObjection, OnlineTable, WayBackLimit, WayBackPlan } from './online-plan.ts';

interface Both {
  readonly original: OnlineCatalogue;
  readonly newer: OnlineCatalogue;
}

interface Pair {
  readonly original: CatalogueTable;
  readonly newer: CatalogueTable;
}

/**
 * Decides how the original can follow the migrated database, and which writes do not go back. The original is not changed for that, so
 * nothing has to be undone in it: a change that it would need is an objection.
 * @param followed OIDs of the tables that the clone follows before the cut-over.
 */
export function planWayBack({ original, newer }: Both, followed: ReadonlySet<number>): WayBackPlan {
  const tables: OnlineTable[] = [];
  const objections: OnlineObjection[] = [];
  const limits: WayBackLimit[] = [];
  const newTables: string[] = [];
  for (const table of newer.tables.filter(({ kind }) => kind === 'r')) {
    const there = original.tables.find(({ oid }) => oid === table.oid);
    if (!there) newTables.push(shown(table));
    else if (!followed.has(table.oid))
      limits.push(withoutRows(`rows of ${shown(table)}, which is not followed`));
    else {
      const pair = { original: there, newer: table };
      tables.push(tableOf({ target: table, clone: there }, 'target'));
      objections.push(...objectionsTo(pair, newer.versionNum));
      limits.push(...limitsOf(pair), ...droppedRules(pair, original.rules, newer.rules));
    }
  }
  if (newTables.length > 0) limits.push(withoutRows(`rows of new tables: ${newTables.join(', ')}`));
  return { tables, objections, limits };
}

const withoutRows = (what: string): WayBackLimit => ({ what, stops: false, rows: null });
const REMEDY = 'swap it without --way-back';

function addedColumns({ original, newer }: Pair): CatalogueColumn[] {
  return newer.columns.filter(
    ({ attnum, generated }) =>
      generated === '' && !original.columns.some((column) => column.attnum === attnum),
  );
}

function objectionsTo(pair: Pair, versionNum: number): OnlineObjection[] {
  const { original, newer } = pair;
  const dropped = original.columns.filter(
    ({ attnum }) => !newer.columns.some((column) => column.attnum === attnum),
  );
  const found = keyObjections({ target: newer, clone: original }, dropped);
  const object = (column: string | null, kind: OnlineObjection['kind'], reason: string) =>
    found.push(about(original, column, kind, reason));
  if (isInsertsOnly(newer) && !isInsertsOnly(original))
    object(null, 'key', 'the command removes its replica identity');
  if (shown(original) !== shown(newer))
    object(null, 'rename', `it becomes ${shown(newer)}, and replication uses names`);
  for (const { attnum, name } of original.columns) {
    const there = newer.columns.find((column) => column.attnum === attnum);
    if (there && there.name !== name)
      object(name, 'rename', `it becomes ${there.name}, and replication uses names`);
  }
  if (original.triggers.length > 0)
    object(
      null,
      'trigger',
      `its triggers fire for replicated rows as well: ${original.triggers.map(({ name }) => name).join(', ')}`,
    );
  for (const { name, notNull, default: value, identity, generated } of dropped)
    if (notNull && value === null && identity === '' && generated === '')
      object(name, 'dropped column', 'it is NOT NULL without a default, and new rows will not have it');
  const added = addedColumns(pair);
  if (added.length > 0 && versionNum < COLUMN_LISTS_SINCE)
    object(
      null,
      'new column',
      'it gets new columns, and PostgreSQL 14 cannot leave them out of a publication',
    );
  return found.map((each) => ({ ...each, remedy: REMEDY }));
}

function limitsOf(pair: Pair): WayBackLimit[] {
  const { original, newer } = pair;
  const limits: WayBackLimit[] = addedColumns(pair).map(({ name }) =>
    withoutRows(`values of the new column ${displayName(newer.schema, newer.name, name)}`),
  );
  for (const column of newer.columns) {
    const former = original.columns.find(({ attnum }) => attnum === column.attnum);
    if (!former || column.generated !== '') continue;
    const where = displayName(newer.schema, newer.name, column.name);
    const stops = (what: string, condition: string | null) =>
      limits.push({ what: `${what} in ${where}`, stops: true, rows: condition && countOf(newer, condition) });
    if (former.notNull && !column.notNull) stops('NULL', `${identifier(column.name)} IS NULL`);
    const beyond = beyondType(identifier(column.name), former.type, column.type);
    if (beyond) stops(beyond.what, beyond.condition);
  }
  return limits;
}

function countOf(table: CatalogueTable, condition: string): string {
  return `SELECT count(*)::float8 AS found FROM ONLY ${qualified(table)} WHERE ${condition}`;
}

const INTEGERS: Readonly<Record<string, string>> = {
  int2: '-32768 AND 32767',
  int4: '-2147483648 AND 2147483647',
  int8: '-9223372036854775808 AND 9223372036854775807',
};
const WIDTHS = Object.keys(INTEGERS);
const NUMBERS = new Set([...WIDTHS, 'numeric']);
const TEXTS = new Set(['text', 'varchar', 'bpchar', 'citext']);
/** A length is stored with the four bytes of a header. */
const HEADER = 4;

/** Describes the values of the new type that the former one does not take. Undefined if it takes all. */
function beyondType(
  column: string,
  former: ColumnType,
  now: ColumnType,
): { what: string; condition: string | null } | undefined {
  const isSame = former.oid === now.oid && former.modifier === now.modifier;
  if (former.labels) {
    if (now.labels?.every((label) => former.labels?.includes(label))) return undefined;
    const labels = former.labels.map(literal).join(', ');
    const condition = former.isArray ? null : `${column}::text <> ALL (ARRAY[${labels}]::text[])`;
    return { what: `labels that ${former.written} does not have`, condition };
  }
  if (
    isSame ||
    (former.base === now.base && former.modifier === now.modifier && former.isArray === now.isArray)
  )
    return undefined;
  const what = `values that ${former.written} does not take`;
  if (former.isArray || now.isArray) return { what, condition: null };
  const range = INTEGERS[former.name ?? ''];
  if (range !== undefined) {
    return { what, condition: NUMBERS.has(now.name ?? '') ? `${column} NOT BETWEEN ${range}` : null };
  }
  if (TEXTS.has(former.name ?? '')) {
    if (former.modifier < 0) return undefined;
    return { what, condition: `char_length(${column}::text) > ${former.modifier - HEADER}` };
  }
  if (former.name === 'numeric' && former.modifier < 0 && NUMBERS.has(now.name ?? '')) return undefined;
  return { what, condition: null };
}

/** Limits by CHECK constraints and unique indexes that only the original has. */
function droppedRules(
  { original, newer }: Pair,
  before: readonly CatalogueRule[],
  after: readonly CatalogueRule[],
): WayBackLimit[] {
  const left = after.filter(({ table }) => table === newer.oid);
  return before
    .filter((rule) => rule.table === original.oid && !left.some((each) => implies(each, rule)))
    .map((rule) => ({
      what: `rows that violate ${rule.name} of ${shown(original)}`,
      stops: true,
      rows: violations(rule, newer),
    }));
}

function implies(left: CatalogueRule, rule: CatalogueRule): boolean {
  if (left.oid === rule.oid) return true;
  if (rule.expression !== null) return left.expression === rule.expression;
  return left.columns?.every((attnum) => rule.columns?.includes(attnum)) ?? false;
}

function violations({ expression, columns }: CatalogueRule, table: CatalogueTable): string | null {
  if (expression !== null) return countOf(table, `NOT (${expression})`);
  const names = columns?.map((attnum) => table.columns.find((column) => column.attnum === attnum)?.name);
  if (!names || names.includes(undefined)) return null;
  const listed = names.map((name) => identifier(name ?? '')).join(', ');
  const present = names.map((name) => `${identifier(name ?? '')} IS NOT NULL`).join(' AND ');
  return `SELECT coalesce(sum(n - 1), 0)::float8 AS found FROM (
    SELECT count(*) AS n FROM ONLY ${qualified(table)} WHERE ${present} GROUP BY ${listed} HAVING count(*) > 1) g`;
}
