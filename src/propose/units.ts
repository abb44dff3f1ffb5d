import type { StatementSection } from '../model/report.ts';
import type { KeptStatement } from './kept-statements.ts';

/** One transaction of the command. */
export type Unit = readonly [KeptStatement, ...KeptStatement[]];

/**
 * Groups statements by their transaction, in the order in which the transactions ended: one that ended later saw what the others
 * had left. @param all what the command sent, with its COMMITs
 */
export function unitsOf(statements: readonly KeptStatement[], all: readonly StatementSection[]): Unit[] {
  const ends = new Map(all.map(({ transaction, index }) => [transaction, index]));
  const units = new Map<number, [KeptStatement, ...KeptStatement[]]>();
  for (const each of statements) {
    const unit = units.get(each.section.transaction);
    if (unit) unit.push(each);
    else units.set(each.section.transaction, [each]);
  }
  const endOf = ([{ section }]: Unit) => ends.get(section.transaction) ?? section.index;
  return [...units.values()].sort((one, other) => endOf(one) - endOf(other));
}
