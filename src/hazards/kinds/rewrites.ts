import type { Action, ActionOf, Name } from '../../model/hazard-facts.ts';
import type { StatementSection } from '../../model/report.ts';
import { displayName, literal } from '../../postgres/sql/quote.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type HazardRecord, type HazardTexts, lockFinding, sqlAdvice } from '../hazard-definition.ts';
import { sibling } from './names.ts';

const SERIAL = /^(?:small|big)?serial\d?$/;

/** A new column that gets a number in every row, and is NOT NULL by that. */
export function isNumbered(action: ActionOf<'add column'>): boolean {
  return action.identity || SERIAL.test(action.type);
}

interface Cause extends HazardTexts {
  /** Whether an action of the statement makes it write the relation anew. */
  readonly isCause: (action: Action) => boolean;
  readonly advises: (relation: string, action: Action) => string;
}

/** By what is asked for; that the relation was written anew is measured: it has another file. */
const CAUSES: readonly Cause[] = [
  {
    code: 'TYPE_CHANGE_REWRITES',
    title: "a column's new type writes the whole table anew",
    condition: 'ALTER COLUMN … TYPE after which the table has another file.',
    effect:
      'ACCESS EXCLUSIVE while every row is written again and every index built again, at twice the disk.',
    safer:
      'A new column of the new type, kept equal by a trigger, filled in batches, and swapped in by a rename.',
    isCause: ({ does }) => does === 'alter type',
    advises: (relation, action) => {
      const { column, type } = action as Extract<Action, { does: 'alter type' }>;
      const next = displayName(`${column}_new`);
      return sqlAdvice(
        'Fill a new column in batches, kept equal by a trigger, and swap the names at the end:',
        `ALTER TABLE ${relation} ADD COLUMN ${next} ${type}`,
        `UPDATE ${relation} SET ${next} = ${displayName(column)} WHERE …`,
        `ALTER TABLE ${relation} DROP COLUMN ${displayName(column)}`,
        `ALTER TABLE ${relation} RENAME COLUMN ${next} TO ${displayName(column)}`,
      );
    },
  },
  {
    code: 'VOLATILE_DEFAULT_REWRITES',
    title: "a new column's volatile default writes the whole table anew",
    condition: 'ADD COLUMN with a DEFAULT, after which the table has another file.',
    effect: 'ACCESS EXCLUSIVE while every row is written again with a value of its own.',
    safer: 'Add the column without a default, set the default, and fill the old rows in batches.',
    isCause: (action) =>
      action.does === 'add column' && action.hasDefault && !action.stored && !isNumbered(action),
    advises: (relation, action) => {
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
    title: 'a new serial or identity column writes the whole table anew',
    condition: 'ADD COLUMN serial or GENERATED … AS IDENTITY, after which the table has another file.',
    effect: 'ACCESS EXCLUSIVE while every row is written again with a number of its own.',
    safer: 'A plain column, numbers from a sequence in batches, and the identity at the end.',
    isCause: (action) => action.does === 'add column' && isNumbered(action),
    advises: (relation, action) => {
      const { column, type } = action as Extract<Action, { does: 'add column' }>;
      const sequence = sibling(relation, `_${column}_seq`);
      const plain = /^big|8$/.test(type) ? 'bigint' : 'integer';
      return sqlAdvice(
        'Add it empty, number the old rows in batches, and let the sequence go on from there:',
        `ALTER TABLE ${relation} ADD COLUMN ${displayName(column)} ${plain}`,
        `CREATE SEQUENCE ${sequence} OWNED BY ${relation}.${displayName(column)}`,
        `ALTER TABLE ${relation} ALTER COLUMN ${displayName(column)} SET DEFAULT nextval(${literal(sequence)})`,
      );
    },
  },
  {
    code: 'GENERATED_COLUMN_REWRITES',
    title: 'a new stored generated column writes the whole table anew',
    condition: 'ADD COLUMN … GENERATED ALWAYS AS … STORED, after which the table has another file.',
    effect: 'ACCESS EXCLUSIVE while the expression is worked out and stored for every row.',
    safer:
      'An index on the expression, a view, from PostgreSQL 18 on a VIRTUAL column; or a plain column that a trigger fills.',
    isCause: (action) => action.does === 'add column' && action.stored,
    advises: (relation, action) => {
      const { column } = action as Extract<Action, { does: 'add column' }>;
      return sqlAdvice(
        'From PostgreSQL 18 on nothing needs to be stored; before, an index on the expression or a view may do:',
        `ALTER TABLE ${relation} ADD COLUMN ${displayName(column)} … GENERATED ALWAYS AS (…) VIRTUAL`,
      );
    },
  },
  {
    code: 'SET_LOGGED_REWRITES',
    title: 'SET LOGGED or UNLOGGED writes the whole table anew',
    condition: 'ALTER TABLE … SET LOGGED or SET UNLOGGED, after which the table has another file.',
    effect:
      'ACCESS EXCLUSIVE while table and indexes are copied; SET LOGGED sends all of it through the WAL to the replicas, and an UNLOGGED table is empty after a crash.',
    safer: 'A new table of the wanted kind, filled in batches and swapped in by a rename.',
    isCause: ({ does }) => does === 'set logged' || does === 'set unlogged',
    advises: (relation, { does }) =>
      sqlAdvice(
        'Fill a new table in batches, and swap the names at the end:',
        `CREATE ${does === 'set unlogged' ? 'UNLOGGED ' : ''}TABLE ${sibling(relation, '_new')} (LIKE ${relation} INCLUDING ALL)`,
      ),
  },
  {
    code: 'ACCESS_METHOD_REWRITES',
    title: 'another access method writes the whole table anew',
    condition: 'SET ACCESS METHOD, after which the table has another file.',
    effect: 'ACCESS EXCLUSIVE while every row is written in the new format and every index built again.',
    safer: 'A new table of the wanted access method, filled in batches and swapped in by a rename.',
    isCause: ({ does }) => does === 'set access method',
    advises: (relation) =>
      sqlAdvice(
        'Fill a new table in batches, and swap the names at the end:',
        `CREATE TABLE ${sibling(relation, '_new')} (LIKE ${relation} INCLUDING ALL) USING …`,
      ),
  },
  {
    code: 'TABLESPACE_REWRITES',
    title: 'a move to another tablespace copies the whole table',
    condition: 'SET TABLESPACE, after which the relation has another file.',
    effect: 'ACCESS EXCLUSIVE while its files are copied, through the WAL as well.',
    safer:
      'Indexes by REINDEX (CONCURRENTLY, TABLESPACE …); tables by a copy that is swapped in, or in a window without traffic.',
    isCause: ({ does }) => does === 'set tablespace',
    advises: (relation) =>
      sqlAdvice(
        'Indexes can be moved while they are used; a table needs a copy, or a quiet time:',
        `REINDEX (CONCURRENTLY, TABLESPACE …) TABLE ${relation}`,
      ),
  },
  {
    code: 'VACUUM_FULL',
    title: 'VACUUM FULL writes the whole table anew',
    condition: 'VACUUM FULL of a table that was there before the command.',
    effect: 'ACCESS EXCLUSIVE while the table and its indexes are copied, at twice the disk.',
    safer: 'VACUUM, which locks nobody out; where the space must go back, pg_repack or pg_squeeze.',
    isCause: (action) => action.does === 'vacuum' && action.full,
    advises: (relation) =>
      sqlAdvice('Make the space usable again while the table is in use:', `VACUUM (ANALYZE) ${relation}`),
  },
  {
    code: 'CLUSTER',
    title: 'CLUSTER writes the whole table anew',
    condition: 'CLUSTER of a table that was there before the command.',
    effect: 'ACCESS EXCLUSIVE while the table is copied in the order of an index, at twice the disk.',
    safer: 'pg_repack with --order-by, an index that covers the query, or partitions.',
    isCause: ({ does }) => does === 'cluster',
    advises: (relation) =>
      `Order the rows of ${relation} with pg_repack, which holds ACCESS EXCLUSIVE for a moment only.`,
  },
];

/** What gives a relation another file because that is what it is for, and has hazards of its own. */
/** These give every relation that they touch a new file, partitions and what refers to it too. */
const EMPTIES_OR_FILLS = new Set<Action['does']>(['truncate', 'refresh']);
const EXPECTED = new Set<Action['does']>(['truncate', 'refresh', 'drop']);

export const REWRITES: readonly HazardRecord[] = [
  ...CAUSES.map(
    ({ isCause, advises, ...words }): HazardRecord => ({
      ...words,
      find: (ground) =>
        rewritten(ground).flatMap(({ statement, relation }) => {
          const cause = onRelation(ground, statement, relation).find(isCause);
          return cause
            ? [rewriteFinding(ground, statement, relation, words.title, advises(relation, cause))]
            : [];
        }),
    }),
  ),
  {
    code: 'TABLE_REWRITTEN',
    title: 'a table is written anew',
    condition:
      'A table that was there before has another file, and no statement says why: a function, a DO block, or text that could not be parsed.',
    effect: 'ACCESS EXCLUSIVE while every row is written again, at twice the disk.',
    safer: 'See what the statement does, and take the way that the hazard of that statement names.',
    find: (ground) =>
      rewritten(ground)
        .filter(({ statement, relation }) =>
          onRelation(ground, statement, relation).every(
            (action) => !EXPECTED.has(action.does) && !CAUSES.some(({ isCause }) => isCause(action)),
          ),
        )
        .filter(({ statement }) => !ground.actions(statement).some(({ does }) => EMPTIES_OR_FILLS.has(does)))
        .map(({ statement, relation }) =>
          rewriteFinding(
            ground,
            statement,
            relation,
            `${statement.tag ?? 'a statement'} writes a whole table anew`,
            'Run what it does as statements of their own, to see which of them it is.',
          ),
        ),
  },
];

function rewritten(ground: HazardContext): { statement: StatementSection; relation: string }[] {
  return ground.facts.statements.flatMap((statement) =>
    statement.rewrote
      .filter((relation) => ground.relation(relation))
      .map((relation) => ({ statement, relation })),
  );
}

/** The statement's actions on the relation, or on no relation in particular (VACUUM FULL of the whole database). */
function onRelation(ground: HazardContext, statement: StatementSection, relation: string): Action[] {
  return ground.actions(statement).filter((action) => {
    const names = namesIn(action);
    return names.length === 0 || names.some((name) => ground.resolve(name, statement) === relation);
  });
}

function namesIn(action: Action): readonly Name[] {
  if ('tables' in action) return action.tables;
  if ('table' in action) return action.table === null ? [] : [action.table];
  return 'view' in action ? [action.view] : [];
}

function rewriteFinding(
  ground: HazardContext,
  statement: StatementSection,
  relation: string,
  says: string,
  advice: string,
) {
  return lockFinding(ground, statement, relation, `${relation}: ${says}, while nobody can read it`, advice);
}
