import type * as Tree from 'libpg-query';
import { sqlstateOf } from '../../errors.ts';
import type { SchemaSection } from '../../model/report.ts';
import { FIRST_USER_OID, IS_TABLE } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { parseText } from '../../postgres/sql/parse.ts';
import { displayName, identifier, nameParts } from '../../postgres/sql/quote.ts';
import { itemsOf, nameOf, nodesWithin, strings } from '../../postgres/sql/tree.ts';
import type { RefusedWrite } from './refused-writes.ts';

/**
 * CHECK constraints and foreign keys of some names. Left out are tables whose writes run code that a trial should not run, or that
 * changes the values first: triggers before each row, rules, defaults by functions of the user's.
 */
const CONSTRAINTS = `
select n.nspname as schema, c.relname as table, o.conname as name, o.convalidated as validated,
  array(select a.attname::text from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum = any (o.conkey)) as columns,
  array(select a.attname::text from pg_catalog.pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum) as "allColumns",
  array(select a.attname::text from pg_catalog.pg_attribute a
    left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attidentity = ''
      and pg_catalog.pg_get_expr(d.adbin, d.adrelid) like '%nextval(%') as serials,
  array(select a.attname::text from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attidentity <> '') as identities
from pg_catalog.pg_constraint o
join pg_catalog.pg_class c on c.oid = o.conrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where o.contype in ('c', 'f') and ${IS_TABLE} and o.conname = any ($1)
  and not exists (select from pg_catalog.pg_trigger g
    where g.tgrelid = c.oid and not g.tgisinternal and g.tgenabled <> 'D' and (g.tgtype & 3) = 3)
  and not exists (select from pg_catalog.pg_rewrite w where w.ev_class = c.oid)
  and not exists (select from pg_catalog.pg_attrdef d join pg_catalog.pg_depend p
      on p.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and p.objid = d.oid
    where d.adrelid = c.oid and p.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass and p.refobjid >= ${FIRST_USER_OID})`;

interface Constraint {
  readonly schema: string;
  readonly table: string;
  readonly name: string;
  /** Existing rows satisfy it. */
  readonly validated: boolean;
  readonly columns: readonly string[];
  readonly allColumns: readonly string[];
  /** Columns whose default calls nextval(), which no rollback takes back. */
  readonly serials: readonly string[];
  readonly identities: readonly string[];
}

const OWN_PATH = 'RESET search_path';
const BEGIN = [
  'BEGIN READ WRITE',
  "SET LOCAL statement_timeout = '1s'",
  "SET LOCAL lock_timeout = '200ms'",
  'SET CONSTRAINTS ALL IMMEDIATE',
];
const ROLLBACK = 'ROLLBACK';
const VIOLATION = new Set(['23514', '23503']);
const BUDGET_MS = 3_000;

/** CHECK constraints and foreign keys that the command made or changed: `public.orders.total_positive`. */
export function newConstraints({ changes }: SchemaSection): Set<string> {
  return new Set(
    changes
      .filter(({ verb, kind, sql }) => kind === 'constraint' && verb !== 'drop' && MADE.test(sql))
      .map(({ object }) => object),
  );
}

const MADE = / (?:CHECK|FOREIGN KEY) ?\(|VALIDATE CONSTRAINT/;

/**
 * Tries the INSERTs and UPDATEs of tables with new constraints, each in a transaction that is rolled back, with the values of an
 * existing row in place of its parameters; null: it is not refused, or could not be tried.
 * @param session may write to the clone, as the owner of the tables.
 */
export async function triedWrites(
  session: Session,
  queries: readonly string[],
  suspects: ReadonlySet<string>,
): Promise<(RefusedWrite | null)[]> {
  const names = [...suspects].map((object) => nameParts(object).at(-1));
  const rows = await session.query<Constraint>(CONSTRAINTS, [names]);
  const constraints = rows.filter(({ schema, table, name }) =>
    suspects.has(displayName(schema, table, name)),
  );
  if (constraints.length === 0) return queries.map(() => null);
  await session.query(OWN_PATH);
  const deadline = performance.now() + BUDGET_MS;
  const found: (RefusedWrite | null)[] = [];
  for (const sql of queries)
    found.push(performance.now() < deadline ? await triedWrite(session, sql, constraints) : null);
  return found;
}

async function triedWrite(
  session: Session,
  sql: string,
  constraints: readonly Constraint[],
): Promise<RefusedWrite | null> {
  if (!/^\s*(?:insert|update)\b/i.test(sql)) return null;
  const [statement] = (await parseText(Buffer.from(sql))) ?? [];
  const write = statement && writeOf(statement.node);
  const own = constraints.filter(
    ({ schema, table }) => table === write?.name && (write.schema ?? schema) === schema,
  );
  const [table] = own;
  const parameters = write && table && parameterColumns(write.node, table.allColumns);
  if (!write || !table || !parameters) return null;
  const values = await valuesOf(session, table, parameters);
  const violated = values && (await violationOf(session, sql, values, table));
  const constraint = own.find(({ name }) => name === violated);
  if (!constraint) return null;
  // Ignores keys that match no row, and rows that an unvalidated constraint was never checked for: the application would not send them.
  const invented = [...constraint.serials, ...constraint.identities];
  const unlike = constraint.validated ? invented : [...invented, ...parameters];
  if (constraint.columns.some((column) => unlike.includes(column))) return null;
  return {
    relation: displayName(constraint.schema, constraint.table),
    columns: constraint.columns.map((column) => displayName(column)),
    constraint: displayName(constraint.name),
  };
}

/** Only the statement itself: of a write within WITH the parameters are harder to place. */
function writeOf(node: Readonly<Record<string, unknown>>) {
  const write = (node.InsertStmt ?? node.UpdateStmt) as Tree.InsertStmt | Tree.UpdateStmt | undefined;
  if (!write || ('withClause' in write && write.withClause)) return null;
  return { ...nameOf(write.relation), node: write };
}

/** The column whose value each parameter is: $1, $2, …; null if that cannot be said of one of them. */
function parameterColumns(
  node: Tree.InsertStmt | Tree.UpdateStmt,
  allColumns: readonly string[],
): string[] | null {
  const columns = new Map<number, string>();
  const place = (value: unknown, column: string | undefined) => {
    const number = parameterIn(value);
    if (number !== null && column !== undefined) columns.set(number, column);
  };
  if ('selectStmt' in node && node.selectStmt) {
    const named = itemsOf<Tree.ResTarget>(node.cols, 'ResTarget').map(({ name }) => name ?? '');
    const given = named.length > 0 ? named : allColumns;
    const select = 'SelectStmt' in node.selectStmt ? node.selectStmt.SelectStmt : undefined;
    for (const { items = [] } of itemsOf<Tree.List>(select?.valuesLists, 'List'))
      for (const [index, item] of items.entries()) place(item, given[index]);
  }
  for (const { name, val } of nodesWithin(node, 'ResTarget')) place(val, name);
  for (const { kind, lexpr, rexpr } of nodesWithin(node, 'A_Expr')) {
    const fields = lexpr && 'ColumnRef' in lexpr ? strings(lexpr.ColumnRef.fields) : [];
    if (kind === 'AEXPR_OP') place(rexpr, fields.at(-1));
  }
  const numbers = new Set(nodesWithin(node, 'ParamRef').map(({ number }) => number ?? 0));
  const placed = [...numbers].sort((one, other) => one - other).map((number) => columns.get(number));
  const known = placed.filter((column) => column !== undefined && allColumns.includes(column));
  return known.length === placed.length ? (known as string[]) : null;
}

/** `$1`, `$1::text`. */
function parameterIn(value: unknown): number | null {
  const { ParamRef, TypeCast } = (value ?? {}) as { ParamRef?: Tree.ParamRef; TypeCast?: Tree.TypeCast };
  if (ParamRef) return ParamRef.number ?? null;
  return TypeCast ? parameterIn(TypeCast.arg) : null;
}

/** null if the table is empty. */
async function valuesOf(
  session: Session,
  { schema, table }: Constraint,
  columns: readonly string[],
): Promise<unknown[] | null> {
  if (columns.length === 0) return [];
  const texts = columns.map((column, index) => `${identifier(column)}::pg_catalog.text AS "${index}"`);
  const [row] = await session.query(
    `SELECT ${texts.join(', ')} FROM ${identifier(schema)}.${identifier(table)} LIMIT 1`,
  );
  return row ? columns.map((_, index) => row[index]) : null;
}

/** The name of the constraint that the statement violates; null: none, or it failed for something else. */
async function violationOf(
  session: Session,
  sql: string,
  values: readonly unknown[],
  table: Constraint,
): Promise<string | null> {
  try {
    await session.queryAll([...BEGIN, ...withoutSequences(table)]);
    await session.query(sql, values);
    return null;
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    if (sqlstate === undefined) throw error;
    return VIOLATION.has(sqlstate) ? ((error as { constraint?: string }).constraint ?? null) : null;
  } finally {
    await session.query(ROLLBACK);
  }
}

/** Within the transaction the table takes no value of a sequence, and runs no triggers but those of its constraints. */
function withoutSequences({ schema, table, serials, identities }: Constraint): string[] {
  const alter = `ALTER TABLE ${identifier(schema)}.${identifier(table)}`;
  const next = (column: string) => `${alter} ALTER COLUMN ${identifier(column)} SET DEFAULT ${NEVER_USED}`;
  return [
    `${alter} DISABLE TRIGGER USER`,
    ...identities.map((column) => `${alter} ALTER COLUMN ${identifier(column)} DROP IDENTITY`),
    ...[...serials, ...identities].map(next),
  ];
}

/** A key that no row has, so that a trial gets as far as the foreign keys. */
const NEVER_USED = -32_768;
