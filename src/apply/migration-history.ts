import { isBookkeeping } from '../model/migration-tables.ts';
import type { ApplySection } from '../model/report.ts';
import { isDml } from '../postgres/sql/classify-statement.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { kindOf, type Node } from '../postgres/sql/tree.ts';

type Effect = ApplySection['committed'][number];

/** Tools exclude each other by a row of such a table; that records no migration. */
const LOCK_TABLE = /lock$/i;

/**
 * Relation of a statement to the tables in which migration tools note what they ran: it writes rows there, it makes or
 * changes such a table or takes the tool's lock, or neither.
 */
type Concern = 'note' | 'upkeep' | 'other';

interface Told {
  readonly effect: Effect;
  readonly concern: Concern;
  readonly transaction: number | undefined;
}

/**
 * Finds committed statements whose transaction wrote nothing to the tool's history table. A tool that records migrations in
 * separate transactions may know of them all the same.
 * @param transactionOf the statements' transactions, by their numbers.
 */
export async function unrecordedMigrations(
  committed: readonly Effect[],
  transactionOf: ReadonlyMap<number, number>,
): Promise<Effect[]> {
  return unnotedOf(await tell(committed, transactionOf));
}

/**
 * Says whether the tool's history table agrees with what was committed. null if that is not known: the rehearsal wrote to no such
 * table, the tool records migrations in separate transactions, or it is not known what was committed.
 * @param rehearsed texts of the rehearsed statements.
 */
export async function bookkeepingOf(
  committed: readonly Effect[],
  transactionOf: ReadonlyMap<number, number>,
  rehearsed: readonly string[],
): Promise<ApplySection['bookkeeping']> {
  if (committed.length === 0 || !(await anyNotes(rehearsed))) return null;
  const told = await tell(committed, transactionOf);
  const missing = unnotedOf(told);
  const about = new Set(told.filter(isOther).map(({ transaction }) => transaction));
  const notesApart = told.some(({ concern, transaction }) => concern === 'note' && !about.has(transaction));
  if (missing.some(({ outcome }) => outcome === 'unknown')) return null;
  if (notesApart && missing.length > 0) return null;
  return { agrees: missing.length === 0, unnoted: missing.map(({ statement }) => statement) };
}

async function tell(
  committed: readonly Effect[],
  transactionOf: ReadonlyMap<number, number>,
): Promise<Told[]> {
  return Promise.all(
    committed.map(async (effect) => ({
      effect,
      concern: await concernOf(effect.sql),
      transaction: transactionOf.get(effect.statement),
    })),
  );
}

function unnotedOf(told: readonly Told[]): Effect[] {
  const noting = new Set(
    told.filter(({ concern }) => concern === 'note').map(({ transaction }) => transaction),
  );
  return told.filter((each) => isOther(each) && !noting.has(each.transaction)).map(({ effect }) => effect);
}

const isOther = ({ concern }: Told) => concern === 'other';

async function anyNotes(texts: readonly string[]): Promise<boolean> {
  for (const sql of texts) if ((await concernOf(sql)) === 'note') return true;
  return false;
}

async function concernOf(sql: string): Promise<Concern> {
  const statements = (await parseText(Buffer.from(sql))) ?? [];
  const concerns = statements.map(({ node }) => concernOfNode(node));
  if (concerns.length === 0 || concerns.includes('other')) return 'other';
  return concerns.includes('note') ? 'note' : 'upkeep';
}

function concernOfNode(node: Node): Concern {
  const { relation } = (node[kindOf(node)] ?? {}) as { relation?: { schemaname?: string; relname?: string } };
  const name = relation?.relname;
  if (name === undefined || !isBookkeeping(name)) return 'other';
  return isDml(node) && !LOCK_TABLE.test(name) ? 'note' : 'upkeep';
}
