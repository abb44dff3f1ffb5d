import { sqlstateOf } from '../../errors.ts';
import type { SwallowedFailure } from '../../model/effect-facts.ts';
import type { StatementSection } from '../../model/report.ts';
import type { Action } from '../../model/statement-actions.ts';
import { actionsOf, fieldsIf } from '../../postgres/sql/classify-statement.ts';
import { languageOf, plpgsqlCode, sqlCode, UNREADABLE } from '../../postgres/sql/code-texts.ts';
import { parseText } from '../../postgres/sql/parse.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { settingsOf, type Trial, triedInRollback } from './filtered-writes.ts';

/** Rows violate a constraint. */
const VIOLATION = /^23/;

/**
 * Tries the indexes and constraints once more that a DO block with EXCEPTION makes: one that rows violate now was refused in the block too,
 * and the block passed over the error. If it was made, the server answers that it is there.
 */
export async function swallowedBy(trial: Trial, statement: StatementSection): Promise<SwallowedFailure[]> {
  const { session, sent, mayRun, leftMs } = trial;
  const [only] = (await parseText(Buffer.from(statement.sql))) ?? [];
  const block = only && fieldsIf(only.node, 'DoStmt');
  if (!block || languageOf(block.args) !== 'plpgsql') return [];
  const code = await plpgsqlCode(statement.sql);
  const settings = await settingsOf(sent, statement, mayRun);
  if (code === UNREADABLE || !settings) return [];
  const found: SwallowedFailure[] = [];
  for (const sql of [...code.texts.values(), ...code.dynamic]) {
    if (leftMs() <= 0 || !(await demands(sql)) || !(await mayRun(sql))) continue;
    const failure = await failureOf(() => triedInRollback(session, [...settings, sql], leftMs()));
    if (failure) found.push({ statement: statement.index, ...failure });
  }
  return found;
}

/** Tells if a text is one statement that demands something of rows. */
async function demands(sql: string): Promise<boolean> {
  const code = await sqlCode(sql);
  if (code === UNREADABLE || code.nodes.length !== 1) return false;
  const actions = code.nodes.flatMap(actionsOf);
  return actions.length > 0 && actions.every(isDemand);
}

function isDemand(action: Action): boolean {
  switch (action.does) {
    case 'create index':
      return action.unique && !action.concurrently;
    case 'add constraint':
      return !action.notValid;
    case 'set not null':
    case 'validate constraint':
      return true;
    default:
      return false;
  }
}

type Failure = Omit<SwallowedFailure, 'statement'>;

async function failureOf(run: () => Promise<unknown>): Promise<Failure | null> {
  try {
    await run();
    return null;
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    if (sqlstate === undefined) throw error;
    if (!VIOLATION.test(sqlstate)) return null;
    const { message, schema, table } = error as Error & { schema?: string; table?: string };
    const relation = schema !== undefined && table !== undefined ? displayName(schema, table) : null;
    return { sqlstate, message, relation };
  }
}
