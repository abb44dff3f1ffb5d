import type * as Tree from 'libpg-query';
import { DEFINITION_KINDS } from './definition-kinds.ts';
import type { Role, StatementKind, StatementTable } from './statement-properties.ts';
import { constantOf, hasOption, itemsOf } from './tree.ts';

/*
 * The one table of PostgreSQL's statements: every kind of node that the grammar makes of a statement, with the properties
 * that the program decides by. `classify-statement.ts` answers the questions.
 */

/**
 * Only these words in a DO block can end its transaction. If they are put together at run time, the block fails between
 * BEGIN and COMMIT (2D000), and is sent again without them.
 */
const ENDS_TRANSACTION = /\b(?:commit|rollback|abort|call)\b/i;

const READING = /^(?:client_encoding|standard_conforming_strings|backslash_quote|escape_string_warning)$/i;
const NAMING = /^(?:search_path|role|session_authorization|session_replication_role)$/i;

/** Settings by which the server reads texts. */
export const isReadingSetting = (name: string) => READING.test(name);
/** Settings that decide which relations names mean, and which triggers run. */
export const isNamingSetting = (name: string) => NAMING.test(name);

/** Scripts of pg_dump begin by setting what is set already. */
function isUsual({ name = '', kind, args }: Tree.VariableSetStmt): boolean {
  if (kind !== 'VAR_SET_VALUE') return false;
  const value = constantOf(args?.[0]) ?? '';
  return /^client_encoding$/i.test(name)
    ? /^(?:utf-?8|unicode)$/i.test(value)
    : /^standard_conforming_strings$/i.test(name) && /^(?:on|true)$/i.test(value);
}

const TRANSACTION_ROLES: Readonly<Partial<Record<Tree.TransactionStmtKind, Role>>> = {
  TRANS_STMT_BEGIN: 'begin',
  TRANS_STMT_START: 'begin',
  TRANS_STMT_COMMIT: 'end',
  TRANS_STMT_ROLLBACK: 'end',
  TRANS_STMT_SAVEPOINT: 'savepoint',
  TRANS_STMT_RELEASE: 'savepoint',
  TRANS_STMT_ROLLBACK_TO: 'savepoint',
  TRANS_STMT_PREPARE: 'prepare-transaction',
};

const roleOfTransaction = ({ kind, chain }: Tree.TransactionStmt): Role => {
  const role = (kind && TRANSACTION_ROLES[kind]) ?? 'ordinary';
  return role === 'end' && chain ? 'chain' : role;
};

const bodyOf = ({ args }: Tree.DoStmt) =>
  itemsOf<Tree.DefElem>(args, 'DefElem')
    .map(({ arg }) => (arg && 'String' in arg ? (arg.String.sval ?? '') : ''))
    .join(' ');

export const STATEMENT_KINDS = {
  // Rows.
  SelectStmt: {
    name: 'SELECT',
    words: ['SELECT', 'VALUES', 'TABLE', 'WITH'],
    effect: 'reads',
    data: true,
    preparable: true,
    evaluates: true,
    elsewhere: true,
  },
  InsertStmt: {
    name: 'INSERT',
    words: ['INSERT', 'WITH'],
    effect: 'rows',
    dml: true,
    data: true,
    preparable: true,
    evaluates: true,
  },
  UpdateStmt: {
    name: 'UPDATE',
    words: ['UPDATE', 'WITH'],
    effect: 'rows',
    dml: true,
    data: true,
    preparable: true,
    evaluates: true,
  },
  DeleteStmt: {
    name: 'DELETE',
    words: ['DELETE', 'WITH'],
    effect: 'rows',
    dml: true,
    data: true,
    preparable: true,
    evaluates: true,
  },
  MergeStmt: {
    name: 'MERGE',
    words: ['MERGE', 'WITH'],
    effect: 'rows',
    dml: true,
    data: true,
    preparable: true,
    evaluates: true,
  },
  CopyStmt: {
    name: 'COPY',
    effect: ({ is_from: isFrom }) => (isFrom ? 'rows' : 'reads'),
    reach: 'depends',
    data: true,
    copies: true,
    evaluates: true,
  },
  TruncateStmt: { name: 'TRUNCATE', effect: 'rows' },
  RefreshMatViewStmt: {
    name: 'REFRESH MATERIALIZED VIEW',
    effect: 'rows',
    concurrent: { says: ({ concurrent }) => concurrent === true, failure: 'nothing in its way' },
  },
  ExplainStmt: { name: 'EXPLAIN', effect: 'reads', data: true, evaluates: true },
  DeclareCursorStmt: { name: 'DECLARE', effect: 'reads', inBlock: 'required', data: true, evaluates: true },
  FetchStmt: { name: 'FETCH', words: ['FETCH', 'MOVE'], effect: 'none', data: true, incidental: true },
  ClosePortalStmt: { name: 'CLOSE', effect: 'none', incidental: true },

  // Code.
  CallStmt: { name: 'CALL', effect: 'unknown', inBlock: 'differs', evaluates: true },
  DoStmt: {
    name: 'DO',
    effect: 'unknown',
    inBlock: (fields) => (ENDS_TRANSACTION.test(bodyOf(fields)) ? 'differs' : 'same'),
  },
  PrepareStmt: {
    name: 'PREPARE',
    effect: 'none',
    data: true,
    evaluates: true,
    elsewhere: true,
    survivesRollback: true,
  },
  ExecuteStmt: { name: 'EXECUTE', effect: 'unknown', evaluates: true, elsewhere: true },
  DeallocateStmt: {
    name: 'DEALLOCATE',
    effect: 'none',
    incidental: true,
    elsewhere: true,
    survivesRollback: true,
  },
  LoadStmt: { name: 'LOAD', effect: 'none' },

  // Transactions and sessions.
  TransactionStmt: {
    name: 'BEGIN, COMMIT or ROLLBACK',
    words: ['BEGIN', 'START', 'COMMIT', 'END', 'ROLLBACK', 'ABORT', 'SAVEPOINT', 'RELEASE'],
    effect: 'none',
    inBlock: ({ kind }) =>
      kind === 'TRANS_STMT_COMMIT_PREPARED' || kind === 'TRANS_STMT_ROLLBACK_PREPARED'
        ? 'refused'
        : 'differs',
    role: roleOfTransaction,
    incidental: true,
    elsewhere: true,
    survivesRollback: true,
  },
  VariableSetStmt: {
    name: 'SET',
    words: ['SET', 'RESET'],
    effect: 'none',
    inBlock: ({ is_local: isLocal, name }) =>
      isLocal || name === 'TRANSACTION' || name === 'TRANSACTION SNAPSHOT' ? 'required' : 'same',
    changesReading: (fields) =>
      fields.kind === 'VAR_RESET_ALL' || (isReadingSetting(fields.name ?? '') && !isUsual(fields)),
    changesNames: ({ kind, name = '' }) => kind === 'VAR_RESET_ALL' || isNamingSetting(name),
    incidental: true,
    elsewhere: true,
  },
  VariableShowStmt: { name: 'SHOW', effect: 'none', incidental: true, elsewhere: true },
  ConstraintsSetStmt: { name: 'SET CONSTRAINTS', effect: 'none', inBlock: 'required', incidental: true },
  DiscardStmt: {
    name: 'DISCARD',
    effect: 'none',
    inBlock: ({ target }) => (target === 'DISCARD_ALL' ? 'refused' : 'same'),
    changesReading: ({ target }) => target === 'DISCARD_ALL',
    changesNames: ({ target }) => target === 'DISCARD_ALL',
    incidental: true,
    elsewhere: true,
  },
  ListenStmt: { name: 'LISTEN', effect: 'none', incidental: true },
  UnlistenStmt: { name: 'UNLISTEN', effect: 'none', incidental: true },
  NotifyStmt: { name: 'NOTIFY', effect: 'none', incidental: true },
  CheckPointStmt: { name: 'CHECKPOINT', effect: 'none', incidental: true },
  LockStmt: {
    name: 'LOCK',
    effect: 'none',
    reach: 'depends',
    inBlock: 'required',
    nowait: ({ nowait }) => nowait === true,
  },

  // Storage.
  VacuumStmt: {
    name: 'VACUUM or ANALYZE',
    words: ['VACUUM', 'ANALYZE', 'ANALYSE'],
    effect: 'none',
    // ANALYZE of one table is the same in a block; of many it holds their locks until the end.
    inBlock: ({ is_vacuumcmd: isVacuum, rels }) =>
      isVacuum ? 'refused' : rels?.length === 1 ? 'same' : 'differs',
  },
  // The server refuses that of a partitioned table too.
  ClusterStmt: {
    name: 'CLUSTER',
    effect: 'storage',
    inBlock: ({ relation }) => (relation ? 'same' : 'refused'),
  },
  ReindexStmt: {
    name: 'REINDEX',
    effect: 'storage',
    // The server refuses those of a partitioned table or index too.
    inBlock: ({ kind, params }) =>
      (kind === 'REINDEX_OBJECT_TABLE' || kind === 'REINDEX_OBJECT_INDEX') &&
      !hasOption(params, 'concurrently')
        ? 'same'
        : 'refused',
    concurrent: { says: ({ params }) => hasOption(params, 'concurrently'), failure: 'another meaning' },
  },

  ...DEFINITION_KINDS,
} satisfies StatementTable<StatementKind>;

/** The kinds whose reach is one of these. */
export type KindsReaching<Reach extends string> = {
  [Kind in StatementKind]: (typeof STATEMENT_KINDS)[Kind] extends { readonly reach: Reach } ? Kind : never;
}[StatementKind];
