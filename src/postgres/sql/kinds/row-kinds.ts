import type { StatementKind, StatementTable } from '../statement-properties.ts';
import { TOUCHES_FILES } from './cluster-objects.ts';

const query = { reach: 'database', data: true, evaluates: true } as const;
const dml = { ...query, effect: 'rows', dml: true, preparable: true } as const;

/** Statements that read and change rows. */
export const ROW_KINDS = {
  SelectStmt: {
    ...query,
    name: 'SELECT',
    words: ['SELECT', 'VALUES', 'TABLE', 'WITH'],
    effect: 'reads',
    preparable: true,
    elsewhere: true,
  },
  InsertStmt: { ...dml, name: 'INSERT', words: ['INSERT', 'WITH'] },
  UpdateStmt: { ...dml, name: 'UPDATE', words: ['UPDATE', 'WITH'] },
  DeleteStmt: { ...dml, name: 'DELETE', words: ['DELETE', 'WITH'] },
  MergeStmt: { ...dml, name: 'MERGE', since: 15, words: ['MERGE', 'WITH'] },
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
  },
  TruncateStmt: { name: 'TRUNCATE', effect: 'rows', reach: 'database' },
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
