import type * as Tree from 'libpg-query';
import type { KeyTails } from '../../model/statement-actions.ts';
import { identifier } from './quote.ts';
import { strings } from './tree.ts';

/** A UNIQUE or PRIMARY KEY constraint, its names as SQL. */
export interface KeyConstraint {
  readonly table: string;
  readonly name: string;
  readonly columns: readonly string[];
  readonly isPrimary: boolean;
  /** Words behind the columns of the index, and behind the constraint. */
  readonly tails?: KeyTails | undefined;
}

/** Writes a key as an index that is built CONCURRENTLY, and the constraint that takes it. */
export function keyFromIndex({ table, name, columns, isPrimary, tails }: KeyConstraint): [string, string] {
  const kind = isPrimary ? 'PRIMARY KEY' : 'UNIQUE';
  return [
    `CREATE UNIQUE INDEX CONCURRENTLY ${name} ON ${table} (${columns.join(', ')})${tails?.ofIndex ?? ''}`,
    `ALTER TABLE ${table} ADD CONSTRAINT ${name} ${kind} USING INDEX ${name}${tails?.ofConstraint ?? ''}`,
  ];
}

/** Reads what a key has besides its columns. */
export function tailsOfKey(constraint: Tree.Constraint): KeyTails {
  const including = strings(constraint.including).map(identifier);
  return {
    ofIndex: [
      including.length > 0 ? ` INCLUDE (${including.join(', ')})` : '',
      constraint.nulls_not_distinct ? ' NULLS NOT DISTINCT' : '',
    ].join(''),
    ofConstraint: [
      constraint.deferrable ? ' DEFERRABLE' : '',
      constraint.initdeferred ? ' INITIALLY DEFERRED' : '',
    ].join(''),
  };
}
