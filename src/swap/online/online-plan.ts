/** A column that both databases have: the same attribute of the same table, also if its name differs. */
export interface OnlineColumn {
  readonly attnum: number;
  /** Names in the target and in the migrated clone, not quoted. */
  readonly inTarget: string;
  readonly inClone: string;
  /** Types as format_type() writes them, with length and precision. */
  readonly targetType: string;
  readonly cloneType: string;
  /** The one of both by which values are compared: that of the migrated database. */
  readonly comparedBy: string;
}

/** A table that the clone follows. The OID is the same in both databases. */
export interface OnlineTable {
  readonly oid: number;
  /** Qualified names, quoted: in the target, and in the clone as the command left it. */
  readonly inTarget: string;
  readonly inClone: string;
  /** The columns to publish. */
  readonly columns: readonly OnlineColumn[];
  /** The columns of a key that both have, by their names in the target; empty if it has none. */
  readonly key: readonly string[];
  /** The publication must list the columns; if false it must not: with REPLICA IDENTITY FULL, UPDATE would fail. */
  readonly listsColumns: boolean;
  /**
   * It has no replica identity. It needs a publication `WITH (publish = 'insert, truncate')`, since UPDATE and DELETE would fail in
   * any other; the swap is given up if the target's counters of updated and deleted rows move.
   */
  readonly insertsOnly: boolean;
}

/** A table that is not published. The swap is given up if the target's counters of it move. */
export interface LeftOutTable {
  readonly oid: number;
  readonly inTarget: string;
  readonly reason: string;
}

/** A sequence that both databases have. The OID as a regclass names it also after a change of its name. */
export interface OnlineSequence {
  readonly oid: number;
  /** Qualified names, quoted. */
  readonly inTarget: string;
  readonly inClone: string;
}

/** A foreign key that the migration adds: the apply of a subscription does not check it. */
export interface NewForeignKey {
  readonly name: string;
  /** SQL for the clone while it follows: the number of rows that violate it, in one row and one column `orphans`. */
  readonly orphans: string;
}

/**
 * Everything that a clone needs to follow its target by logical replication until it takes the target's place. Its SQL uses the
 * names that the clone has from `before` until `after`: those of the target.
 */
export interface OnlinePlan {
  readonly tables: readonly OnlineTable[];
  readonly leftOut: readonly LeftOutTable[];
  /** Their values are copied while the target is closed. */
  readonly sequences: readonly OnlineSequence[];
  /** SQL for the clone in the cut-over: sets new sequences above the values of columns that the target has as well. */
  readonly raise: readonly string[];
  /** Materialized views to refresh after the catch-up, in this order: qualified names, quoted. */
  readonly refresh: readonly string[];
  readonly newForeignKeys: readonly NewForeignKey[];
  /** Columns and tables of the clone that only the user's SQL fills: for people. */
  readonly notCompared: readonly string[];
  /** SQL for the clone before it catches up: names are put back, temporary defaults set. */
  readonly before: readonly string[];
  /** SQL for the clone before the cut-over, which undoes that. */
  readonly after: readonly string[];
}

/** A reason why a migration cannot run while production writes on. */
export interface OnlineObjection {
  readonly kind: OnlineObjectionKind;
  /** The object's qualified name, for people. */
  readonly subject: string;
  readonly reason: string;
  /** A way that works instead. */
  readonly remedy: string;
}

export type OnlineObjectionKind =
  | 'command wrote'
  | 'computed default'
  | 'conversion'
  | 'dropped column'
  | 'enum label'
  | 'foreign key'
  | 'generated column'
  | 'key'
  | 'new column'
  | 'new table'
  | 'persistence'
  | 'rename'
  | 'row security'
  | 'sequence'
  | 'trigger';

/** How the original can follow the migrated database, once that has its name. */
export interface WayBackPlan {
  /** The original's tables, with the migrated database as the target. */
  readonly tables: readonly OnlineTable[];
  /** Reasons why there can be no way back. */
  readonly objections: readonly OnlineObjection[];
  readonly limits: readonly WayBackLimit[];
}

/** Writes to the migrated database that do not go back. */
export interface WayBackLimit {
  /** For people: `NULL in public.orders.note`. */
  readonly what: string;
  /** They stop the way back. Otherwise the rows go back without them, or not at all. */
  readonly stops: boolean;
  /** SQL for the migrated database: the number of rows with such values, as `found`; null if no query finds them. */
  readonly rows: string | null;
}

export type OnlineEligibility =
  | { readonly eligible: true; readonly plan: OnlinePlan; readonly wayBack: WayBackPlan }
  | { readonly eligible: false; readonly objections: readonly OnlineObjection[] };
