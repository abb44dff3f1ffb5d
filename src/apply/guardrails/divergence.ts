import { kindOf, type Node } from '../../postgres/sql/statement-kinds.ts';
import {
  isDataStatement,
  likenessHash,
  type Rehearsed,
  shapeHash,
  textHash,
} from '../../rehearsal/receipts/rehearsed.ts';

export interface Sent {
  readonly sql: string;
  /** null where the parser did not accept it. */
  readonly node: Node | null;
}

/** What concerns the session or the transaction, and nothing that stays. */
const PASSING: ReadonlySet<string> = new Set([
  'TransactionStmt',
  'VariableSetStmt',
  'VariableShowStmt',
  'ConstraintsSetStmt',
  'DeallocateStmt',
  'DiscardStmt',
  'FetchStmt',
  'ClosePortalStmt',
  'ListenStmt',
  'UnlistenStmt',
  'NotifyStmt',
  'CheckPointStmt',
]);

/** Functions that tools look around and lock each other out with. */
const OF_SYSTEM =
  /^(?:pg_|has_|current_|session_|inet_|txid_|to_|array_|string_|json|row_|quote_|regexp_|(?:col|obj|shobj)_description$|(?:set_config|version|now|format|format_type|concat|concat_ws|count|max|min|sum|length|lower|upper|replace|unnest|generate_series|generate_subscripts|clock_timestamp|statement_timestamp|timezone)$)/;

/**
 * Whether a statement was not rehearsed. DDL counts by its text, or by its shape where the rehearsal's literals are not
 * known; DML by its shape, in any repetition.
 */
export function diverges(
  rehearsed: Rehearsed,
  { sql, node }: Sent,
  { redacted = false, database }: { redacted?: boolean; database?: string } = {},
): boolean {
  if (node && (PASSING.has(kindOf(node)) || readsCatalogue(node))) return false;
  if (isDataStatement(sql)) return !rehearsed.dml.has(likenessHash(sql));
  return !rehearsed.ddl.has(
    redacted ? shapeHash(sql) : textHash(sql, database === undefined ? [] : [database]),
  );
}

/** A SELECT that names nothing but the system's own relations and functions, and locks no row. */
function readsCatalogue(node: Node): boolean {
  if (kindOf(node) !== 'SelectStmt') return false;
  const named = { own: false, ctes: new Set<string>(), relations: [] as Fields[] };
  walk(node, named);
  return !named.own && named.relations.every((relation) => isOfSystem(relation, named.ctes));
}

type Fields = Readonly<Record<string, unknown>>;

/** Of nodes within a SELECT: it is more than a look. */
const MORE: ReadonlySet<string> = new Set([
  'InsertStmt',
  'UpdateStmt',
  'DeleteStmt',
  'MergeStmt',
  'IntoClause',
  'intoClause',
  'LockingClause',
]);

function walk(value: unknown, named: { own: boolean; ctes: Set<string>; relations: Fields[] }): void {
  if (Array.isArray(value)) {
    for (const each of value) walk(each, named);
    return;
  }
  if (!isFields(value)) return;
  for (const [key, each] of Object.entries(value)) {
    if (MORE.has(key)) named.own = true;
    if (isFields(each)) {
      if (key === 'RangeVar') named.relations.push(each);
      if (key === 'CommonTableExpr') named.ctes.add(String(each.ctename));
      if (key === 'FuncCall' && !isSystemFunction(each.funcname)) named.own = true;
    }
    walk(each, named);
  }
}

function isOfSystem({ schemaname, relname }: Fields, ctes: ReadonlySet<string>): boolean {
  if (schemaname !== undefined) return schemaname === 'pg_catalog' || schemaname === 'information_schema';
  return ctes.has(String(relname)) || String(relname).startsWith('pg_');
}

function isSystemFunction(name: unknown): boolean {
  const parts = (Array.isArray(name) ? name : []).map((part) => String((part as StringNode).String?.sval));
  return parts.length > 1 ? parts[0] === 'pg_catalog' : OF_SYSTEM.test(parts[0] ?? '');
}

interface StringNode {
  readonly String?: { readonly sval?: string };
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null;
}
