import { identifier } from '../../postgres/sql/quote.ts';
import type { ProbedColumn, ProbedKey, ProbedReference, ProbedRelation } from './probed-relations.ts';

/** One statement of a probe. */
export interface Tried {
  readonly subject?: string;
  readonly settings?: readonly string[];
  readonly sql: string;
  /** Calls of the running application's statements like it; null: not counted. Missing: it is made from the catalogue alone. */
  readonly callsPerSecond?: number | null;
  /** Statement that makes another result good. */
  readonly remedy?: string;
}

export const isTable = ({ kind }: ProbedRelation) => kind === 'r' || kind === 'p';
const list = (names: readonly string[]) => names.map(identifier).join(', ');

/** By a key, since a view that takes the place of a table has no ctid. */
export function one({ keys, sqlName }: ProbedRelation): string {
  const [column] =
    keys.find(({ predicate, columns }) => predicate === null && columns.length === 1)?.columns ?? [];
  if (column === undefined) return `ctid = (SELECT ctid FROM ${sqlName} LIMIT 1)`;
  const name = identifier(column);
  return `${name} = (SELECT ${name} FROM ${sqlName} WHERE ${name} IS NOT NULL LIMIT 1)`;
}

/** The newest row is the least likely one to be referred to. */
export function newest(relation: ProbedRelation): string {
  const [column] = relation.keys.find(({ predicate }) => predicate === null)?.columns ?? [];
  if (column === undefined) return one(relation);
  const name = identifier(column);
  return `${name} = (SELECT ${name} FROM ${relation.sqlName} ORDER BY ${name} DESC LIMIT 1)`;
}

/** Each row is looked for by the index, in which no other way finds it. */
const BY_INDEX = ['seqscan', 'tidscan', 'hashjoin', 'mergejoin'].map(
  (way) => `SET LOCAL enable_${way} = off`,
);
const SEARCHED_ROWS = 200;
const rebuilding = (index: string) => `REINDEX INDEX CONCURRENTLY ${index}`;

/** Counts rows that an index finds by their keys, which are computed from the rows themselves. */
export function searched({ sqlName }: ProbedRelation, index: ProbedRelation['expressions'][number]): Tried {
  const keys = index.keys.map((key) => `(${key})`);
  const and = index.predicate === null ? '' : ` AND (${index.predicate})`;
  const known = keys.map((key) => `${key} IS NOT NULL`).join(' AND ');
  const values = keys.map((key, at) => `${key} AS probed_${at}`).join(', ');
  const same = keys.map((key, at) => `${key} = probed_${at}`).join(' AND ');
  return {
    subject: index.name,
    settings: BY_INDEX,
    sql: `SELECT count(*) FROM (SELECT ctid AS probed_at, ${values} FROM ${sqlName} WHERE ${known}${and} LIMIT ${SEARCHED_ROWS}) AS sample WHERE EXISTS (SELECT FROM ${sqlName} AS found WHERE ${same} AND found.ctid = probed_at${and})`,
    remedy: rebuilding(index.sqlName),
  };
}

/** Compares the rows of a partial index with those that satisfy its predicate, which the planner does not recognise in CASE. */
export function counted(
  { sqlName }: ProbedRelation,
  { name, sqlName: index, predicate }: ProbedRelation['filtered'][number],
): Tried {
  const count = (where: string) => `(SELECT count(*) FROM ${sqlName} WHERE ${where})`;
  return {
    subject: name,
    settings: BY_INDEX,
    sql: `SELECT ${count(`(${predicate})`)} = ${count(`CASE WHEN (${predicate}) THEN true ELSE false END`)}`,
    remedy: rebuilding(index),
  };
}

/** A row like an existing one, with other values of the keys; none if no other value can be made. */
export function inserts(
  relation: ProbedRelation,
  columns: readonly ProbedColumn[],
  kept: readonly string[] = [],
): Tried[] {
  if (!isTable(relation)) return [];
  const fresh = new Set<string>();
  const given = new Set(columns.map(({ name }) => name));
  const referring = new Set(relation.references.flatMap((each) => each.columns));
  for (const key of relation.keys) {
    // A column that is not given takes its default: NULL, or a value that a function makes.
    if (key.columns.some((name) => fresh.has(name) || !given.has(name))) continue;
    const free = columns.filter(({ name }) => key.columns.includes(name) && !kept.includes(name));
    const chosen =
      free.find((each) => !referring.has(each.name) && freshValue(relation, each)) ??
      free.find((each) => freshValue(relation, each));
    if (chosen) fresh.add(chosen.name);
  }
  if (columns.length === 0) return [{ sql: `INSERT INTO ${relation.sqlName} DEFAULT VALUES` }];
  const values = columns.map((each) =>
    fresh.has(each.name) ? freshValue(relation, each) : identifier(each.name),
  );
  return [
    {
      sql: `INSERT INTO ${relation.sqlName} (${list(columns.map(({ name }) => name))}) SELECT ${values.join(', ')} FROM ${relation.sqlName} LIMIT 1`,
    },
  ];
}

/** A value that no row has; null: there is none of the type, or finding it takes too long. */
function freshValue({ sqlName, keys }: ProbedRelation, { name, type, length }: ProbedColumn): string | null {
  const column = identifier(name);
  const isLeading = keys.some(({ columns, predicate }) => columns[0] === name && predicate === null);
  switch (type) {
    case 'int2':
    case 'int4':
    case 'int8':
    case 'numeric':
      return isLeading ? `(SELECT max(${column}) + 1 FROM ${sqlName})` : `${column} + 100000`;
    case 'text':
      return `md5(${column})`;
    case 'varchar':
    case 'bpchar':
      return `left(md5(${column}), ${length ?? 32})`;
    case 'uuid':
      return 'gen_random_uuid()';
    case 'date':
      return isLeading ? `(SELECT max(${column}) + 1 FROM ${sqlName})` : null;
    case 'timestamp':
    case 'timestamptz':
      return isLeading ? `(SELECT max(${column}) + interval '1 second' FROM ${sqlName})` : null;
    default:
      return null;
  }
}

function writable({ columns }: ProbedRelation, key: ProbedKey): ProbedColumn[] {
  return columns.filter(
    ({ name, generated, filled, identity }) =>
      !generated && identity !== 'a' && (!filled || key.columns.includes(name)),
  );
}

export function duplicates(relation: ProbedRelation, key: ProbedKey): Tried[] {
  const columns = writable(relation, key);
  if (!key.columns.every((name) => columns.some((column) => column.name === name))) return [];
  const nullable = relation.columns.some(({ name, notNull }) => key.columns.includes(name) && !notNull);
  const [insert] = inserts(relation, columns, key.columns);
  if (!insert) return [];
  const known = key.columns.map((name) => `${identifier(name)} IS NOT NULL`).join(' AND ');
  const sql = nullable ? insert.sql.replace(/ LIMIT 1$/, ` WHERE ${known} LIMIT 1`) : insert.sql;
  return [{ subject: key.name, sql }];
}

export function upserts(relation: ProbedRelation, key: ProbedKey): Tried[] {
  if (!key.immediate) return [];
  const columns = writable(relation, key);
  if (columns.length === 0) return [];
  const names = list(columns.map(({ name }) => name));
  const where = key.predicate === null ? '' : ` WHERE ${key.predicate}`;
  return [
    {
      subject: key.name,
      sql: `INSERT INTO ${relation.sqlName} (${names}) SELECT ${names} FROM ${relation.sqlName} LIMIT 1 ON CONFLICT (${list(key.columns)})${where} DO NOTHING`,
    },
  ];
}

/** Deletes a row that another table refers to. */
export function parents(relation: ProbedRelation): Tried[] {
  return relation.referencedBy.flatMap(({ name, columns, other, otherColumns }) => {
    const [column] = columns;
    const [from] = otherColumns;
    if (column === undefined || from === undefined || columns.length > 1) return [];
    return [
      {
        subject: name,
        sql: `DELETE FROM ${relation.sqlName} WHERE ${identifier(column)} = (SELECT ${identifier(from)} FROM ${other} WHERE ${identifier(from)} IS NOT NULL ORDER BY 1 DESC LIMIT 1)`,
      },
    ];
  });
}

export function orphan(
  relation: ProbedRelation,
  { name, columns, other, otherColumns, otherTypes }: ProbedReference,
): Tried[] {
  const [column] = columns;
  const [to] = otherColumns;
  const value = to === undefined ? null : strangerOf(other, to, otherTypes[0] ?? '');
  if (column === undefined || value === null || columns.length > 1) return [];
  return [
    {
      subject: name,
      sql: `UPDATE ${relation.sqlName} SET ${identifier(column)} = ${value} WHERE ${one(relation)}`,
    },
  ];
}

function strangerOf(table: string, column: string, type: string): string | null {
  if (/^int|^numeric$/.test(type)) return `(SELECT max(${identifier(column)}) + 1 FROM ${table})`;
  if (type === 'uuid') return 'gen_random_uuid()';
  return type === 'text' ? "md5('nobody')" : null;
}

export function oddValues({ type }: ProbedColumn): readonly string[] {
  if (/^int|^numeric$|^float/.test(type)) return ['-1', '0'];
  return type === 'text' || type === 'varchar' || type === 'bpchar' ? ["''", "'?'"] : [];
}

/** Long and longer: the first is refused by an index alone, the second by storage without TOAST, too. */
export function longValues({ length }: ProbedColumn): readonly string[] {
  return length === null ? [longText(200), longText(400)] : [`repeat('x', ${length})`];
}

/** Text that does not compress, 32 characters for each. */
function longText(count: number): string {
  return `(SELECT string_agg(md5(n::text), '') FROM generate_series(1, ${count}) AS n)`;
}

export function set(relation: ProbedRelation, { name }: ProbedColumn, value: string): Tried {
  return {
    subject: name,
    sql: `UPDATE ${relation.sqlName} SET ${identifier(name)} = ${value} WHERE ${one(relation)}`,
  };
}
