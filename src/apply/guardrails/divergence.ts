import type { Name } from '../../model/statement-actions.ts';
import { beginsAsData, isIncidental, isQuery, writesWithin } from '../../postgres/sql/classify-statement.ts';
import { likenessHash, shapeHash } from '../../postgres/sql/statement-hashes.ts';
import { isSystemFunction } from '../../postgres/sql/system-functions.ts';
import { calledFunctions, type Node, nameOf, nodesWithin } from '../../postgres/sql/tree.ts';
import { type Rehearsed, textHash } from '../../rehearsal/receipts/rehearsed.ts';

export interface Comparing {
  /** The rehearsal's report was redacted. */
  readonly redacted?: boolean;
  /** The target's name. */
  readonly database?: string;
}

/**
 * Says whether a statement was not rehearsed. DDL is compared by its text, or by its normalized text if the rehearsal was
 * redacted; DML by its normalized text, in any number of repetitions.
 */
export function diverges(
  rehearsed: Rehearsed,
  { sql, node }: { readonly sql: string; readonly node: Node | null },
  comparing: Comparing = {},
): boolean {
  if (node && isNotCompared(node)) return false;
  return beginsAsData(sql)
    ? !rehearsed.dml.has(likenessHash(sql))
    : !rehearsed.ddl.has(textKeyOf(sql, comparing));
}

/** Returns the hash by which DDL is compared. */
export function textKeyOf(sql: string, { redacted = false, database }: Comparing): string {
  return redacted ? shapeHash(sql) : textHash(sql, database === undefined ? [] : [database]);
}

/** Says whether a statement need not be compared: SET, BEGIN, and queries of the catalogue. */
export function isNotCompared(node: Node): boolean {
  return isIncidental(node) || readsCatalogue(node);
}

/** Says whether it is a SELECT that names only system relations and functions, and locks no row. */
function readsCatalogue(node: Node): boolean {
  if (!isQuery(node) || writesWithin(node) || nodesWithin(node, 'LockingClause').length > 0) return false;
  const ctes = new Set(nodesWithin(node, 'CommonTableExpr').map(({ ctename }) => ctename ?? ''));
  return (
    nodesWithin(node, 'RangeVar').every((relation) => isSystemRelation(nameOf(relation), ctes)) &&
    calledFunctions(node).every(isSystemFunction)
  );
}

function isSystemRelation({ schema, name }: Name, ctes: ReadonlySet<string>): boolean {
  if (schema !== null) return schema === 'pg_catalog' || schema === 'information_schema';
  return ctes.has(name) || name.startsWith('pg_');
}
