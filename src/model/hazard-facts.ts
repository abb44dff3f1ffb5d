import type {
  CommandSection,
  DataSection,
  QueriesSection,
  SchemaSection,
  StatementSection,
  TransactionSection,
} from './report.ts';

/** All that hazards are decided from, as plain values. Relations are named as in the report, `public.orders`. */
export interface HazardFacts {
  /** How the command ended: where it says itself that it failed, a statement that failed is no news. */
  readonly command: Pick<CommandSection, 'exitCode'>;
  readonly statements: readonly StatementSection[];
  readonly transactions: readonly TransactionSection[];
  readonly schema: SchemaSection | null;
  readonly data: DataSection | null;
  /** Queries of the running application, tried before and after; null where there were none to try. */
  readonly queries: QueriesSection | null;
  /** What the parser says of the statements, by their index; one that it did not accept is missing. */
  readonly parsed: ReadonlyMap<number, StatementFacts>;
  /** Sessions whose lock_timeout was set as they began. */
  readonly sessionsWithLockTimeout: ReadonlySet<number>;
  readonly catalogue: CatalogueFacts;
  /** By relation; null where the target's traffic was not sampled. */
  readonly traffic: ReadonlyMap<string, RelationTraffic> | null;
}

/** What the target's own statistics say of one relation. */
export interface RelationTraffic {
  readonly readsPerSecond: number;
  readonly writesPerSecond: number;
}

/** What the report does not tell of the database, and what hazards depend on. */
export interface CatalogueFacts {
  /** Tables, partitioned ones and materialized views that were there before the command, by their names after it. */
  readonly relations: ReadonlyMap<string, RelationFacts>;
  /** Of relations that the command renamed or moved: the name from before to that from after. */
  readonly renamed: ReadonlyMap<string, string>;
  /** CHECK constraints that were there before the command. */
  readonly checks: readonly CheckFacts[];
  /**
   * Foreign keys as `public.orders.orders_customer_fkey` that no index of their own table serves after the command, and
   * none of the same columns that was unserved before.
   */
  readonly unindexedForeignKeys: ReadonlyMap<
    string,
    { readonly relation: string; readonly columns: readonly string[] }
  >;
  /** What the command dropped, by kind and name as the schema comparison has them: `index public.orders_customer_idx`. */
  readonly dropped: ReadonlyMap<string, DroppedFacts>;
  /** The database or the role has a lock_timeout of its own that is not 0. */
  readonly lockTimeoutByDefault: boolean;
}

export interface DroppedFacts {
  /** What it was a part of, and went with: the table of an index, the column of a constraint. null: it went by itself. */
  readonly goneWith: string | null;
  /** Of a constraint: one of the same definition that its table has afterwards, under another name. */
  readonly keptAs: string | null;
}

export interface CheckFacts {
  readonly relation: string;
  readonly constraint: string;
  readonly validated: boolean;
  /** Columns that cannot be null where it holds. */
  readonly provesNotNull: readonly string[];
}

export interface RelationFacts {
  readonly kind: 'table' | 'partitioned table' | 'materialized view';
  /** Without indexes; of a partitioned table the sum of its partitions. */
  readonly sizeBytes: number | null;
  readonly rows: number | null;
  readonly exact: boolean;
}

/** A name as a statement has it; where it says no schema, the search path decides. */
export interface Name {
  readonly schema: string | null;
  readonly name: string;
}

/** What stays behind when a statement has succeeded and its transaction is committed. */
export type StatementEffect =
  | 'none'
  /** Nothing of its own; a statement or a function within it may write. */
  | 'reads'
  | 'rows'
  /** The same content in another file. */
  | 'storage'
  | 'schema'
  /** Roles, databases, tablespaces, settings of the server. */
  | 'cluster'
  /** It runs code that the parser does not see. */
  | 'unknown';

export interface StatementFacts {
  /** What it asks for: an ALTER TABLE may ask for several things. */
  readonly actions: readonly Action[];
  /** What it leaves behind, with the statements within it; of `reads` only the functions that it calls may write. */
  readonly effect: StatementEffect;
  /** It goes back to a savepoint, which the server answers as it answers the end of a transaction: ROLLBACK. */
  readonly toSavepoint: boolean;
}

export type ConstraintKind = 'unique' | 'primary key' | 'exclude' | 'check' | 'foreign key' | 'not null';

/**
 * How a change of type converts values: without USING by the assignment cast, with USING by a cast to the very type that
 * is written out, or by whatever else.
 */
export type Conversion = 'assignment' | 'cast' | 'expression';

/** One thing that a statement asks for. */
export type Action =
  | { readonly does: 'create table'; readonly table: Name; readonly ifNotExists: boolean }
  | {
      readonly does: 'create index';
      readonly table: Name;
      readonly index: string | null;
      readonly concurrently: boolean;
      readonly unique: boolean;
      readonly ifNotExists: boolean;
    }
  | {
      readonly does: 'drop';
      /** `table`, `index`, `schema`, `view`, `materialized view`, `type`, … */
      readonly kind: string;
      readonly objects: readonly Name[];
      readonly concurrently: boolean;
      readonly cascade: boolean;
    }
  | {
      readonly does: 'reindex';
      readonly kind: string;
      readonly object: Name | null;
      readonly concurrently: boolean;
    }
  | { readonly does: 'truncate'; readonly tables: readonly Name[]; readonly cascade: boolean }
  | {
      readonly does: 'add constraint';
      readonly table: Name;
      readonly kind: ConstraintKind;
      readonly constraint: string | null;
      readonly columns: readonly string[];
      readonly usingIndex: string | null;
      readonly notValid: boolean;
      readonly references: Name | null;
      /** Of a CHECK that says no more than this of one column, or this and something else. */
      readonly provesNotNull: readonly string[];
      /** It came with a column that is new. */
      readonly ofNewColumn: boolean;
    }
  | {
      readonly does: 'add column';
      readonly table: Name;
      readonly column: string;
      /** As the statement has it, without its schema: `jsonb`, `serial`. */
      readonly type: string;
      readonly notNull: boolean;
      readonly hasDefault: boolean;
      readonly identity: boolean;
      readonly stored: boolean;
    }
  | { readonly does: 'drop column'; readonly table: Name; readonly column: string; readonly cascade: boolean }
  | {
      readonly does: 'alter type';
      readonly table: Name;
      readonly column: string;
      readonly type: string;
      readonly conversion: Conversion;
    }
  | { readonly does: 'set not null'; readonly table: Name; readonly column: string }
  | { readonly does: 'drop not null'; readonly table: Name; readonly column: string }
  | { readonly does: 'validate constraint'; readonly table: Name; readonly constraint: string }
  | {
      readonly does: 'drop constraint';
      readonly table: Name;
      readonly constraint: string;
      readonly cascade: boolean;
    }
  | { readonly does: 'attach partition'; readonly table: Name; readonly partition: Name }
  | {
      readonly does: 'detach partition';
      readonly table: Name;
      readonly partition: Name;
      readonly concurrently: boolean;
    }
  | {
      readonly does: 'set logged' | 'set unlogged' | 'set access method' | 'set tablespace';
      readonly table: Name;
    }
  | { readonly does: 'replica identity'; readonly table: Name }
  | { readonly does: 'row security'; readonly table: Name; readonly enable: boolean }
  | { readonly does: 'refresh'; readonly view: Name; readonly concurrently: boolean }
  | { readonly does: 'create trigger'; readonly table: Name; readonly trigger: string }
  /** `mode` in PostgreSQL's words: `ACCESS EXCLUSIVE`. */
  | { readonly does: 'lock'; readonly tables: readonly Name[]; readonly mode: string }
  | { readonly does: 'vacuum'; readonly full: boolean; readonly tables: readonly Name[] }
  | { readonly does: 'cluster'; readonly table: Name | null }
  | {
      readonly does: 'alter domain';
      readonly domain: Name;
      readonly adds: 'check' | 'not null' | 'validation';
      readonly notValid: boolean;
    }
  | {
      readonly does: 'set lock_timeout';
      /** Locks are waited for without end: 0, RESET, DEFAULT. */
      readonly off: boolean;
      readonly local: boolean;
    }
  /** Of any object: ALTER … RENAME, ALTER … SET SCHEMA. */
  | { readonly does: 'rename' }
  | { readonly does: 'insert' | 'update' | 'delete' | 'merge'; readonly table: Name };

export type ActionOf<Does extends Action['does']> = Extract<Action, { does: Does }>;
