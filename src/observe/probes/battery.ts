import { identifier } from '../../postgres/sql/quote.ts';
import {
  counted,
  duplicates,
  inserts,
  isTable,
  longValues,
  newest,
  oddValues,
  one,
  orphan,
  parents,
  searched,
  set,
  type Tried,
  upserts,
} from './probe-statements.ts';
import type { ProbedRelation } from './probed-relations.ts';

/** One thing that an application may do, as one statement that needs no values. */
export interface Probe {
  readonly relation: ProbedRelation;
  readonly kind: ProbeKind;
  /** The constraint, index or column that it is about; null: the whole relation. */
  readonly subject: string | null;
  /** Settings of its transaction. */
  readonly settings: readonly string[];
  readonly sql: string;
  /** null: the role of the session. */
  readonly role: string | null;
  readonly callsPerSecond?: number | null;
  /** Statement that makes another result good. */
  readonly remedy?: string;
}

export interface ProbeKind {
  /** The attempt, after "an" or "a". */
  readonly name: string;
  /** Rows may be read or written by it. */
  readonly writes: boolean;
  /** The one refusal that counts, if it ends; null: each refusal and each other number of rows counts. */
  readonly refusedBy: string | null;
  /** The number of rows that it reads counts, not only whether it succeeds. */
  readonly counts: boolean;
  readonly of: (relation: ProbedRelation) => readonly Tried[];
}

/** Reading all of a larger relation would take too long. */
const COUNTED_PAGES = 10_000;
const WIDE_COLUMNS = 6;

const DEFERRED = 'SET CONSTRAINTS ALL DEFERRED';

/** By name, since a view that is made again may have others. */
const columnsOf = (columns: ProbedRelation['columns']) =>
  columns.length === 0 ? '*' : columns.map(({ name }) => identifier(name)).join(', ');

/** All kinds of probes. What each tells is the difference between its results before and after the command. */
export const BATTERY: readonly ProbeKind[] = [
  {
    name: 'SELECT of a row',
    writes: false,
    refusedBy: null,
    counts: false,
    // Computes the whole row, and sends nothing of it: it may have hundreds of megabytes.
    of: ({ sqlName, kind, columns }) => [
      {
        sql: `SELECT FROM (SELECT ${kind === 'v' ? columnsOf(columns) : '*'} FROM ${sqlName} LIMIT 1) AS row_of WHERE pg_catalog.pg_column_size(row_of) > 0`,
      },
    ],
  },
  {
    name: 'INSERT of the columns that running code names',
    writes: true,
    refusedBy: null,
    counts: false,
    of: (relation) =>
      relation.inserted.flatMap(({ columns, callsPerSecond }) =>
        inserts(relation, columns).map((each) => ({ ...each, callsPerSecond })),
      ),
  },
  {
    name: 'INSERT of a row like an existing one',
    writes: true,
    refusedBy: null,
    counts: false,
    of: (relation) =>
      inserts(
        relation,
        relation.columns.filter(({ filled, generated }) => !filled && !generated),
      ),
  },
  {
    name: 'INSERT of required columns alone',
    writes: true,
    refusedBy: null,
    counts: false,
    of: (relation) =>
      inserts(
        relation,
        relation.columns.filter(
          ({ notNull, hasDefault, filled, generated }) => notNull && !hasDefault && !filled && !generated,
        ),
      ),
  },
  {
    name: 'UPDATE of a row',
    writes: true,
    refusedBy: null,
    counts: false,
    of: (relation) => {
      const free = relation.columns.filter((each) => !each.generated && each.identity !== 'a');
      const setting = (columns: typeof free) =>
        `UPDATE ${relation.sqlName} SET ${columns.map(({ name }) => `${identifier(name)} = ${identifier(name)}`).join(', ')}`;
      const [first] = free;
      if (!first) return [];
      if (isTable(relation)) return [{ sql: `${setting([first])} WHERE ${one(relation)}` }];
      // A computed column of a view takes a value only by a rule or a trigger.
      return relation.takes.updates
        ? [{ sql: `${setting([first])} WHERE false` }, { sql: `${setting(free)} WHERE false` }]
        : [];
    },
  },
  {
    name: 'DELETE of a row',
    writes: true,
    refusedBy: null,
    counts: false,
    of: (relation) =>
      isTable(relation)
        ? [{ sql: `DELETE FROM ${relation.sqlName} WHERE ${newest(relation)}` }, ...parents(relation)]
        : relation.takes.deletes
          ? [{ sql: `DELETE FROM ${relation.sqlName} WHERE false` }]
          : [],
  },
  {
    name: 'INSERT with ON CONFLICT',
    writes: true,
    refusedBy: null,
    counts: false,
    of: (relation) => (isTable(relation) ? relation.keys.flatMap((key) => upserts(relation, key)) : []),
  },
  {
    name: 'INSERT of a second row with the same key',
    writes: true,
    refusedBy: '23505',
    counts: false,
    of: (relation) =>
      isTable(relation)
        ? relation.keys
            .filter(({ predicate }) => predicate === null)
            .flatMap((key) => duplicates(relation, key))
        : [],
  },
  {
    name: 'count of the rows',
    writes: false,
    refusedBy: null,
    counts: true,
    of: ({ sqlName, kind, hasChildren, rowSecurity, pages }) =>
      (kind === 'v' || hasChildren || rowSecurity) && pages < COUNTED_PAGES
        ? [{ sql: `SELECT count(*) FROM ${sqlName}` }]
        : [],
  },
  {
    name: 'search by an index on an expression',
    writes: false,
    refusedBy: null,
    counts: true,
    of: (relation) => relation.expressions.map((index) => searched(relation, index)),
  },
  {
    name: 'count of the rows of a partial index',
    writes: false,
    refusedBy: null,
    counts: true,
    of: (relation) =>
      relation.pages < COUNTED_PAGES ? relation.filtered.map((index) => counted(relation, index)) : [],
  },
  {
    name: 'INSERT that gives all values itself',
    writes: true,
    refusedBy: null,
    counts: false,
    of: (relation) =>
      relation.columns.some(({ filled, identity }) => filled && identity !== 'a')
        ? inserts(
            relation,
            relation.columns.filter(({ identity, generated }) => identity !== 'a' && !generated),
          )
        : [],
  },
  {
    name: 'reference to a row that does not exist',
    writes: true,
    refusedBy: '23503',
    counts: false,
    of: (relation) => (isTable(relation) ? relation.references.flatMap((key) => orphan(relation, key)) : []),
  },
  {
    name: 'reference to a row that is inserted later in the transaction',
    writes: true,
    refusedBy: null,
    counts: false,
    of: (relation) =>
      relation.references
        .filter(({ deferrable }) => deferrable)
        .flatMap((key) => orphan(relation, key).map((each) => ({ ...each, settings: [DEFERRED] }))),
  },
  {
    name: 'value that a CHECK refuses',
    writes: true,
    refusedBy: '23514',
    counts: false,
    of: (relation) =>
      isTable(relation)
        ? relation.columns
            .filter(({ checked, generated }) => checked && !generated)
            .flatMap((column) => oddValues(column).map((value) => set(relation, column, value)))
        : [],
  },
  {
    name: 'value as long as a column takes',
    writes: true,
    refusedBy: null,
    counts: false,
    of: (relation) =>
      relation.kind === 'r'
        ? relation.columns
            .filter(({ type, generated }) => !generated && (type === 'text' || type === 'varchar'))
            .slice(0, WIDE_COLUMNS)
            .flatMap((column) => longValues(column).map((value) => set(relation, column, value)))
        : [],
  },
];
