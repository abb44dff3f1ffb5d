import type { EffectFacts } from './effect-facts.ts';
import type { ProbeDifference } from './probe-difference.ts';
import type {
  CommandSection,
  DataSection,
  QueriesSection,
  SchemaSection,
  StatementSection,
  TransactionSection,
} from './report.ts';
import type { StatementFacts } from './statement-actions.ts';

/** The facts from which hazards are found, as plain values. Relations have the names of the report, `public.orders`. */
export interface HazardFacts {
  /** The end of the command. If it exited with an error, its failed statement is not reported separately. */
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
  /** The statement_timeout that sessions started with; those of a session that is missing have the role's. */
  readonly statementTimeouts?: ReadonlyMap<number, number>;
  /** Sessions of psql, which goes on after an error unless ON_ERROR_STOP is set. */
  readonly sessionsOfPsql: ReadonlySet<number>;
  readonly catalogue: CatalogueFacts;
  /** The second run of the command (--rerun); null if there was none. */
  readonly rerun: { readonly statements: readonly Pick<StatementSection, 'sql'>[] } | null;
  /** Traffic by relation; null if that of the target was not sampled. */
  readonly traffic: ReadonlyMap<string, RelationTraffic> | null;
  /** Transactions per second in the target database; missing or null: not known. */
  readonly transactionsPerSecond?: number | null;
  /** The statement after which a probe differs, as far as that was looked for. */
  readonly causes?: ReadonlyMap<ProbeDifference, number> | undefined;
  /** Kinds of transactions that were seen on the target or are in the profile; missing: none were recorded. */
  readonly recorded?: readonly RecordedTransaction[] | undefined;
  /** Transactions that were open on the target while it was sampled, the oldest for each relation and mode; missing: not known. */
  readonly openTransactions?: readonly OpenOnRelation[] | undefined;
  /** Age of the oldest one of the database; missing or null: not known, or none. */
  readonly oldestTransactionMs?: number | null | undefined;
  /** Logical replication slots of the target's database; missing: not known. */
  readonly logicalSlots?: readonly string[] | undefined;
  /** How often indexes of the target were scanned since its statistics began; missing: not known. */
  readonly indexScans?: ReadonlyMap<string, number> | undefined;
  /** Relations that the target's lock table has room for, and locks that were held in it; missing: not known. */
  readonly lockTable?: { readonly capacity: number; readonly held: number | null } | undefined;
}

/** A relation's traffic according to the target's own statistics. */
export interface RelationTraffic {
  readonly readsPerSecond: number;
  readonly writesPerSecond: number;
  /** Part of the writes; missing: not known. */
  readonly insertsPerSecond?: number;
}

/** An open transaction that holds a lock on a relation. */
export interface OpenOnRelation {
  readonly relation: string;
  /** Lock mode in the words of pg_locks: `AccessShareLock`. */
  readonly mode: string;
  readonly ageMs: number;
}

/** The order in which the application's transactions of one kind lock tables, by their names before the command. */
export interface RecordedTransaction {
  readonly relations: readonly string[];
  /** From the first lock to the end; missing: not known. */
  readonly durationMs?: number;
  /** Pairs whose order was not seen. */
  readonly unordered: readonly (readonly [string, string])[];
}

/** Facts about the database that hazards depend on and that the report does not contain. */
export interface CatalogueFacts {
  /** Tables, partitioned tables and materialized views that existed before the command, by their names after it. */
  readonly relations: ReadonlyMap<string, RelationFacts>;
  /** Relations that the command renamed or moved: from the name before to the name after. */
  readonly renamed: ReadonlyMap<string, string>;
  /** CHECK constraints that existed before the command. */
  readonly checks: readonly {
    readonly relation: string;
    readonly constraint: string;
    readonly validated: boolean;
    /** Columns that cannot be NULL if the constraint is valid. */
    readonly provesNotNull: readonly string[];
  }[];
  /** Foreign keys such as `public.orders.orders_customer_fkey` that no index of their own table supports after the command. */
  readonly unindexedForeignKeys: ReadonlyMap<string, UnindexedForeignKey>;
  /** Dropped objects by kind and name as in the schema comparison: `index public.orders_customer_idx`. */
  readonly dropped: ReadonlyMap<string, DroppedFacts>;
  readonly definitions: DefinitionFacts;
  /** Published tables that had a replica identity, or were not published, before the command, and have none after it. */
  readonly identityLost: readonly string[];
  /** Rows without a parent that the command may have left while foreign keys were not checked. */
  readonly orphans: readonly OrphanFacts[];
  readonly effects: EffectFacts;
  /** Schemas in which sessions look for names unless they say otherwise. */
  readonly searchPath: readonly string[];
  /** The database or the role has a lock_timeout of its own that is not 0. */
  readonly lockTimeoutByDefault: boolean;
  /** The statement_timeout of the role and the database; missing or 0: none. */
  readonly statementTimeoutMs?: number;
  /**
   * Objects that run a function which acts on the server, if the clone is in the target's server and the command may have run it
   * unnoticed.
   */
  readonly actsOnServer: readonly ActingObject[];
  readonly leftPrepared: readonly LeftPrepared[];
}

/** A transaction that the command prepared (PREPARE TRANSACTION), and neither committed nor rolled back. */
export interface LeftPrepared {
  readonly gid: string;
  /** Since it was prepared, when the command had ended. */
  readonly ageMs: number;
  /** Its locks on relations that other sessions see. */
  readonly locks: readonly { readonly relation: string; readonly mode: string }[];
}

/** An object of the database that runs a function which acts on the server. */
export interface ActingObject {
  /** `function app.f`, `event trigger e`. */
  readonly object: string;
  /** `pg_switch_wal()`. */
  readonly runs: string;
  readonly why: string;
}

export interface UnindexedForeignKey {
  readonly relation: string;
  readonly columns: readonly string[];
  /** The table whose rows it refers to. */
  readonly references: string;
  /** Its columns already lacked an index before the command. */
  readonly known: boolean;
}

export interface DroppedFacts {
  /** The object that it was dropped with: the table of an index, the column of a constraint. null: it was dropped by itself. */
  readonly goneWith: string | null;
  /** Another constraint with the same definition that the table has afterwards; null for other objects. */
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

/** Definitions and properties that changed or are gone, under the names of before. */
export interface DefinitionFacts {
  /** Definitions by name, `public.f(integer)`, as pg_get_functiondef() gave them before and after; null: it is gone. */
  readonly functions: ReadonlyMap<string, { readonly before: string; readonly after: string | null }>;
  /** Column defaults by column, `public.orders.status`, of columns that there still are. */
  readonly defaults: ReadonlyMap<
    string,
    {
      readonly before: string;
      readonly after: string | null;
      /** The column is NOT NULL after the command. */
      readonly notNull: boolean;
      /** The column is a generated or an identity column after the command. */
      readonly generated: boolean;
    }
  >;
  /** Columns that became NOT NULL: `public.orders.status`. */
  readonly notNull: readonly string[];
  /** Relations that were given a tablespace or an access method other than the default. */
  readonly moved: readonly string[];
  /** Constraints whose triggers were switched off: `public.orders.orders_customer_fkey`. */
  readonly unenforced: readonly string[];
  /** Triggers of partitions that were switched off, while those of their tables fire: `public.orders_2026.audit`. */
  readonly disabledInPartitions: readonly string[];
  /** Columns of another type, as format_type() writes types. */
  readonly retyped: readonly { readonly object: string; readonly from: string; readonly to: string }[];
}

export const NO_DEFINITIONS: DefinitionFacts = {
  functions: new Map(),
  defaults: new Map(),
  notNull: [],
  moved: [],
  unenforced: [],
  disabledInPartitions: [],
  retyped: [],
};

export interface RelationFacts {
  readonly kind: 'table' | 'partitioned table' | 'materialized view';
  /** Without indexes; for a partitioned table, the sum of its partitions. */
  readonly sizeBytes: number | null;
  readonly rows: number | null;
  readonly exact: boolean;
  /** It is empty in a dump without rows, so that its rows are not known. */
  readonly unfilled?: true;
  /** A crash of the server empties it. */
  readonly unlogged?: boolean;
  /** A role that logs in, and neither owns it nor is a superuser, may write it: an application uses it. */
  readonly written?: boolean;
}

/** The target's disk. */
export interface DiskSpace {
  /** Free for an ordinary user, on the file system of the database's default tablespace, which new files will use. */
  readonly freeBytes: number;
  /** Factor by which the ZFS dataset compresses what it holds now; 1 on other file systems. */
  readonly compressRatio: number;
}
