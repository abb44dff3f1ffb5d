import type * as Tree from 'libpg-query';
import type { Action } from '../../../model/statement-actions.ts';
import { locksOn, namesOfRanges, rowLockActions } from '../query-locks.ts';
import type { StatementKind, StatementTable } from '../statement-properties.ts';
import { nameOf } from '../tree.ts';
import { TOUCHES_FILES } from './cluster-objects.ts';
import { setConfigActions } from './setting-actions.ts';

const query = { reach: 'database', data: true, evaluates: true } as const;
const dml = { ...query, effect: 'rows', dml: true, preparable: true } as const;

const changing =
  (does: 'insert' | 'update' | 'delete' | 'merge') =>
  ({ relation }: { readonly relation?: Tree.RangeVar }): readonly Action[] => [
    { does, table: nameOf(relation) },
  ];

/** Statements that read and change rows. */
export const ROW_KINDS = {
  SelectStmt: {
    ...query,
    name: 'SELECT',
    words: ['SELECT', 'VALUES', 'TABLE', 'WITH'],
    effect: 'reads',
    preparable: true,
    elsewhere: true,
    keptIn: ({ intoClause }) => intoClause?.rel,
    actions: (tree) => [...setConfigActions(tree), ...rowLockActions(tree)],
  },
  InsertStmt: { ...dml, name: 'INSERT', words: ['INSERT', 'WITH'], actions: changing('insert') },
  UpdateStmt: { ...dml, name: 'UPDATE', words: ['UPDATE', 'WITH'], actions: changing('update') },
  DeleteStmt: { ...dml, name: 'DELETE', words: ['DELETE', 'WITH'], actions: changing('delete') },
  MergeStmt: { ...dml, name: 'MERGE', words: ['MERGE', 'WITH'], actions: changing('merge') },
  CopyStmt: {
    ...query,
    name: 'COPY',
    effect: ({ is_from: isFrom }) => (isFrom ? 'rows' : 'reads'),
    reach: ({ is_program: isProgram, filename }) => {
      if (isProgram)
        return {
          beyond: 'server',
          what: 'COPY … PROGRAM',
          why: "it runs a program on the target's server",
        };
      return filename === undefined
        ? 'database'
        : { beyond: 'server', what: 'COPY with a file of the server', why: TOUCHES_FILES };
    },
    copies: true,
    progress: [
      { view: 'pg_stat_progress_copy', phase: 'type', done: 'bytes_processed', total: 'bytes_total' },
    ],
  },
  TruncateStmt: {
    name: 'TRUNCATE',
    effect: 'rows',
    reach: 'database',
    actions: ({ relations, behavior }) => [
      { does: 'truncate', tables: namesOfRanges(relations), cascade: behavior === 'DROP_CASCADE' },
    ],
    locks: ({ relations }) => locksOn(relations, 'ACCESS EXCLUSIVE'),
  },
  ExplainStmt: { ...query, name: 'EXPLAIN', effect: 'reads' },
  DeclareCursorStmt: { ...query, name: 'DECLARE', effect: 'reads', inBlock: 'required' },
  FetchStmt: {
    name: 'FETCH',
    words: ['FETCH', 'MOVE'],
    effect: 'none',
    reach: 'database',
    data: true,
    incidental: true,
  },
  ClosePortalStmt: { name: 'CLOSE', effect: 'none', reach: 'database', incidental: true },
} satisfies Partial<StatementTable<StatementKind>>;
