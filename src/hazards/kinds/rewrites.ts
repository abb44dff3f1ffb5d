import type { StatementSection } from '../../model/report.ts';
import type { Action, ActionOf, Name } from '../../model/statement-actions.ts';
import { displayName, literal, sibling } from '../../postgres/sql/quote.ts';
import type { HazardContext } from '../hazard-context.ts';
import {
  type Finding,
  type HazardRecord,
  type HazardTexts,
  lockFinding,
  sqlAdvice,
} from '../hazard-definition.ts';
import { worst } from '../severity.ts';

const SERIAL = /^(?:small|big)?serial\d?$/;

/** Tells if a new column gets a number in every row, which makes it NOT NULL. */
export function isNumbered(action: ActionOf<'add column'>): boolean {
  return action.identity || SERIAL.test(action.type);
}

interface Cause extends HazardTexts {
  /** Tells if the action makes a statement rewrite the relation. */
  readonly isCause: (action: Action) => boolean;
  readonly adviceOf: (relation: string, action: Action) => string;
  /** The effect that lasts, however short the rewrite is; null: there is none. */
  readonly lasting?: (action: Action) => string | null;
  /** Finds what the list of rewritten tables does not show. */
  readonly findOthers?: (context: HazardContext) => Finding[];
}

/** Causes of a rewrite by action. That the relation was rewritten is measured: it has a new relfilenode. */
const CAUSES: readonly Cause[] = [
  {
    code: 'TYPE_CHANGE_REWRITES',
    title: "changing the column's type rewrites the whole table",
    condition: 'ALTER COLUMN … TYPE, after which the table has a new file.',
    effect:
      'ACCESS EXCLUSIVE while all rows are rewritten and all indexes rebuilt, with twice the disk space.',
    safer: 'Add a column of the new type that a trigger keeps equal, fill it in batches, and swap the names.',
    isCause: ({ does }) => does === 'alter type',
    adviceOf: (relation, action) => {
      const { column, type } = action as Extract<Action, { does: 'alter type' }>;
      const next = displayName(`${column}_new`);
      return sqlAdvice(
        'Fill a new column in batches, let a trigger keep it equal, and swap the names at the end:',
        `ALTER TABLE ${relation} ADD COLUMN ${next} ${type}`,
        `UPDATE ${relation} SET ${next} = ${displayName(column)} WHERE …`,
        `ALTER TABLE ${relation} DROP COLUMN ${displayName(column)}`,
        `ALTER TABLE ${relation} RENAME COLUMN ${next} TO ${displayName(column)}`,
      );
    },
  },
  {
    code: 'VOLATILE_DEFAULT_REWRITES',
    title: 'a new column with a volatile default rewrites the whole table',
    condition: 'ADD COLUMN with a DEFAULT, after which the table has a new file.',
    effect: 'ACCESS EXCLUSIVE while every row is rewritten with a value of its own.',
    safer: 'Add the column without a default, set the default, and fill the old rows in batches.',
    isCause: (action) =>
      action.does === 'add column' && action.hasDefault && !action.stored && !isNumbered(action),
    adviceOf: (relation, action) => {
      const { column, type } = action as Extract<Action, { does: 'add column' }>;
      return sqlAdvice(
        'Add it empty, and fill the old rows in batches:',
        `ALTER TABLE ${relation} ADD COLUMN ${displayName(column)} ${type}`,
        `ALTER TABLE ${relation} ALTER COLUMN ${displayName(column)} SET DEFAULT …`,
        `UPDATE ${relation} SET ${displayName(column)} = … WHERE ${displayName(column)} IS NULL AND …`,
      );
    },
  },
  {
    code: 'IDENTITY_REWRITES',
    title: 'a new serial or identity column rewrites the whole table',
    condition: 'ADD COLUMN serial or GENERATED … AS IDENTITY, after which the table has a new file.',
    effect: 'ACCESS EXCLUSIVE while every row is rewritten with a number of its own.',
    safer: 'Add a plain column, number the rows from a sequence in batches, and add the identity at the end.',
    isCause: (action) => action.does === 'add column' && isNumbered(action),
    adviceOf: (relation, action) => {
      const { column, type } = action as Extract<Action, { does: 'add column' }>;
      const sequence = sibling(relation, `_${column}_seq`);
      const plain = /^big|8$/.test(type) ? 'bigint' : 'integer';
      return sqlAdvice(
        'Add it empty, number the old rows in batches, and let the sequence continue from there:',
        `ALTER TABLE ${relation} ADD COLUMN ${displayName(column)} ${plain}`,
        `CREATE SEQUENCE ${sequence} OWNED BY ${relation}.${displayName(column)}`,
        `ALTER TABLE ${relation} ALTER COLUMN ${displayName(column)} SET DEFAULT nextval(${literal(sequence)})`,
      );
    },
  },
  {
    code: 'GENERATED_COLUMN_REWRITES',
    title: 'a new stored generated column rewrites the whole table',
    condition: 'ADD COLUMN … GENERATED ALWAYS AS … STORED, after which the table has a new file.',
    effect: 'ACCESS EXCLUSIVE while the expression is computed and stored for every row.',
    safer:
      'Use an index on the expression, a view, or (since PostgreSQL 18) a VIRTUAL column; or a plain column that a trigger fills.',
    isCause: (action) => action.does === 'add column' && action.stored,
    adviceOf: (relation, action) => {
      const { column } = action as Extract<Action, { does: 'add column' }>;
      return sqlAdvice(
        'Since PostgreSQL 18 nothing needs to be stored; before, an index on the expression or a view may be enough:',
        `ALTER TABLE ${relation} ADD COLUMN ${displayName(column)} … GENERATED ALWAYS AS (…) VIRTUAL`,
      );
    },
  },
  {
    code: 'SET_LOGGED_REWRITES',
    title: 'SET LOGGED or SET UNLOGGED rewrites the whole table',
    condition:
      'ALTER TABLE … SET LOGGED or SET UNLOGGED, after which the table has a new file. A warning at least with SET UNLOGGED.',
    effect:
      'ACCESS EXCLUSIVE while the table and its indexes are copied; SET LOGGED writes all of it to the WAL and to the replicas, and an UNLOGGED table is empty after a crash.',
    safer: 'Create a new table of that kind, fill it in batches, and swap the names.',
    isCause: ({ does }) => does === 'set logged' || does === 'set unlogged',
    lasting: ({ does }) =>
      does === 'set unlogged'
        ? 'a crash of the server empties it from then on, and standbys do not have its rows'
        : null,
    adviceOf: (relation, { does }) =>
      sqlAdvice(
        'Fill a new table in batches, and swap the names at the end:',
        `CREATE ${does === 'set unlogged' ? 'UNLOGGED ' : ''}TABLE ${sibling(relation, '_new')} (LIKE ${relation} INCLUDING ALL)`,
      ),
  },
  {
    code: 'ACCESS_METHOD_REWRITES',
    title: 'a new access method rewrites the whole table',
    condition: 'SET ACCESS METHOD, after which the table has a new file.',
    effect: 'ACCESS EXCLUSIVE while all rows are written in the new format and all indexes are rebuilt.',
    safer: 'Create a new table with that access method, fill it in batches, and swap the names.',
    isCause: ({ does }) => does === 'set access method',
    adviceOf: (relation) =>
      sqlAdvice(
        'Fill a new table in batches, and swap the names at the end:',
        `CREATE TABLE ${sibling(relation, '_new')} (LIKE ${relation} INCLUDING ALL) USING …`,
      ),
  },
  {
    code: 'TABLESPACE_REWRITES',
    title: 'moving to another tablespace copies the whole table',
    condition: 'SET TABLESPACE of a table or an index that existed before, after which it has a new file.',
    effect:
      'ACCESS EXCLUSIVE while its files are copied, and written to the WAL as well; while an index is locked, no query on its table can be planned.',
    safer:
      'Move indexes with REINDEX (CONCURRENTLY, TABLESPACE …); move tables as a copy that is swapped in, or in a maintenance window (https://www.postgresql.org/docs/current/sql-reindex.html).',
    isCause: ({ does }) => does === 'set tablespace',
    adviceOf: (relation) =>
      sqlAdvice(
        'Indexes can be moved while they are in use; a table needs a copy, or a maintenance window:',
        `REINDEX (CONCURRENTLY, TABLESPACE …) TABLE ${relation}`,
      ),
    findOthers: movedIndexes,
  },
  {
    code: 'VACUUM_FULL',
    title: 'VACUUM FULL rewrites the whole table',
    condition: 'VACUUM FULL of a table that existed before the command.',
    effect: 'ACCESS EXCLUSIVE while the table and its indexes are copied, with twice the disk space.',
    safer:
      'VACUUM, which blocks no session; if the space must be returned to the system, REPACK (CONCURRENTLY) from PostgreSQL 19 on, and pg_repack or pg_squeeze before.',
    isCause: (action) => action.does === 'vacuum' && action.full,
    adviceOf: (relation) =>
      sqlAdvice(
        'Make the space reusable while the table is in use; from PostgreSQL 19 on, REPACK (CONCURRENTLY) also returns it:',
        `VACUUM (ANALYZE) ${relation}`,
      ),
  },
  {
    code: 'CLUSTER',
    title: 'CLUSTER rewrites the whole table',
    condition: 'CLUSTER of a table that existed before the command.',
    effect: 'ACCESS EXCLUSIVE while the table is copied in the order of an index, with twice the disk space.',
    safer:
      'Use REPACK (CONCURRENTLY) … USING INDEX from PostgreSQL 19 on, and pg_repack with --order-by before; an index that covers the query, or partitions.',
    isCause: ({ does }) => does === 'cluster',
    adviceOf: (relation) =>
      `Order the rows of ${relation} with REPACK (CONCURRENTLY) from PostgreSQL 19 on, with pg_repack before: both hold ACCESS EXCLUSIVE for a moment only.`,
  },
  {
    code: 'REPACK',
    title: 'REPACK rewrites the whole table',
    condition: 'REPACK without CONCURRENTLY of a table that existed before the command.',
    effect: 'ACCESS EXCLUSIVE while the table and its indexes are copied, with twice the disk space.',
    safer:
      'Use REPACK (CONCURRENTLY), outside of a transaction: it holds ACCESS EXCLUSIVE for a moment at its end, and needs a primary key or an identity index. If a session that has locked the table waits for a stronger lock at that moment, REPACK is cancelled with SQLSTATE 40P01. That, like a lock_timeout, leaves nothing behind, and REPACK can be repeated.',
    isCause: (action) => action.does === 'repack' && !action.concurrently,
    adviceOf: (relation, action) =>
      sqlAdvice(
        'Copy it while others read and write, outside of a transaction:',
        `REPACK (CONCURRENTLY) ${relation}${action.does === 'repack' && action.ordered ? ' USING INDEX …' : ''}`,
      ),
  },
];

/** Actions that give every relation they touch a new file, including partitions and referencing tables. */
const EMPTIES_OR_FILLS = new Set<Action['does']>(['truncate', 'refresh']);
/** Actions whose purpose is a new file; they have hazards of their own. */
const EXPECTED = new Set<Action['does']>(['truncate', 'refresh', 'drop']);

export const REWRITES: readonly HazardRecord[] = [
  ...CAUSES.map(
    ({ isCause, adviceOf, lasting = () => null, findOthers = () => [], ...words }): HazardRecord => ({
      ...words,
      find: (context) => [
        ...rewritten(context).flatMap(({ statement, relation }) => {
          const cause = onRelation(context, statement, relation).find(isCause);
          if (!cause) return [];
          const found = rewriteFinding(context, statement, relation, words.title, adviceOf(relation, cause));
          const effect = lasting(cause);
          if (effect === null) return [found];
          const severity = worst([found.severity, 'warning']);
          return [{ ...found, severity, message: `${found.message}; ${effect}` }];
        }),
        ...findOthers(context),
      ],
    }),
  ),
  {
    code: 'TABLE_REWRITTEN',
    title: 'a table is rewritten',
    condition:
      'A table that existed before has a new file, and no statement shows why: a function, a DO block, or text that could not be parsed.',
    effect: 'ACCESS EXCLUSIVE while all rows are rewritten, with twice the disk space.',
    safer: 'Find out what the statement does, and follow the advice of the hazard for it.',
    find: (context) =>
      rewritten(context)
        .filter(({ statement, relation }) =>
          onRelation(context, statement, relation).every(
            (action) =>
              !EXPECTED.has(action.does) &&
              !isCopiedConcurrently(action) &&
              !CAUSES.some(({ isCause }) => isCause(action)),
          ),
        )
        .filter(({ statement }) => !context.actions(statement).some(({ does }) => EMPTIES_OR_FILLS.has(does)))
        .map(({ statement, relation }) =>
          rewriteFinding(
            context,
            statement,
            relation,
            `${statement.tag ?? 'a statement'} rewrites the whole table`,
            'Run its parts as separate statements, to see which of them rewrites the table.',
          ),
        ),
  },
];

/** ALTER INDEX … SET TABLESPACE. An index that the command built itself is in no session's way, or has another hazard. */
function movedIndexes(context: HazardContext): Finding[] {
  const moved = new Set(context.facts.catalogue.definitions.moved);
  return context.actionsOf('set tablespace').flatMap(({ statement, action }) => {
    const index = context.resolve(action.table, statement);
    if (!moved.has(index) || context.relation(index) || context.changed('create', index)) return [];
    return [
      lockFinding(
        context,
        statement,
        index,
        `no query on the table of ${index} can be planned while the index is copied to another tablespace`,
        sqlAdvice(
          'Build it there while it is in use:',
          `REINDEX (CONCURRENTLY, TABLESPACE …) INDEX ${index}`,
        ),
      ),
    ];
  });
}

function isCopiedConcurrently(action: Action): boolean {
  return action.does === 'repack' && action.concurrently;
}

function rewritten(context: HazardContext): { statement: StatementSection; relation: string }[] {
  return context.facts.statements.flatMap((statement) =>
    statement.rewrote
      .filter((relation) => context.relation(relation))
      .map((relation) => ({ statement, relation })),
  );
}

/** The statement's actions on the relation, or on all relations (VACUUM FULL of the whole database). */
function onRelation(context: HazardContext, statement: StatementSection, relation: string): Action[] {
  return context.actions(statement).filter((action) => {
    const names = namesIn(action);
    return names.length === 0 || names.some((name) => context.resolve(name, statement) === relation);
  });
}

function namesIn(action: Action): readonly Name[] {
  if ('tables' in action) return action.tables;
  if ('table' in action) return action.table === null ? [] : [action.table];
  return 'view' in action ? [action.view] : [];
}

function rewriteFinding(
  context: HazardContext,
  statement: StatementSection,
  relation: string,
  words: string,
  advice: string,
) {
  return lockFinding(
    context,
    statement,
    relation,
    `${relation}: ${words}, while no session can read it`,
    advice,
  );
}
