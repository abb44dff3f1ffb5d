import type * as Tree from 'libpg-query';
import { LOCK_MODES } from '../../lock-modes.ts';
import { locksOn, namesOfRanges } from '../query-locks.ts';
import type { Reach, Role, StatementKind, StatementTable } from '../statement-properties.ts';
import { constantOf, itemsOf, nameOf, nodesWithin } from '../tree.ts';
import { isSharedCatalogue, reachOfLibrary, reachOfSets } from './cluster-objects.ts';
import { OWN_TIMEOUT, SETTINGS_RESET, setActions, setsLockTimeout } from './setting-actions.ts';

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

function ofLock({ relations = [] }: Tree.LockStmt): Reach {
  const shared = itemsOf<Tree.RangeVar>(relations, 'RangeVar').map(nameOf).find(isSharedCatalogue);
  if (!shared) return 'database';
  return {
    beyond: 'cluster',
    what: `LOCK of ${shared.name}`,
    why: 'all databases share it, and new sessions of theirs would wait',
  };
}

/** Statements that run code, or concern their session or transaction. */
export const SESSION_KINDS = {
  // Code.
  CallStmt: {
    name: 'CALL',
    effect: 'unknown',
    reach: 'database',
    inBlock: 'differs',
    evaluates: true,
    runsCode: true,
  },
  DoStmt: {
    name: 'DO',
    effect: 'unknown',
    reach: 'database',
    runsCode: true,
    inBlock: (fields) => (ENDS_TRANSACTION.test(bodyOf(fields)) ? 'differs' : 'same'),
    actions: (fields) =>
      nodesWithin(fields, 'String').some(({ sval = '' }) => setsLockTimeout(sval)) ? [OWN_TIMEOUT] : [],
  },
  PrepareStmt: {
    name: 'PREPARE',
    effect: 'none',
    reach: 'database',
    data: true,
    evaluates: true,
    elsewhere: true,
    survivesRollback: true,
  },
  ExecuteStmt: {
    name: 'EXECUTE',
    effect: 'unknown',
    reach: 'database',
    evaluates: true,
    runsCode: true,
    elsewhere: true,
  },
  DeallocateStmt: {
    name: 'DEALLOCATE',
    effect: 'none',
    reach: 'database',
    incidental: true,
    elsewhere: true,
    survivesRollback: true,
  },
  LoadStmt: {
    name: 'LOAD',
    runs: 'unknown',
    effect: 'none',
    reach: ({ filename = '' }) => reachOfLibrary('LOAD', filename),
  },

  // Transactions and sessions.
  TransactionStmt: {
    name: 'BEGIN, COMMIT or ROLLBACK',
    words: ['BEGIN', 'START', 'COMMIT', 'END', 'ROLLBACK', 'ABORT', 'SAVEPOINT', 'RELEASE'],
    effect: 'none',
    reach: 'database',
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
    reach: (fields) => reachOfSets([fields]),
    inBlock: ({ is_local: isLocal, name }) =>
      isLocal || name === 'TRANSACTION' || name === 'TRANSACTION SNAPSHOT' ? 'required' : 'same',
    changesReading: (fields) =>
      fields.kind === 'VAR_RESET_ALL' || (isReadingSetting(fields.name ?? '') && !isUsual(fields)),
    actions: setActions,
    changesNames: ({ kind, name = '' }) => kind === 'VAR_RESET_ALL' || isNamingSetting(name),
    incidental: true,
    elsewhere: true,
  },
  VariableShowStmt: { name: 'SHOW', effect: 'none', reach: 'database', incidental: true, elsewhere: true },
  ConstraintsSetStmt: {
    name: 'SET CONSTRAINTS',
    effect: 'none',
    reach: 'database',
    inBlock: 'required',
    incidental: true,
  },
  DiscardStmt: {
    name: 'DISCARD',
    effect: 'none',
    reach: 'database',
    inBlock: ({ target }) => (target === 'DISCARD_ALL' ? 'refused' : 'same'),
    changesReading: ({ target }) => target === 'DISCARD_ALL',
    actions: ({ target }) => (target === undefined || target === 'DISCARD_ALL' ? SETTINGS_RESET : []),
    changesNames: ({ target }) => target === 'DISCARD_ALL',
    incidental: true,
    elsewhere: true,
  },
  ListenStmt: { name: 'LISTEN', effect: 'none', reach: 'database', incidental: true },
  UnlistenStmt: { name: 'UNLISTEN', effect: 'none', reach: 'database', incidental: true },
  NotifyStmt: { name: 'NOTIFY', effect: 'none', reach: 'database', incidental: true },
  CheckPointStmt: { name: 'CHECKPOINT', effect: 'none', reach: 'database', incidental: true },
  WaitStmt: {
    name: 'WAIT FOR LSN',
    tags: ['WAIT'],
    effect: 'none',
    reach: 'database',
    inBlock: 'differs',
    incidental: true,
  },
  LockStmt: {
    name: 'LOCK',
    effect: 'none',
    reach: ofLock,
    inBlock: 'required',
    nowait: ({ nowait }) => nowait === true,
    actions: ({ relations, mode }) => [
      { does: 'lock', tables: namesOfRanges(relations), mode: LOCK_MODES[(mode ?? 8) - 1] ?? '' },
    ],
    locks: ({ relations, mode }) => locksOn(relations, LOCK_MODES[(mode ?? 8) - 1]),
  },
} satisfies Partial<StatementTable<StatementKind>>;
