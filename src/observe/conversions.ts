import type { StatementSection, TransactionSection } from '../model/report.ts';
import type { Conversion, Name, StatementFacts } from '../model/statement-actions.ts';
import { displayName } from '../postgres/sql/quote.ts';
import type { Retyped } from '../schema/retyped.ts';

export interface ConversionWork {
  readonly statements: readonly StatementSection[];
  readonly transactions: readonly TransactionSection[];
  /** By the index of the statement. */
  readonly parsed: ReadonlyMap<number, StatementFacts>;
}

/**
 * How the values of a column came into its new type: known from the one statement that changed it. Where none was seen to (a
 * function did it), or several, it may have been anything. The relation goes by the locks, since the search path is not known,
 * and since a partition changes with what it is a part of.
 */
export function conversionOf(
  { object }: Retyped,
  { statements, transactions, parsed }: ConversionWork,
): Conversion {
  const undone = new Set(
    transactions.filter(({ outcome }) => outcome === 'rolled back').map(({ transaction }) => transaction),
  );
  const lockedIn = new Set<number>();
  const found: { readonly conversion: Conversion; readonly byName: boolean }[] = [];
  for (const { index, transaction, error, locks } of statements) {
    if (error !== null || undone.has(transaction)) continue;
    const locked = locks?.some(
      ({ relation, mode }) => mode === 'ACCESS EXCLUSIVE' && object.startsWith(`${relation}.`),
    );
    if (locked) lockedIn.add(transaction);
    if (!lockedIn.has(transaction)) continue;
    for (const action of parsed.get(index)?.actions ?? [])
      if (action.does === 'alter type' && object.endsWith(`.${displayName(action.column)}`))
        found.push({ conversion: action.conversion, byName: isNamed(action.table, action.column, object) });
  }
  const named = found.filter(({ byName }) => byName);
  const [only, ...more] = named.length > 0 ? named : found;
  return only && more.length === 0 ? only.conversion : 'expression';
}

function isNamed({ schema, name }: Name, column: string, object: string): boolean {
  return schema === null
    ? object.endsWith(`.${displayName(name, column)}`)
    : object === displayName(schema, name, column);
}
