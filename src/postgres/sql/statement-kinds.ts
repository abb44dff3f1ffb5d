/** What the session must know of a statement's meaning, read from the parser's tree. */
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

/** A statement as the parser has it: one key, the kind of node, and its fields. */
export type Node = Readonly<Record<string, unknown>>;

type Fields = Readonly<Record<string, unknown>>;

const ROLES: Readonly<Record<string, Role>> = {
  TRANS_STMT_BEGIN: 'begin',
  TRANS_STMT_START: 'begin',
  TRANS_STMT_COMMIT: 'end',
  TRANS_STMT_ROLLBACK: 'end',
  TRANS_STMT_SAVEPOINT: 'savepoint',
  TRANS_STMT_RELEASE: 'savepoint',
  TRANS_STMT_ROLLBACK_TO: 'savepoint',
  TRANS_STMT_PREPARE: 'prepare-transaction',
};

export function kindOf(node: Node): string {
  return Object.keys(node)[0] ?? '';
}

function fieldsOf(node: Node): Fields {
  const fields = node[kindOf(node)];
  return isFields(fields) ? fields : {};
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null;
}

export function roleOf(node: Node): Role {
  if (kindOf(node) !== 'TransactionStmt') return 'ordinary';
  const fields = fieldsOf(node);
  const role = ROLES[String(fields.kind)] ?? 'ordinary';
  return role === 'end' && fields.chain === true ? 'chain' : role;
}

/** INSERT, UPDATE, DELETE, MERGE: what loops consist of. */
export function isDml(node: Node): boolean {
  return DML.has(kindOf(node));
}

const DML = new Set(['InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt']);

/**
 * Whether a statement that is alone outside a transaction does the same between BEGIN and COMMIT. What the server
 * refuses there (SQLSTATE 25001, 2D000) although this says yes, partitioned tables for example, is sent again without them.
 */
export function meansTheSameInBlock(node: Node): boolean {
  const differs = DIFFERS[kindOf(node)];
  return differs === undefined ? true : !differs(fieldsOf(node));
}

const always = () => true;

/**
 * Only these words in a DO block can end its transaction. Where they are put together at run time, the block fails
 * between BEGIN and COMMIT (SQLSTATE 2D000), and is sent again without them.
 */
const ENDS_TRANSACTION = /\b(?:commit|rollback|abort|call)\b/i;

/** By kind of node: whether the statement may not run in a block, or means something else there. */
const DIFFERS: Readonly<Record<string, (fields: Fields) => boolean>> = {
  TransactionStmt: always,
  // Outside a block these are errors or warnings.
  LockStmt: always,
  DeclareCursorStmt: always,
  ConstraintsSetStmt: always,
  VariableSetStmt: ({ is_local: isLocal, name }) =>
    isLocal === true || name === 'TRANSACTION' || name === 'TRANSACTION SNAPSHOT',
  // Procedures may COMMIT.
  CallStmt: always,
  DoStmt: (fields) => ENDS_TRANSACTION.test(JSON.stringify(fields)),
  AlterSystemStmt: always,
  CreatedbStmt: always,
  DropdbStmt: always,
  AlterDatabaseStmt: always,
  CreateTableSpaceStmt: always,
  DropTableSpaceStmt: always,
  CreateSubscriptionStmt: always,
  AlterSubscriptionStmt: always,
  DropSubscriptionStmt: always,
  IndexStmt: ({ concurrent }) => concurrent === true,
  DropStmt: ({ concurrent }) => concurrent === true,
  AlterTableStmt: ({ cmds }) => JSON.stringify(cmds ?? []).includes('"concurrent":true'),
  ReindexStmt: ({ kind, params }) =>
    !['REINDEX_OBJECT_TABLE', 'REINDEX_OBJECT_INDEX'].includes(String(kind)) ||
    JSON.stringify(params ?? []).includes('"concurrently"'),
  ClusterStmt: ({ relation }) => relation === undefined,
  // ANALYZE of one table is the same in a block; of many it holds their locks until the end.
  VacuumStmt: ({ is_vacuumcmd: isVacuum, rels }) =>
    isVacuum === true || !Array.isArray(rels) || rels.length !== 1,
  DiscardStmt: ({ target }) => target === undefined || target === 'DISCARD_ALL',
};

/**
 * Whether the statement changes how texts are read. The server reads a text once, before it runs anything of it, so
 * the statements behind this one must not be sent by themselves.
 */
export function changesReading(node: Node): boolean {
  const fields = fieldsOf(node);
  const kind = kindOf(node);
  if (kind === 'DiscardStmt') return fields.target === undefined || fields.target === 'DISCARD_ALL';
  if (kind === 'VariableSetStmt' && fields.kind === 'VAR_RESET_ALL') return true;
  if (kind !== 'VariableSetStmt' && kind !== 'SelectStmt') return false;
  const text = JSON.stringify(node);
  if (!READING.test(text)) return false;
  // Scripts of pg_dump begin by setting what is set already.
  return kind === 'SelectStmt' || !(fields.kind === 'VAR_SET_VALUE' && USUAL.test(text));
}

const READING = /"(?:client_encoding|standard_conforming_strings|backslash_quote|escape_string_warning)"/i;
const USUAL = /"client_encoding".*"(?:utf-?8|unicode)"|"standard_conforming_strings".*"(?:on|true)"/i;

/** What the session keeps although the transaction is rolled back: done once more, it fails or counts twice. */
const KEPT_BY_SESSION: ReadonlySet<string> = new Set(['TransactionStmt', 'PrepareStmt', 'DeallocateStmt']);
const SESSION_LOCK = /\bpg_(?:try_)?advisory_(?:un)?lock/i;

/**
 * Whether a text of these statements, outside a transaction, is one that leaves nothing where it fails. Sequences go on all
 * the same, and so does what a function does elsewhere.
 */
export function leavesNothingBehind(text: string, nodes: readonly Node[]): boolean {
  return nodes.every((node) => !KEPT_BY_SESSION.has(kindOf(node))) && !SESSION_LOCK.test(text);
}
