import type * as Tree from 'libpg-query';
import { fieldsIf } from '../postgres/sql/classify-statement.ts';
import { identifier, literal, withoutLastPart } from '../postgres/sql/quote.ts';
import { keyFromIndex, tailsOfKey } from '../postgres/sql/safer-constraints.ts';
import { concurrentForm } from '../postgres/sql/safer-texts.ts';
import { hasOption, itemsOf, strings } from '../postgres/sql/tree.ts';
import {
  left,
  type Rewriting,
  type ScriptStep,
  type Subject,
  step,
  waiting,
  writtenName,
} from './subject.ts';

// What PostgreSQL can do while others read and write, if it is asked outside of a transaction: CONCURRENTLY.

/** CREATE INDEX. */
export function buildConcurrently(subject: Subject): Rewriting {
  const index = fieldsIf(subject.node, 'IndexStmt');
  if (!index) return left('it is no CREATE INDEX');
  if (subject.before(index.relation)?.kind === 'partitioned table')
    return left(
      'a partitioned table has no concurrent build: build the index on each partition, and attach it',
    );
  const guard = index.idxname === undefined ? [] : [dropInvalid(subject, index.relation, index.idxname)];
  return [...guard, ...(concurrentForm(subject) ?? []).map(waiting)];
}

const GUARD = `DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(`;

/** The statement is one of dropInvalid(). */
export const isGuard = (sql: string) => sql.startsWith(GUARD);

/** Drops what a failed attempt has left, so that the build can be tried again. */
function dropInvalid(subject: Subject, table: Tree.RangeVar | undefined, index: string): ScriptStep {
  const name = `${withoutLastPart(subject.relation(table))}.${identifier(index)}`;
  return step(`${GUARD}${literal(name).trim()}) AND NOT indisvalid) THEN
    DROP INDEX ${name};
  END IF;
END $$`);
}

/** DROP INDEX, one at a time. */
export function dropConcurrently(subject: Subject): Rewriting {
  return concurrentForm(subject)?.map(waiting) ?? left('DROP INDEX CONCURRENTLY knows no CASCADE');
}

export function reindexConcurrently(subject: Subject): Rewriting {
  return concurrentForm(subject)?.map(waiting) ?? left('it has no concurrent form');
}

/** ALTER INDEX … SET TABLESPACE. */
export function moveIndex(subject: Subject): Rewriting {
  const { relation, objtype, cmds = [] } = fieldsIf(subject.node, 'AlterTableStmt') ?? {};
  const [command] = cmds;
  const { subtype, name } = command && 'AlterTableCmd' in command ? command.AlterTableCmd : {};
  if (objtype !== 'OBJECT_INDEX' || cmds.length !== 1 || subtype !== 'AT_SetTableSpace' || !name)
    return left('a table can only be moved as a copy, or in a maintenance window');
  return [
    waiting(`REINDEX (TABLESPACE ${identifier(name)}) INDEX CONCURRENTLY ${writtenName(subject, relation)}`),
  ];
}

/** VACUUM FULL, CLUSTER and REPACK, from PostgreSQL 19 on. */
export function repackConcurrently(subject: Subject): Rewriting {
  const vacuum = fieldsIf(subject.node, 'VacuumStmt');
  const cluster = fieldsIf(subject.node, 'ClusterStmt');
  const repack = fieldsIf(subject.node, 'RepackStmt');
  const named = vacuum
    ? itemsOf<Tree.VacuumRelation>(vacuum.rels, 'VacuumRelation').map(({ relation }) => relation)
    : [cluster?.relation ?? repack?.relation?.relation];
  const tables = named.filter((range) => range !== undefined);
  if (tables.length === 0) return left('REPACK (CONCURRENTLY) is of one table, and it names none');
  if (tables.some((table) => subject.before(table)?.kind !== 'table'))
    return left('REPACK (CONCURRENTLY) is of tables that are not partitioned');
  if (tables.some((table) => !subject.before(table)?.key))
    return left('REPACK (CONCURRENTLY) needs a primary key or an identity index');
  const index = cluster?.indexname ?? repack?.indexname;
  const isOrdered = cluster !== undefined || repack?.usingindex === true;
  const order = `${isOrdered ? ' USING INDEX' : ''}${index === undefined ? '' : ` ${identifier(index)}`}`;
  const analyzes = hasOption(vacuum?.options ?? repack?.params, 'analyze');
  return tables.flatMap((table) => {
    const written = writtenName(subject, table);
    const copied = step(`REPACK (CONCURRENTLY) ${written}${order}`);
    return analyzes ? [copied, step(`ANALYZE ${written}`)] : [copied];
  });
}

export function refreshConcurrently(subject: Subject): Rewriting {
  const { relation, skipData } = fieldsIf(subject.node, 'RefreshMatViewStmt') ?? {};
  if (skipData) return left('REFRESH … WITH NO DATA has no concurrent form');
  if (!subject.before(relation)?.key)
    return left('REFRESH MATERIALIZED VIEW CONCURRENTLY needs a unique index over columns of the view');
  return concurrentForm(subject)?.map(step) ?? left('it has no concurrent form');
}

/** ADD UNIQUE and ADD PRIMARY KEY. @param written the table as the statement names it. */
export function constraintFromIndex(
  subject: Subject,
  table: Tree.RangeVar | undefined,
  constraint: Tree.Constraint & { readonly conname: string },
  written: string,
): Rewriting {
  if (constraint.options || constraint.indexspace)
    return left(
      'its index has options of its own: build it CONCURRENTLY, then add the constraint USING INDEX',
    );
  if (subject.before(table)?.kind === 'partitioned table')
    return left('a partitioned table has no concurrent build');
  const [index, key] = keyFromIndex({
    table: written,
    name: identifier(constraint.conname),
    columns: strings(constraint.keys).map(identifier),
    isPrimary: constraint.contype === 'CONSTR_PRIMARY',
    tails: tailsOfKey(constraint),
  });
  return [dropInvalid(subject, table, constraint.conname), waiting(index), step(key)];
}
