/*
 * Statements as the parser reads them: plain values that hazards are found in.
 */

/** A name in a statement; without a schema, the search path decides. */
export interface Name {
  readonly schema: string | null;
  readonly name: string;
}

/** Lock modes of relations, from PostgreSQL's documentation ("Explicit Locking"). */
export type LockMode =
  | 'ACCESS SHARE'
  | 'ROW SHARE'
  | 'ROW EXCLUSIVE'
  | 'SHARE UPDATE EXCLUSIVE'
  | 'SHARE'
  | 'SHARE ROW EXCLUSIVE'
  | 'EXCLUSIVE'
  | 'ACCESS EXCLUSIVE';

/** A lock that a statement takes on a relation that it names. */
export interface NamedLock {
  readonly relation: Name;
  readonly mode: LockMode;
  /** The relation is an index, whose table is locked in this mode. */
  readonly ofTable?: LockMode;
  /** The relation is a table, whose indexes are locked in this mode. */
  readonly ofIndexes?: LockMode;
}

/** A lock that a statement takes and releases before its end, since it commits within itself. */
export interface ReleasedLock extends NamedLock {
  /** The partitions are locked as well, only they are, or all of it is locked only if there are partitions. */
  readonly partitions?: 'too' | 'alone' | 'if any';
  /** Only the indexes of the table are locked, or the relation itself if it is an index. */
  readonly indexesAlone?: true;
  /** It is taken for a moment in the last transaction. */
  readonly atEnd?: true;
  /** It is one of an index that is no longer used by then. */
  readonly blocksNobody?: true;
}

/** Effects that stay behind when a statement has succeeded and its transaction is committed. */
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

/** A statement about a savepoint. */
export interface SavepointUse {
  readonly does: 'set' | 'release' | 'roll back';
  readonly name: string;
}

export interface StatementFacts {
  /** An ALTER TABLE may ask for several things. */
  readonly actions: readonly Action[];
  /** Effects that it leaves behind, with the statements within it; of `reads` only the functions that it calls may write. */
  readonly effect: StatementEffect;
  /** Locks that it takes and releases before its end. */
  readonly releases?: readonly ReleasedLock[];
  readonly saferTexts?: SaferTexts;
  /** Missing: it neither sets a savepoint nor names one. To go back to one is answered as the end of a transaction is: ROLLBACK. */
  readonly savepoint?: SavepointUse | undefined;
  /** It concerns nothing but cursors, prepared statements and temporary relations of its session. */
  readonly local?: boolean;
}

/** Forms of a statement that block others less, each statement on one line; absent if it has no such form, or is one. */
export interface SaferTexts {
  readonly concurrent?: readonly string[];
  /** The constraint that it adds is not checked for existing rows. */
  readonly 'not valid'?: readonly string[];
  /** CREATE INDEX of a partitioned table without its partitions. */
  readonly 'on only'?: readonly string[];
}

export type ConstraintKind = 'unique' | 'primary key' | 'exclude' | 'check' | 'foreign key' | 'not null';

/**
 * Way in which a change of type converts values: by the assignment cast without USING, by a cast to exactly the new type in USING, or by
 * any other expression.
 */
export type Conversion = 'assignment' | 'cast' | 'expression';

/** SQL that a key has besides its columns; empty if it has none. */
export interface KeyTails {
  /** ` INCLUDE (a) NULLS NOT DISTINCT` */
  readonly ofIndex: string;
  /** ` DEFERRABLE INITIALLY DEFERRED` */
  readonly ofConstraint: string;
}

/** SET or RESET of a timeout. */
export interface TimeoutAction<Does extends string> {
  readonly does: Does;
  /** The statement removes the timeout: 0, RESET, DEFAULT. */
  readonly off: boolean;
  readonly local: boolean;
  /** Absent if it is off, or not known. */
  readonly ms?: number;
}

/** One action of a statement. */
export type Action =
  /**
   * A definition contains what the next run of the command will have otherwise: the time of the run, or, in a name, a random UUID
   * or an address in the memory of its process.
   */
  | { readonly does: 'vary'; readonly value: string; readonly as: 'time' | 'UUID' | 'address' }
  | {
      readonly does: 'create table';
      readonly table: Name;
      readonly ifNotExists: boolean;
      readonly partitionOf: Name | null;
      /** With IF NOT EXISTS, as types are written: `{ name: 'id', type: 'bigserial' }`. */
      readonly columns?: readonly { readonly name: string; readonly type: string }[] | undefined;
    }
  | {
      readonly does: 'create index';
      readonly table: Name;
      readonly index: string | null;
      /** `btree`, `gin`, … */
      readonly method: string;
      readonly concurrently: boolean;
      readonly unique: boolean;
      readonly ifNotExists: boolean;
      /** With IF NOT EXISTS or UNIQUE; null: an expression. */
      readonly columns?: readonly (string | null)[] | undefined;
      /** With IF NOT EXISTS or UNIQUE: it has a predicate. */
      readonly partial?: boolean | undefined;
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
      /** Words of a key that are to be kept if it is made from an index. */
      readonly tails?: KeyTails;
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
      readonly ifNotExists?: true | undefined;
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
  /** ALTER CONSTRAINT … ENFORCED. */
  | { readonly does: 'enforce constraint'; readonly table: Name; readonly constraint: string }
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
  /** `forced`: for the owner of the table, too. */
  | {
      readonly does: 'row security';
      readonly table: Name;
      readonly to: 'enabled' | 'disabled' | 'forced' | 'no longer forced';
    }
  | { readonly does: 'refresh'; readonly view: Name; readonly concurrently: boolean }
  | { readonly does: 'create trigger'; readonly table: Name; readonly trigger: string }
  /** `trigger`: null for ALL and USER. */
  | {
      readonly does: 'disable trigger';
      readonly table: Name;
      readonly trigger: string | null;
      /** Triggers of foreign keys as well. */
      readonly system: boolean;
    }
  /** SET session_replication_role = replica: no trigger of the session fires, nor are foreign keys checked. */
  | { readonly does: 'skip triggers' }
  | { readonly does: 'create function'; readonly function: Name }
  /** `mode` as PostgreSQL writes it: `ACCESS EXCLUSIVE`. */
  | { readonly does: 'lock'; readonly tables: readonly Name[]; readonly mode: string }
  /**
   * SELECT … FOR UPDATE, or with another lock that writes of the rows wait for. `all`: all rows of the tables; else as many as the
   * statement returns.
   */
  | { readonly does: 'lock rows'; readonly tables: readonly Name[]; readonly all: boolean }
  | { readonly does: 'vacuum'; readonly full: boolean; readonly tables: readonly Name[] }
  | { readonly does: 'cluster'; readonly table: Name | null }
  | {
      readonly does: 'repack';
      readonly table: Name | null;
      /** In the order of an index, as CLUSTER does. */
      readonly ordered: boolean;
      readonly concurrently: boolean;
    }
  | {
      readonly does: 'alter domain';
      readonly domain: Name;
      readonly adds: 'check' | 'not null' | 'validation';
      readonly notValid: boolean;
    }
  | TimeoutAction<'set lock_timeout'>
  | TimeoutAction<'set statement_timeout'>
  /** `schemas`: null if the session's default comes back. */
  | {
      readonly does: 'set search_path';
      readonly schemas: readonly string[] | null;
      readonly local: boolean;
    }
  /** A change of any object's name: ALTER … RENAME, ALTER … SET SCHEMA. */
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
  /** REVOKE from roles that it names; `PUBLIC` is none of them. */
  | {
      readonly does: 'revoke';
      readonly from: 'relation' | 'function' | 'schema';
      readonly objects: readonly {
        readonly name: Name;
        /** Types of a function's parameters; null: it is named without them, or is none. */
        readonly arguments: readonly string[] | null;
      }[];
      readonly roles: readonly string[];
      /** In capitals; `ALL` is one of them. */
      readonly privileges: readonly { readonly name: string; readonly columns: readonly string[] }[];
    }
  /** A CALL or DO outside a transaction block that may commit or roll back within. */
  | { readonly does: 'end transactions' }
  | { readonly does: 'insert' | 'update' | 'delete' | 'merge'; readonly table: Name };

export type ActionOf<Does extends Action['does']> = Extract<Action, { does: Does }>;
