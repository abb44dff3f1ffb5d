import type * as Tree from 'libpg-query';
import type { KeyTails } from '../../model/statement-actions.ts';
import { bare, displayName, identifier } from './quote.ts';
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

/** Returns SQL that adds a CHECK or foreign key and reads the rows while others write, each in a transaction of its own. */
export function notValidSteps(table: string, name: string, definition: string): [string, string] {
  return [
    `ALTER TABLE ${table} ADD CONSTRAINT ${name} ${definition} NOT VALID`,
    `ALTER TABLE ${table} VALIDATE CONSTRAINT ${name}`,
  ];
}

/**
 * Returns SQL that makes a column NOT NULL without reading the table under a lock that blocks others.
 * @param column as SQL. @param relation as SQL; the name of the CHECK is made from both, or from `table`
 */
export function notNullSteps(relation: string, column: string, table = bare(relation)): string[] {
  // Since version 18 the constraint that SET NOT NULL makes is called …_not_null.
  const name = displayName(lastBytes(`${table}_${bare(column)}_proven`));
  return [
    ...notValidSteps(relation, name, `CHECK (${column} IS NOT NULL)`),
    `ALTER TABLE ${relation} ALTER COLUMN ${column} SET NOT NULL`,
    `ALTER TABLE ${relation} DROP CONSTRAINT ${name}`,
  ];
}

/** Returns the end of a name that is longer than a name can be, in bytes. */
const lastBytes = (name: string) =>
  Buffer.from(name)
    .subarray(-63)
    .toString()
    .replace(/^\uFFFD+/, '');
