import type * as Tree from 'libpg-query';
import type { Action, NamedLock, ReleasedLock, StatementEffect } from '../../model/statement-actions.ts';
import type { FieldsOf, NodeKind } from './tree.ts';

/** Reach of a statement that goes beyond its database. */
interface Beyond {
  /** Objects that the databases of a cluster share, or also files, programs and other servers. */
  readonly beyond: 'cluster' | 'server';
  /** A sandbox of the server keeps its effects within. */
  readonly held?: true;
  /** The server leaves out the catalogues that all databases share if the role has no rights on them. */
  readonly byRight?: true;
  /** The statement in words; by default the name of its kind. */
  readonly what?: string;
  readonly why: string;
}

/** Reach of a statement about databases, whose names decide how far it goes. */
interface OnDatabases {
  /** The statement in words, without the names. */
  readonly what: string;
  readonly databases: readonly string[];
  /** By default it changes the databases. */
  readonly does?: 'create' | 'drop' | 'rename' | 'make a template';
  /** Name of the database that a new one is a copy of. */
  readonly template?: string | undefined;
}

/** Farthest place where a statement may have an effect, not counting the functions that it calls. */
export type Reach = 'database' | Beyond | OnDatabases;

/** View of the server in which a statement shows how far it is, with the columns that say so. */
export interface ProgressView {
  readonly view: string;
  /** SQL of the statement's name, by default the column `command`. */
  readonly command?: string;
  /** By default `phase`. */
  readonly phase?: string;
  readonly done: string;
  readonly total: string;
}

/** The part that a statement plays in a transaction. */
export type Role =
  /** BEGIN, START TRANSACTION. */
  | 'begin'
  /** COMMIT, ROLLBACK, END, ABORT. */
  | 'end'
  /** COMMIT AND CHAIN, ROLLBACK AND CHAIN: the block goes on as a new transaction. */
  | 'chain'
  /** SAVEPOINT, RELEASE, ROLLBACK TO. */
  | 'savepoint'
  /** PREPARE TRANSACTION ends the block without ending the transaction. */
  | 'prepare-transaction'
  | 'ordinary';

/** The effect of BEGIN and COMMIT around a statement that is sent alone. */
export type InBlock =
  | 'same'
  /** The server answers 25001 (active_sql_transaction). */
  | 'refused'
  /** It means something only there; outside of a block the server answers with an error or a warning. */
  | 'required'
  /** Something else, or the server's catalogues decide whether it is refused. */
  | 'differs';

/** The state in which the same statement finds things after a failed CONCURRENTLY. */
export type ConcurrentFailure =
  /** It can be sent again. */
  | 'nothing in its way'
  /** An invalid index that must be dropped first. */
  | 'an invalid index'
  /** Something that gives the same statement another meaning. */
  | 'another meaning';

type Decided<Fields, Value> = Value | ((fields: Fields) => Value);

export interface StatementProperties<Fields> {
  /** In PostgreSQL's words, for people. */
  readonly name: string;
  /** The server's command tags; by default its name without the part behind `…`. */
  readonly tags?: readonly string[];
  /** The words that its text may begin with; by default the first of the name. */
  readonly words?: readonly string[];
  readonly effect: Decided<Fields, StatementEffect>;
  /** By default `same`. */
  readonly inBlock?: Decided<Fields, InBlock>;
  readonly role?: (fields: Fields) => Role;
  readonly concurrent?: {
    readonly says: (fields: Fields) => boolean;
    readonly failure: ConcurrentFailure;
    /** The keyword that CONCURRENTLY stands behind; undefined if this statement has no concurrent form. */
    readonly behind?: (fields: Fields) => string | undefined;
  };
  /** NOWAIT: it asks to fail rather than wait. */
  readonly nowait?: (fields: Fields) => boolean;
  readonly reach: Decided<Fields, Reach>;
  /**
   * The statement with the name of the object that it makes, if the server can reach other systems through that object; undefined if
   * it makes none.
   */
  readonly outside?: (fields: Fields) => string | undefined;
  /** Actions that it asks for, as far as a hazard depends on it; by default nothing. */
  readonly actions?: (fields: Fields) => readonly Action[];
  /**
   * Locks on the relations that it names, by PostgreSQL's documentation ("Explicit Locking"). Left out is what depends on more than
   * the text: partitions, foreign keys that are dropped, views' tables. By default those of the queries in it.
   */
  readonly locks?: (fields: Fields) => readonly NamedLock[];
  /** Locks that it releases before its end, if it commits within itself. */
  readonly releases?: (fields: Fields) => readonly ReleasedLock[];
  readonly progress?: readonly ProgressView[];
  /** It runs code that its tree does not show: a body, a prepared statement, the script of an extension. */
  readonly runsCode?: true;
  /**
   * Code that it runs: `nothing` of the functions and relations that it names, or `unknown` code, since it loads some or reaches other
   * systems. By default all that it names may run.
   */
  readonly runs?: 'nothing' | 'unknown';
  /** Relation through which the expressions and queries in it run later on. */
  readonly keptIn?: (fields: Fields) => Tree.RangeVar | undefined;
  /** Writing to that relation writes to those that the statement names. */
  readonly writesThrough?: true;
  /** It evaluates the expressions in it; other statements only store them, as in a view. */
  readonly evaluates?: true;
  /** INSERT, UPDATE, DELETE, MERGE: what loops consist of. */
  readonly dml?: true;
  /** It reads or writes rows, or prepares to, and may come in any number and order: SELECT, DML, COPY, DECLARE, PREPARE. */
  readonly data?: true;
  /** PREPARE takes it: queries and DML. */
  readonly preparable?: true;
  /** The client and the server exchange data within it. */
  readonly copies?: true;
  /** It concerns only its session or transaction: without consequence for others, and it may come at any time. */
  readonly incidental?: true;
  /** It may be sent to another database of the server: to look around, and to make a database. */
  readonly elsewhere?: true;
  /** The session keeps its effect although the transaction is rolled back: done once more, it fails or counts twice. */
  readonly survivesRollback?: true;
  /** It changes how the server reads later texts: their encoding, backslashes in their literals. */
  readonly changesReading?: (fields: Fields) => boolean;
  /** It changes which relations the names in later statements mean, or which triggers they run. */
  readonly changesNames?: (fields: Fields) => boolean;
}

/** Nodes of these names occur only within statements. */
type NoStatement = 'RawStmt' | 'SetOperationStmt' | 'ReturnStmt' | 'PLAssignStmt' | 'ReplicaIdentityStmt';
export type StatementKind = Exclude<Extract<NodeKind, `${string}Stmt`>, NoStatement>;
/** Kinds with their properties, which functions decide by the fields of that kind. */
export type StatementTable<Kinds extends StatementKind> = {
  readonly [Kind in Kinds]: StatementProperties<FieldsOf<Kind>>;
};
