import type { NullRows } from '../../model/effect-facts.ts';
import type { StatementSection } from '../../model/report.ts';
import type { Name } from '../../model/statement-actions.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { ifAnswered } from '../../postgres/session-helpers.ts';
import { displayName, identifier } from '../../postgres/sql/quote.ts';
import type { ParsedStatements } from './already-there.ts';

const NOT_NULL_VIOLATION = '23502';
const WRITES = new Set(['insert', 'update', 'delete', 'merge', 'truncate']);
/** Statements whose rows are counted at most: a tool gives up at the first. */
const MOST = 3;

/** Tells if a change of the schema failed because rows have NULL. */
export function failedByNulls({ parsed }: ParsedStatements, { index, error }: StatementSection): boolean {
  const actions = parsed.get(index)?.actions ?? [];
  return (
    error?.sqlstate === NOT_NULL_VIOLATION &&
    error.table !== null &&
    error.column !== null &&
    actions.length > 0 &&
    !actions.some(({ does }) => WRITES.has(does))
  );
}

/**
 * Counts the rows with NULL that a statement failed because of. What its transaction had changed is rolled back by now: if it had written
 * to the table, they cannot be counted any more.
 */
export async function readNullRows(session: Session, sent: ParsedStatements): Promise<NullRows[]> {
  const counted: NullRows[] = [];
  for (const statement of sent.statements.filter((each) => failedByNulls(sent, each)).slice(0, MOST)) {
    if (hasWrittenBefore(sent, statement)) continue;
    const { schema, table, column } = statement.error ?? {};
    const [relation, name] = [[schema ?? 'public', table ?? ''], column ?? ''];
    // A column that the transaction added was rolled back.
    const rows = await ifAnswered(() =>
      session.query<{ rows: string }>(
        `SELECT pg_catalog.count(*) AS rows FROM ${relation.map(identifier).join('.')} WHERE ${identifier(name)} IS NULL`,
      ),
    );
    const count = Number(rows?.[0]?.rows ?? 0);
    if (count > 0)
      counted.push({
        statement: statement.index,
        relation: displayName(...relation),
        column: displayName(name),
        rows: count,
      });
  }
  return counted;
}

function hasWrittenBefore({ statements, parsed }: ParsedStatements, failed: StatementSection): boolean {
  const isTable = ({ name }: Name) => name === failed.error?.table;
  return statements.some(
    ({ index, transaction, tag }) =>
      transaction === failed.transaction &&
      index < failed.index &&
      // A block or a procedure may write.
      (tag === 'DO' ||
        tag === 'CALL' ||
        (parsed.get(index)?.actions ?? []).some(
          (action) =>
            WRITES.has(action.does) &&
            ('tables' in action
              ? action.tables.some(isTable)
              : 'table' in action && action.table !== null && isTable(action.table)),
        )),
  );
}
