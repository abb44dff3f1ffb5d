import type { ColumnTrial } from '../../model/effect-facts.ts';
import type { StatementSection } from '../../model/report.ts';
import type { Action, ActionOf } from '../../model/statement-actions.ts';
import { displayName, literal, sibling } from '../../postgres/sql/quote.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardTexts, lockFinding, sqlAdvice } from '../hazard-definition.ts';

const SERIAL = /^(?:small|big)?serial\d?$/;

/** Tells if a new column gets a number in every row, which makes it NOT NULL. */
export function isNumbered(action: ActionOf<'add column'>): boolean {
  return action.identity || SERIAL.test(action.type);
}

/** A kind of action that rewrites a table. */
export interface Cause extends HazardTexts {
  /** Tells if the action makes a statement rewrite the relation. */
  readonly isCause: (action: Action) => boolean;
  /** @param trial of the action's column; undefined: it was not tried */
  readonly adviceOf: (relation: string, action: Action, trial: ColumnTrial | undefined) => string;
  /** The effect that lasts, however short the rewrite is; null: there is none. */
  readonly lasting?: (action: Action) => string | null;
  /** Finds others, which the list of rewritten tables does not show. */
  readonly findOthers?: (context: HazardContext) => Finding[];
}

/** Causes of a rewrite by action. That the relation was rewritten is measured: it has a new relfilenode. */
export const CAUSES: readonly Cause[] = [
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
      'Use an index on the expression, a view, or a VIRTUAL column (from PostgreSQL 18 on, without an index, a key or a function of yours); or a plain column that a trigger fills.',
    isCause: (action) => action.does === 'add column' && action.stored,
    adviceOf: (relation, action, trial) => {
      const { column, type } = action as Extract<Action, { does: 'add column' }>;
      const name = displayName(column);
      const [reason] = trial?.storedFor ?? [];
      if (reason === undefined)
        return sqlAdvice(
          'Since PostgreSQL 18 nothing needs to be stored; before, an index on the expression or a view may be enough:',
          `ALTER TABLE ${relation} ADD COLUMN ${name} … GENERATED ALWAYS AS (…) VIRTUAL`,
        );
      return sqlAdvice(
        `A VIRTUAL column does not do here (${reason}). Add a plain column that a trigger fills, and fill the old rows in batches:`,
        `ALTER TABLE ${relation} ADD COLUMN ${name} ${type}`,
        `CREATE TRIGGER … BEFORE INSERT OR UPDATE ON ${relation} FOR EACH ROW EXECUTE FUNCTION …`,
        `UPDATE ${relation} SET ${name} = … WHERE ${name} IS NULL AND …`,
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

/** Tells if an action adds a column or gives it another type. */
export function isOfColumn(action: Action): action is ActionOf<'add column' | 'alter type'> {
  return action.does === 'add column' || action.does === 'alter type';
}

/** The trial of a column of a statement; undefined: it was not tried. */
export function trialOf({ facts }: HazardContext, { index }: StatementSection, name: string) {
  const { columnTrials } = facts.catalogue.effects;
  return columnTrials.find(({ statement, column }) => statement === index && column === name);
}

/** Tells if a column that a statement adds or retypes may be what rewrites the table. */
export function mayRewrite(context: HazardContext, statement: StatementSection, column: string): boolean {
  return trialOf(context, statement, column)?.rewrites ?? true;
}
