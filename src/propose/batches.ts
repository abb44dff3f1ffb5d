import { fieldsIf } from '../postgres/sql/classify-statement.ts';
import { identifier } from '../postgres/sql/quote.ts';
import { isWord, slice } from '../postgres/sql/tokens.ts';
import { itemsOf, nodesWithin } from '../postgres/sql/tree.ts';
import { left, type Rewriting, type ScriptStep, type Subject, waiting, writtenName } from './subject.ts';

// UPDATE and DELETE of many rows, as a loop over ranges of the table's key that commits after each.

const ROWS = 5000;
const PAUSE_S = 0.02;
/** It pauses while a standby is further behind. */
const LAG_BYTES = 64 * 2 ** 20;
/** Statements that change fewer rows are left as they are. */
export const BATCHED_FROM_ROWS = 1000;

/** UPDATE or DELETE. */
export function inBatches(subject: Subject): Rewriting {
  const { node, sql, tokens } = subject;
  const update = fieldsIf(node, 'UpdateStmt');
  const change = update ?? fieldsIf(node, 'DeleteStmt');
  if (!change) return left('only UPDATE and DELETE can be divided by the key of their table');
  const { relation, whereClause, returningClause, withClause } = change;
  const key = subject.before(relation)?.key;
  if (!key) return left('its table has no key to divide it by');
  if (returningClause || withClause) return left('it has a WITH or RETURNING clause');
  if (whereClause && 'CurrentOfExpr' in whereClause) return left('it goes by a cursor');
  const isRead = nodesWithin(node, 'RangeVar').some(({ relname }) => relname === relation?.relname);
  if (isRead) return left('it reads its own table, which would have changed from batch to batch');
  const set = itemsOf<{ name?: string }>(update?.targetList, 'ResTarget').map(({ name }) => name ?? '');
  if (set.some((column) => key.includes(column))) return left('it changes the key of its table');
  const alias = identifier(relation?.alias?.aliasname ?? relation?.relname ?? '');
  const where = tokens.findLast((token) => isWord(token, 'WHERE'));
  const condition = whereClause && where ? `\n      AND (${slice(sql, where.to)})` : '';
  const head = whereClause && where ? slice(sql, 0, where.from) : sql;
  return batches(
    writtenName(subject, relation),
    key,
    (range) => `${head}\n    WHERE ${range(alias)}${condition}`,
  );
}

/** Fills a new column with its default. */
export function fillInBatches(table: string, key: readonly string[], column: string): ScriptStep[] {
  const name = identifier(column);
  return batches(
    table,
    key,
    (range) =>
      `UPDATE ${table} AS filled SET ${name} = DEFAULT\n    WHERE ${range('filled')} AND filled.${name} IS NULL`,
  );
}

/** A loop over the keys of a table. @param change writes the statement for one range of keys. */
export function batches(
  table: string,
  key: readonly string[],
  change: (range: (alias: string) => string) => string,
): ScriptStep[] {
  const columns = (alias = '') => row(key.map((column) => `${alias}${identifier(column)}`));
  const variables = (prefix: string) => key.map((_, index) => `safemigrate_${prefix}_${index + 1}`);
  const [low, high] = [variables('low'), variables('high')];
  const list = key.map(identifier).join(', ');
  const descending = key.map((column) => `${identifier(column)} DESC`).join(', ');
  const range = (alias: string) =>
    `${columns(`${alias}.`)} >= ${row(low)} AND ${columns(`${alias}.`)} <= ${row(high)}`;
  const declare = (names: readonly string[]) =>
    names.map((name, index) => `  ${name} ${table}.${identifier(key[index] ?? '')}%TYPE;`).join('\n');
  return [
    // Repeated as a whole, it might change rows twice: it must not give up, and says how far it came.
    waiting(`DO $safemigrate$
#variable_conflict use_column
DECLARE
${declare(low)}
${declare(high)}
BEGIN
  SELECT ${list} INTO ${low.join(', ')} FROM ${table} ORDER BY ${list} LIMIT 1;
  WHILE ${low[0]} IS NOT NULL LOOP
    SELECT ${list} INTO ${high.join(', ')} FROM (
      SELECT ${list} FROM ${table} WHERE ${columns()} >= ${row(low)} ORDER BY ${list} LIMIT ${ROWS}
    ) AS batch ORDER BY ${descending} LIMIT 1;
    ${change(range)};
    COMMIT;
    RAISE NOTICE 'committed up to %', ${row(high)};
    PERFORM pg_sleep(${PAUSE_S});
    WHILE (SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)) FROM pg_stat_replication) > ${LAG_BYTES} LOOP
      COMMIT;
      PERFORM pg_sleep(0.1);
    END LOOP;
    SELECT ${list} INTO ${low.join(', ')} FROM ${table} WHERE ${columns()} > ${row(high)} ORDER BY ${list} LIMIT 1;
  END LOOP;
END $safemigrate$`),
  ];
}

const row = (parts: readonly string[]) => (parts.length === 1 ? (parts[0] ?? '') : `(${parts.join(', ')})`);
