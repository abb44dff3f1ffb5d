import type { ApplySection, StatementSection, TransactionSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { effectOf } from '../postgres/sql/classify-statement.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { calledFunctions, type Node } from '../postgres/sql/tree.ts';
import type { Fate } from './own-transaction-ids.ts';

export interface Effects {
  /** Writes that stay in the target, or may. */
  readonly committed: ApplySection['committed'];
  /** Writes that do not stay: rolled back, or failed. */
  readonly rolledBack: ApplySection['rolledBack'];
  readonly transactions: TransactionSection[];
}

/** In pg_catalog only these functions write; elsewhere every volatile function may. */
const WRITING_FUNCTIONS = `
SELECT DISTINCT p.proname::pg_catalog.text AS name FROM pg_catalog.pg_proc p
 WHERE p.proname = ANY ($1::pg_catalog.name[])
   AND CASE WHEN p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace
            THEN p.proname ~ '^(nextval|setval|lo_|lowrite|pg_logical_emit|query_to|table_to|database_to|schema_to)'
            ELSE p.provolatile = 'v' END`;

/**
 * Determines the outcome of each statement that wrote, or may have.
 * @param fates of the transactions whose connection was lost.
 * @param session in the target, to look up the functions called there; null if it cannot be reached.
 */
export async function effectsOf(
  seen: { readonly statements: readonly StatementSection[]; readonly transactions: TransactionSection[] },
  fates: ReadonlyMap<number, Fate>,
  session: Session | null,
): Promise<Effects> {
  const transactions = seen.transactions.map((each) => {
    const fate = fates.get(each.transaction);
    return fate === undefined ? each : { ...each, outcome: fate };
  });
  const outcomes = new Map(transactions.map(({ transaction, outcome }) => [transaction, outcome]));
  const readings = await Promise.all(seen.statements.map(readingOf));
  const writing = await writingFunctions(readings, session);
  const wrote = seen.statements.filter((_, at) => {
    const reading = readings[at];
    return reading?.writes || reading?.functions.some((name) => writing === null || writing.has(name));
  });
  const writes = wrote.map(({ index, sql, transaction, explicit, error }) => {
    const outcome = outcomes.get(transaction) ?? 'unknown';
    // A statement that a lost connection cut off has the fate of its transaction.
    const failed = error !== null && !fates.has(transaction);
    return { statement: index, sql, outcome: failed ? ('rolled back' as const) : outcome, explicit };
  });
  return {
    committed: writes.filter(({ outcome }) => outcome !== 'rolled back'),
    rolledBack: writes.filter(({ outcome }) => outcome === 'rolled back'),
    transactions,
  };
}

interface ReadingOf {
  readonly writes: boolean;
  /** Names of functions that it calls. */
  readonly functions: readonly string[];
}

const WRITES: ReadingOf = { writes: true, functions: [] };

/** A text that the parser does not accept, or that is not shown, may do anything. */
async function readingOf({ sql, note }: StatementSection): Promise<ReadingOf> {
  if (note === 'implicit end' || sql.trim() === '') return { writes: false, functions: [] };
  const statements = note === undefined ? await parseText(Buffer.from(sql)) : null;
  if (statements === null) return WRITES;
  const each = statements.map(({ node }) => readingOfNode(node));
  return {
    writes: each.some(({ writes }) => writes),
    functions: each.flatMap(({ functions }) => functions),
  };
}

function readingOfNode(node: Node): ReadingOf {
  switch (effectOf(node)) {
    case 'none':
      return { writes: false, functions: [] };
    case 'reads':
      return { writes: false, functions: calledFunctions(node).map(({ name }) => name) };
    default:
      return WRITES;
  }
}

/** null where it cannot be asked: then every function may write. */
async function writingFunctions(
  readings: readonly ReadingOf[],
  session: Session | null,
): Promise<ReadonlySet<string> | null> {
  const names = [...new Set(readings.flatMap(({ functions }) => functions))];
  if (names.length === 0) return new Set();
  if (session === null) return null;
  const rows = await session.query<{ name: string }>(WRITING_FUNCTIONS, [names]);
  return new Set(rows.map(({ name }) => name));
}
