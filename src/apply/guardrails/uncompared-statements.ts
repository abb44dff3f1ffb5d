import { partsOf } from '../../boundary/statement-parts.ts';
import type { Name } from '../../model/statement-actions.ts';
import { fieldsIf, isIncidental, isQuery, writesWithin } from '../../postgres/sql/classify-statement.ts';
import { decidesMeaning, isCustomSetting } from '../../postgres/sql/meaning-settings.ts';
import { calledFunctions, type Node, nameOf, nodesWithin } from '../../postgres/sql/tree.ts';
import { sharesAny, type TargetNames } from './target-names.ts';

/**
 * Says whether a statement need not have been rehearsed: it begins or ends a transaction, makes a setting with which
 * later statements are compared, or reads the catalogue and changes nothing.
 */
export function isNotCompared(node: Node, target: TargetNames): boolean {
  const set = fieldsIf(node, 'VariableSetStmt');
  if (set?.name !== undefined) return !isCustomSetting(set.name) || !decidesMeaning(set.name);
  if (fieldsIf(node, 'NotifyStmt') || fieldsIf(node, 'CheckPointStmt')) return false;
  return isIncidental(node) || readsCatalogue(node, target);
}

/** Says whether a SELECT names only relations and reading functions of PostgreSQL, and locks no row. */
function readsCatalogue(node: Node, target: TargetNames): boolean {
  if (!isQuery(node) || writesWithin(node) || nodesWithin(node, 'LockingClause').length > 0) return false;
  const ctes = new Set(nodesWithin(node, 'CommonTableExpr').map(({ ctename }) => ctename ?? ''));
  const isOfServer = ({ schema, name }: Name) =>
    schema === null
      ? ctes.has(name) || (name.startsWith('pg_') && !target.relations.has(name))
      : schema === 'pg_catalog' || schema === 'information_schema';
  return (
    nodesWithin(node, 'RangeVar').every((relation) => isOfServer(nameOf(relation))) &&
    calledFunctions(node).every((called) => changesNothing(called, target)) &&
    !sharesAny(target.code, partsOf(node).words)
  );
}

function changesNothing({ schema, name }: Name, { reading }: TargetNames): boolean {
  return (schema === null || schema === 'pg_catalog') && (reading.has(name) || name === 'set_config');
}
