import type { ChangedDefinition } from './definition-kinds.ts';
import type { ProbeDifference } from './probe-difference.ts';

/** Effects of the changes on others, as the clone shows them after the command. */
export interface EffectFacts {
  readonly unanalyzed: readonly Unanalyzed[];
  readonly brokenFunctions: readonly BrokenFunction[];
  readonly missingGrants: readonly MissingGrant[];
  readonly newRelations: readonly NewRelation[];
  readonly lostGrants: readonly LostGrant[];
  readonly unfiltered: readonly UnfilteredTable[];
  readonly published: readonly PublishedChange[];
  readonly redefined: readonly ChangedDefinition[];
  readonly violated: readonly ViolatedConstraint[];
  readonly probes: readonly ProbeDifference[];
  readonly alreadyThere: readonly AlreadyThere[];
  readonly filteredWrites: readonly FilteredWrite[];
  readonly severalMatches: readonly SeveralMatches[];
  readonly neverTrue: readonly NeverTrue[];
  readonly swallowed: readonly SwallowedFailure[];
  readonly unapplied: readonly UnappliedFile[];
  readonly ambiguous: readonly AmbiguousCall[];
  readonly setBack: readonly SequenceSetBack[];
  readonly idleRevokes: readonly IdleRevoke[];
  readonly refusedTypes: readonly RefusedType[];
  readonly unlisted: readonly UnlistedLabels[];
  readonly lostKeys: readonly LostKey[];
  readonly lostSearches: readonly LostSearch[];
  readonly columnTrials: readonly ColumnTrial[];
  readonly nullRows: readonly NullRows[];
}

/** A command of an ALTER TABLE that was tried alone, on an empty table like the one that the statement changed. */
export interface ColumnTrial {
  readonly statement: number;
  /** The column that it adds or gives another type. */
  readonly column: string;
  /** It gives the table a new file. */
  readonly rewrites: boolean;
  /** Why its stored column cannot be a VIRTUAL one: objects of it, with the server's message; null: it is not stored. */
  readonly storedFor: readonly string[] | null;
}

/** Rows that have NULL in a column that must not. */
export interface NullRows {
  readonly statement: number;
  readonly relation: string;
  readonly column: string;
  readonly rows: number;
}

/** A dropped index whose first column or expression no other one of its table has. */
export interface LostSearch {
  readonly relation: string;
  readonly index: string;
  readonly isConstraint: boolean;
  /** The column or expression. */
  readonly part: string;
}

/** A dropped unique index or exclusion constraint; no other one that its table had refuses the same rows. */
export interface LostKey {
  readonly relation: string;
  /** A constraint has the name of its index. */
  readonly index: string;
  readonly isConstraint: boolean;
  /** The compared columns and expressions. */
  readonly parts: readonly string[];
  readonly predicate: string | null;
  /** A unique index of columns alone and of all rows. */
  readonly isPlain: boolean;
  /** The index that the command made in its place; null: none. */
  readonly builtAs: string | null;
}

/** A list with all values of an enum type except the new ones. */
export interface UnlistedLabels {
  readonly type: string;
  readonly labels: readonly string[];
  readonly kind: 'check' | 'policy' | 'view' | 'partitions' | 'function';
  /** A constraint or policy, `public.orders.orders_check`; a view, partitioned table or function. */
  readonly object: string;
  /** The table or view; null for a function. */
  readonly relation: string | null;
  /** A row or call with another value fails. */
  readonly refuses: boolean;
}

/** A column that takes no values of the type that it had, or does not compare with them. */
export interface RefusedType {
  readonly object: string;
  /** The type before. */
  readonly from: string;
  /** It is refused when it is stored; false: when it is compared. */
  readonly stored: boolean;
  readonly sqlstate: string;
  readonly message: string;
}

/** A call of a function from before the command that fits a new one of its name as well. */
export interface AmbiguousCall {
  /** `public.f(integer)` */
  readonly function: string;
  /** The new ones. */
  readonly others: readonly string[];
  /** The call, with NULLs for its arguments. */
  readonly call: string;
  /** It is refused although its arguments have types; false: only with literals and parameters without a type. */
  readonly typed: boolean;
  /** Message of the server. */
  readonly error: string;
}

/** A sequence without an owner whose next value is one that it has passed. */
export interface SequenceSetBack {
  readonly sequence: string;
  /** Next values. */
  readonly before: string;
  readonly after: string;
  /** Columns whose default takes it, if one of them may have the next values. */
  readonly fills: readonly { readonly relation: string; readonly column: string }[];
}

/** A REVOKE after which the role has the privilege all the same. */
export interface IdleRevoke {
  /** Index of the statement. */
  readonly statement: number;
  /** A table, view, sequence, schema or function. */
  readonly object: string;
  readonly role: string;
  readonly privileges: readonly string[];
  /** `PUBLIC`, another role, or `the whole table`. */
  readonly through: readonly string[];
}

/** Rows that an UPDATE … FROM changed, and that several rows of FROM match with different values. */
export interface SeveralMatches {
  /** Index of the statement. */
  readonly statement: number;
  readonly relation: string;
  readonly rows: number;
}

/** A statement that changed no row, since a NULL in its condition is never equal to anything. */
export interface NeverTrue {
  /** Index of the statement. */
  readonly statement: number;
  /** NULLs in the subquery of NOT IN; null: the condition itself compares with NULL. */
  readonly nulls: number | null;
}

/** An index or a constraint that a DO block tries to make and that rows violate, while the block passes over the error. */
export interface SwallowedFailure {
  /** Index of the DO. */
  readonly statement: number;
  readonly sqlstate: string;
  /** Message of the server. */
  readonly message: string;
  /** null: the server names none. */
  readonly relation: string | null;
}

/** A file of the migrations folder that the tool's history table does not have after the command. */
export interface UnappliedFile {
  readonly tool: string;
  /** The history table. */
  readonly relation: string;
  readonly file: string;
  readonly why: /** Later ones are recorded. */
    | 'passed over'
    /** No later one is recorded. */
    | 'pending'
    /** Another file has the version that is recorded. */
    | 'same version'
    /** The tool does not take it, by its name or because its list of files lacks it. */
    | 'ignored';
}

/** An UPDATE or DELETE of the command that row security kept from rows. */
export interface FilteredWrite {
  /** Index of the statement. */
  readonly statement: number;
  readonly relation: string;
  readonly role: string;
  /** Rows that it would find without row security, and does not find. */
  readonly missed: number;
}

/** A column or an index that IF NOT EXISTS asks for, and that is another one afterwards. */
export interface AlreadyThere {
  readonly kind: 'column' | 'index';
  /** Index of the statement. */
  readonly statement: number;
  readonly relation: string;
  /** Name of the column or index, without quotes. */
  readonly name: string;
  /** Its type or definition; null: the table has no such column. */
  readonly is: string | null;
  /** The type, or the columns of the index. */
  readonly asked: string;
}

/** A constraint that the command left NOT VALID, and that rows violate. */
export interface ViolatedConstraint {
  readonly constraint: string;
  /** Message of the server. */
  readonly error: string;
}

export const NO_EFFECTS: EffectFacts = {
  unanalyzed: [],
  brokenFunctions: [],
  missingGrants: [],
  newRelations: [],
  lostGrants: [],
  unfiltered: [],
  published: [],
  redefined: [],
  violated: [],
  probes: [],
  alreadyThere: [],
  filteredWrites: [],
  severalMatches: [],
  neverTrue: [],
  swallowed: [],
  unapplied: [],
  ambiguous: [],
  refusedTypes: [],
  setBack: [],
  idleRevokes: [],
  unlisted: [],
  lostKeys: [],
  lostSearches: [],
  columnTrials: [],
  nullRows: [],
};

/** Least number of other relations in a schema, and share of them that a role may use, for it to be expected to use a new one. */
export const EXPECTED_GRANTS = { relations: 3, share: 0.9 } as const;

/** A role that may use the other relations of the schema, and not a new one. */
export interface MissingGrant {
  readonly relation: string;
  readonly role: string;
  /** Privileges that it has on the others: `SELECT`. */
  readonly privileges: readonly string[];
  /** Number of the others. */
  readonly siblings: number;
  readonly owner: string;
  /** Other roles whose new tables would give it privileges (ALTER DEFAULT PRIVILEGES). */
  readonly defaultsOf: readonly string[];
  /** It lacks them in production, by a profile; absent: on the clone. */
  readonly byProfile?: true;
}

/** A table or view that the command made, unless others had privileges on a former one of its name. */
export interface NewRelation {
  readonly relation: string;
  /** Without quotes. */
  readonly schema: string;
  readonly isView: boolean;
  /** The privileges with a use: SELECT alone, if it cannot be written. */
  readonly usable: readonly string[];
  readonly grants: Grants;
}

/** Privileges of others than the owner; `PUBLIC` is a role here. */
export type Grants = readonly { readonly role: string; readonly privileges: readonly string[] }[];

/** A role that may do less with a relation than with the one that had its name before the command. */
export interface LostGrant {
  readonly relation: string;
  readonly role: string;
  readonly privileges: readonly string[];
}

/** A new table without row security that a role may read. */
export interface UnfilteredTable {
  readonly relation: string;
  readonly role: string;
  /** A column, without quotes: policies keep rows of other tables from the role by their column of this name. */
  readonly column: string;
  /** The other tables. */
  readonly tables: readonly string[];
}

/** Returns those of the missing privileges that a role needs: a view that it may read is often not for its writes. */
export function neededOn({ isView, usable }: NewRelation, missing: readonly string[]): string[] {
  const needed = missing.filter((privilege) => usable.includes(privilege));
  return isView && !needed.includes('SELECT') ? [] : needed;
}

/** A change of a published table that a subscriber has to make too. */
export interface PublishedChange {
  readonly what: 'column added' | 'column renamed' | 'column retyped' | 'table renamed';
  readonly relation: string;
  readonly column: string | null;
  readonly publications?: readonly string[];
}

/** A column, or an index on an expression, of which the planner knows nothing; one of the two is null. */
export interface Unanalyzed {
  readonly relation: string;
  readonly column: string | null;
  readonly index: string | null;
}

/** A function whose body the server no longer takes. */
export interface BrokenFunction {
  /** `public.f(integer)` */
  readonly function: string;
  /** A name in it that means nothing any more: its last part, and the schema that had it, or the table of a column; null: another error. */
  readonly names: { readonly name: string; readonly within: string } | null;
  /** Changed objects in its body. If no name is missing, one of them may have caused the error: `public.orders.note`. */
  readonly mentions: readonly string[];
  /** Message of the server about the use. */
  readonly error: string;
  /** Tables with a trigger that runs it. */
  readonly triggersOn: readonly string[];
}
