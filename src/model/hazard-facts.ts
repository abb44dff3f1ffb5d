import type {
  CommandSection,
  DataSection,
  QueriesSection,
  SchemaSection,
  StatementSection,
  TransactionSection,
} from './report.ts';

/** The facts from which hazards are found, as plain values. Relations have the names of the report, `public.orders`. */
export interface HazardFacts {
  /** How the command ended: if the command itself reports a failure, a failed statement is no news. */
  readonly command: Pick<CommandSection, 'exitCode'>;
  readonly statements: readonly StatementSection[];
  readonly transactions: readonly TransactionSection[];
  readonly schema: SchemaSection | null;
  readonly data: DataSection | null;
  /** Queries of the running application, tried before and after; null if there were none to try. */
  readonly queries: QueriesSection | null;
  /** The parsed statements by index; a statement that the parser rejected is missing. */
  readonly parsed: ReadonlyMap<number, StatementFacts>;
  /** Sessions that started with a lock_timeout. */
  readonly sessionsWithLockTimeout: ReadonlySet<number>;
  /** Sessions of psql, which goes on after an error unless ON_ERROR_STOP is set. */
  readonly sessionsOfPsql: ReadonlySet<number>;
  readonly catalogue: CatalogueFacts;
  /** The second run of the command (--rerun); null if there was none. */
  readonly rerun: { readonly statements: readonly Pick<StatementSection, 'sql'>[] } | null;
  /** By relation; null if the target's traffic was not sampled. */
  readonly traffic: ReadonlyMap<string, RelationTraffic> | null;
  /** Logical replication slots of the target's database; missing: not known. */
  readonly logicalSlots?: readonly string[] | undefined;
  /** Relations that the target's lock table has room for, and locks that were held in it; missing: not known. */
  readonly lockTable?: { readonly capacity: number; readonly held: number } | undefined;
}

/** A relation's traffic according to the target's own statistics. */
export interface RelationTraffic {
  readonly readsPerSecond: number;
  readonly writesPerSecond: number;
  /** Of the writes; missing: not known. */
  readonly insertsPerSecond?: number;
}

/** Facts about the database that hazards depend on and that the report does not contain. */
export interface CatalogueFacts {
  /** Tables, partitioned tables and materialized views that existed before the command, by their names after it. */
  readonly relations: ReadonlyMap<string, RelationFacts>;
  /** Relations that the command renamed or moved: from the name before to the name after. */
  readonly renamed: ReadonlyMap<string, string>;
  /** CHECK constraints that existed before the command. */
  readonly checks: readonly CheckFacts[];
  /**
   * Foreign keys such as `public.orders.orders_customer_fkey` that no index of their own table supports after the command,
   * except those whose columns already lacked an index before.
   */
  readonly unindexedForeignKeys: ReadonlyMap<
    string,
    { readonly relation: string; readonly columns: readonly string[] }
  >;
  /** Dropped objects by kind and name as in the schema comparison: `index public.orders_customer_idx`. */
  readonly dropped: ReadonlyMap<string, DroppedFacts>;
  readonly definitions: DefinitionFacts;
  /** Published tables that had a replica identity, or were not published, before the command, and have none after it. */
  readonly identityLost: readonly string[];
  /** Rows without a parent that the command may have left while foreign keys were not checked. */
  readonly orphans: readonly OrphanFacts[];
  readonly effects: EffectFacts;
  /** The database or the role has a lock_timeout of its own that is not 0. */
  readonly lockTimeoutByDefault: boolean;
  /**
   * What runs a function that acts on the server, if the clone is in the target's server and the command may have run it
   * unnoticed.
   */
  readonly actsOnServer: readonly ActingObject[];
}

/** An object of the database that runs a function which acts on the server. */
export interface ActingObject {
  /** `function app.f`, `event trigger e`. */
  readonly object: string;
  /** `pg_switch_wal()`. */
  readonly runs: string;
  readonly why: string;
}

export interface DroppedFacts {
  /** The object that it was dropped with: the table of an index, the column of a constraint. null: it was dropped by itself. */
  readonly goneWith: string | null;
  /** For a constraint: another one with the same definition that its table has afterwards. */
  readonly keptAs: string | null;
}

/** A foreign key that rows violate although it is valid. */
export interface OrphanFacts {
  readonly relation: string;
  readonly constraint: string;
  readonly references: string;
  /** null: they could not be counted in time. */
  readonly rows: number | null;
}

/** Definitions that changed or are gone, under the names of before. */
export interface DefinitionFacts {
  /** By name, `public.f(integer)`: what pg_get_functiondef() returned before and after; null: it is gone. */
  readonly functions: ReadonlyMap<string, { readonly before: string; readonly after: string | null }>;
  /** Column defaults by column, `public.orders.status`, of columns that there still are. */
  readonly defaults: ReadonlyMap<
    string,
    {
      readonly before: string;
      readonly after: string | null;
      /** Of the column, after the command. */
      readonly notNull: boolean;
      /** The column is a generated or an identity column after the command. */
      readonly generated: boolean;
    }
  >;
}

export const NO_DEFINITIONS: DefinitionFacts = { functions: new Map(), defaults: new Map() };

/** What the changes mean for others, as the clone shows it after the command. */
export interface EffectFacts {
  readonly unanalyzed: readonly Unanalyzed[];
  readonly brokenFunctions: readonly BrokenFunction[];
  readonly missingGrants: readonly MissingGrant[];
  readonly published: readonly PublishedChange[];
}

export const NO_EFFECTS: EffectFacts = {
  unanalyzed: [],
  brokenFunctions: [],
  missingGrants: [],
  published: [],
};

/** A role that may use the other relations of the schema, and not a new one. */
export interface MissingGrant {
  readonly relation: string;
  readonly role: string;
  /** That it has on the others: `SELECT`. */
  readonly privileges: readonly string[];
  /** How many others there are. */
  readonly siblings: number;
  readonly owner: string;
  /** Other roles whose new tables would give it privileges (ALTER DEFAULT PRIVILEGES). */
  readonly defaultsOf: readonly string[];
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

/** A function whose body names something that is gone. */
export interface BrokenFunction {
  /** `public.f(integer)` */
  readonly function: string;
  /** The last part of the name that is gone. */
  readonly names: string;
  /** What the server says of the use. */
  readonly error: string;
  /** Tables with a trigger that runs it. */
  readonly triggersOn: readonly string[];
}

export interface CheckFacts {
  readonly relation: string;
  readonly constraint: string;
  readonly validated: boolean;
  /** Columns that cannot be NULL if the constraint is valid. */
  readonly provesNotNull: readonly string[];
}

export interface RelationFacts {
  readonly kind: 'table' | 'partitioned table' | 'materialized view';
  /** Without indexes; for a partitioned table, the sum of its partitions. */
  readonly sizeBytes: number | null;
  readonly rows: number | null;
  readonly exact: boolean;
}

/** A name in a statement; without a schema, the search path decides. */
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
 * How a change of type converts values: by the assignment cast without USING, by a cast to exactly the new type in USING, or by
 * any other expression.
 */
export type Conversion = 'assignment' | 'cast' | 'expression';

/** One action of a statement. */
export type Action =
  /** A definition contains what the next run of the command will have otherwise: the time, or a random UUID in a name. */
  | { readonly does: 'vary'; readonly value: string; readonly isTime: boolean }
  | {
      readonly does: 'create table';
      readonly table: Name;
      readonly ifNotExists: boolean;
      readonly partitionOf: Name | null;
    }
  | {
      readonly does: 'create index';
      readonly table: Name;
      readonly index: string | null;
      readonly concurrently: boolean;
      readonly unique: boolean;
      readonly ifNotExists: boolean;
      /** ON ONLY: of a partitioned table without its partitions, so that nothing is built. */
      readonly only: boolean;
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
      /** Columns for which a CHECK demands NOT NULL, alone or together with other conditions. */
      readonly provesNotNull: readonly string[];
      /** It was added together with a new column. */
      readonly ofNewColumn: boolean;
    }
  | {
      readonly does: 'add column';
      readonly table: Name;
      readonly column: string;
      /** The type as written in the statement, without a schema: `jsonb`, `serial`. */
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
  | { readonly does: 'set default'; readonly table: Name; readonly column: string }
  | { readonly does: 'drop default'; readonly table: Name; readonly column: string }
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
      readonly does: 'set logged' | 'set unlogged' | 'set access method';
      readonly table: Name;
    }
  | { readonly does: 'set tablespace'; readonly table: Name }
  | { readonly does: 'replica identity'; readonly table: Name }
  | { readonly does: 'row security'; readonly table: Name; readonly enable: boolean }
  | { readonly does: 'refresh'; readonly view: Name; readonly concurrently: boolean }
  | { readonly does: 'create trigger'; readonly table: Name; readonly trigger: string }
  /** `trigger`: null for ALL and USER. */
  | {
      readonly does: 'disable trigger';
      readonly table: Name;
      readonly trigger: string | null;
      /** Those of foreign keys as well. */
      readonly system: boolean;
    }
  /** SET session_replication_role = replica: no trigger of the session fires, nor are foreign keys checked. */
  | { readonly does: 'skip triggers' }
  | { readonly does: 'create function'; readonly function: Name }
  /** `mode` as PostgreSQL writes it: `ACCESS EXCLUSIVE`. */
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
      /** The statement removes the timeout: 0, RESET, DEFAULT. */
      readonly off: boolean;
      readonly local: boolean;
    }
  /** Of any object: ALTER … RENAME, ALTER … SET SCHEMA. */
  | {
      readonly does: 'rename';
      /** The relation that is renamed or moved, or whose part is renamed; null for other objects. */
      readonly table: Name | null;
      /** The column that is renamed, or null. */
      readonly column: string | null;
      /** The object if it is no relation and no part of one; null if it is, and for what has no name of its own. */
      readonly object: Name | null;
      /** The new name of the object or, if it is moved, of its schema. */
      readonly to: string;
    }
  | { readonly does: 'rename value'; readonly type: Name; readonly from: string; readonly to: string }
  | { readonly does: 'insert' | 'update' | 'delete' | 'merge'; readonly table: Name };

export type ActionOf<Does extends Action['does']> = Extract<Action, { does: Does }>;
