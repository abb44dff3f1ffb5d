import { bare, displayName, lastPart, sibling, withoutLastPart } from '../../postgres/sql/quote.ts';
import { keyFromIndex, notNullSteps } from '../../postgres/sql/safer-constraints.ts';
import type { HazardContext, StatementAction } from '../hazard-context.ts';
import { blocking, type HazardRecord, lockFinding, sqlAdvice } from '../hazard-definition.ts';

/** Indexes that are built, rebuilt or dropped while other sessions are blocked. */
export const BUILDS: readonly HazardRecord[] = [
  blocking({
    code: 'INDEX_NOT_CONCURRENT',
    title: 'an index is built while writes wait',
    condition:
      'CREATE INDEX without CONCURRENTLY on a table that existed before the command, or that an earlier transaction of it has made a partition of one.',
    effect: 'SHARE is held on the table until the transaction ends: every INSERT, UPDATE and DELETE waits.',
    safer:
      'CREATE INDEX CONCURRENTLY, outside a transaction; drop the INVALID index that a failed build leaves behind.',
    does: 'create index',
    when: (found) => !found.action.concurrently && isBuilt(found.context, found),
    messageOf: ({ action, relation }) =>
      `writes to ${relation} wait while ${indexName(action.index)} is built`,
    adviceOf: (found) =>
      found.context.relation(found.relation)?.kind === 'partitioned table'
        ? sqlAdvice(
            'A partitioned table has no concurrent build: build the index on each partition, and attach those:',
            ...(found.context.saferText(found.statement, 'on only') ?? [
              `CREATE INDEX … ON ONLY ${found.relation} …`,
            ]),
            'CREATE INDEX CONCURRENTLY … ON <partition> …',
            'ALTER INDEX … ATTACH PARTITION …',
          )
        : sqlAdvice(
            'Build it outside a transaction, and look for an INVALID index if the build fails:',
            ...(found.context.saferText(found.statement, 'concurrent') ?? [
              `CREATE INDEX CONCURRENTLY … ON ${found.relation} …`,
            ]),
          ),
  }),
  {
    code: 'DROP_INDEX_NOT_CONCURRENT',
    title: 'an index is dropped while reads and writes wait',
    condition: 'DROP INDEX without CONCURRENTLY on a table that existed before the command.',
    effect:
      'ACCESS EXCLUSIVE on the table: the statement waits for the oldest transaction on it, and everybody else queues behind.',
    safer: 'DROP INDEX CONCURRENTLY, outside a transaction.',
    find: (context) =>
      context
        .actionsOf('drop')
        .filter(({ action }) => action.kind === 'index' && !action.concurrently)
        .flatMap(({ statement, action }) =>
          context.taken(statement, 'reads').map(({ relation }) => {
            const names = action.objects.map(({ schema, name }) =>
              schema === null ? displayName(name) : displayName(schema, name),
            );
            return lockFinding(
              context,
              statement,
              relation,
              `reads and writes of ${relation} wait while ${names.join(', ')} is dropped`,
              sqlAdvice(
                'Drop it outside a transaction:',
                ...(context.saferText(statement, 'concurrent') ??
                  names.map((name) => `DROP INDEX CONCURRENTLY ${name}`)),
              ),
              true,
            );
          }),
        ),
  },
  {
    code: 'REINDEX_NOT_CONCURRENT',
    title: 'an index is rebuilt while writes wait',
    condition: 'REINDEX without CONCURRENTLY on a table that existed before the command.',
    effect:
      'SHARE on the table and ACCESS EXCLUSIVE on the index: writes wait, and so does every query that has to be planned.',
    safer: 'REINDEX (CONCURRENTLY), outside a transaction.',
    find: (context) =>
      context
        .actionsOf('reindex')
        .filter(({ action }) => !action.concurrently)
        .flatMap(({ statement, action }) =>
          context
            .taken(statement, 'writes')
            .map(({ relation }) =>
              lockFinding(
                context,
                statement,
                relation,
                `writes to ${relation} wait while its indexes are rebuilt`,
                sqlAdvice(
                  'Rebuild it outside a transaction:',
                  ...(context.saferText(statement, 'concurrent') ?? [
                    `REINDEX (CONCURRENTLY) ${action.kind.toUpperCase()} ${action.object ? displayName(...[action.object.schema, action.object.name].filter((part) => part !== null)) : '…'}`,
                  ]),
                ),
              ),
            ),
        ),
  },
  blocking({
    code: 'CONSTRAINT_BUILDS_INDEX',
    title: 'UNIQUE or PRIMARY KEY builds its index while reads and writes wait',
    condition:
      'ADD UNIQUE or ADD PRIMARY KEY without USING INDEX on a table that existed before the command.',
    effect: 'ACCESS EXCLUSIVE is held on the table during the whole build.',
    safer: 'Build a unique index CONCURRENTLY first, then add the constraint USING INDEX.',
    does: 'add constraint',
    when: ({ action }) =>
      (action.kind === 'unique' || action.kind === 'primary key') && action.usingIndex === null,
    messageOf: ({ action, relation }) =>
      `reads and writes of ${relation} wait while the index of its ${action.kind === 'unique' ? 'UNIQUE constraint' : 'PRIMARY KEY'} is built`,
    adviceOf: ({ action, relation }) => {
      const suffix = action.kind === 'unique' ? 'key' : 'pkey';
      const name =
        action.constraint ?? [bare(relation), ...(suffix === 'key' ? action.columns : []), suffix].join('_');
      return sqlAdvice(
        `Build the index first, outside a transaction${action.kind === 'unique' ? '' : ', and make sure that the columns are NOT NULL'}:`,
        ...keyFromIndex({
          table: relation,
          name: displayName(name),
          columns: action.columns.map((column) => displayName(column)),
          isPrimary: action.kind === 'primary key',
          tails: action.tails,
        }),
      );
    },
  }),
  {
    code: 'PRIMARY_KEY_SETS_NOT_NULL',
    title: 'PRIMARY KEY USING INDEX reads the whole table for NULLs',
    condition:
      'ADD PRIMARY KEY USING INDEX makes nullable columns NOT NULL, without a validated CHECK that proves it.',
    effect: 'The index exists, but the whole table is read under ACCESS EXCLUSIVE.',
    safer: 'First make the columns NOT NULL with the help of a validated CHECK (column IS NOT NULL).',
    find: (context) =>
      context
        .actionsOn('add constraint')
        .filter(({ action }) => action.kind === 'primary key' && action.usingIndex !== null)
        .flatMap(({ statement, relation }) =>
          newlyNotNull(context, relation)
            .filter((column) =>
              context.actionsOf('set not null').every((found) => displayName(found.action.column) !== column),
            )
            .map((column) =>
              lockFinding(
                context,
                statement,
                relation,
                `the whole table ${relation} is read, because ${column} was nullable before it became part of the primary key`,
                sqlAdvice(
                  'Make it NOT NULL first, each in a transaction of its own:',
                  ...notNullSteps(relation, column),
                ),
              ),
            ),
        ),
  },
  blocking({
    code: 'EXCLUSION_CONSTRAINT',
    title: 'EXCLUDE is built while reads and writes wait',
    condition: 'ADD EXCLUDE on a table that existed before the command.',
    effect: 'ACCESS EXCLUSIVE during the whole build; there is no concurrent build.',
    safer:
      'Put it on a copy of the table that is filled in the background and swapped in by a rename, or add it in a maintenance window.',
    does: 'add constraint',
    when: ({ action }) => action.kind === 'exclude',
    messageOf: ({ relation }) =>
      `reads and writes of ${relation} wait while the index of its EXCLUDE constraint is built`,
    adviceOf: ({ relation }) =>
      sqlAdvice(
        'No concurrent build exists. Put the constraint on a copy that is filled while the old table is in use, and swap their names:',
        `CREATE TABLE ${sibling(relation, '_new')} (LIKE ${relation} INCLUDING ALL)`,
      ),
  }),
];

/** Tells if the statement builds an index: IF NOT EXISTS builds none if it finds one. A new index is locked by the statement that creates it. */
export function isBuilt(
  context: HazardContext,
  { statement, action }: StatementAction<'create index'>,
): boolean {
  const isParentAlone =
    action.only && context.relation(context.resolve(action.table, statement))?.kind === 'partitioned table';
  if (isParentAlone) return false;
  if (!action.ifNotExists || statement.exactness !== 'exact' || statement.locks === null) return true;
  return statement.locks.some(
    ({ mode, relation }) => mode === 'ACCESS EXCLUSIVE' && !context.relation(relation),
  );
}

/** Lists the columns of the relation that became NOT NULL, as they are shown. */
export function newlyNotNull({ facts }: HazardContext, relation: string): string[] {
  return facts.catalogue.definitions.notNull
    .filter((object) => withoutLastPart(object) === relation)
    .map(lastPart);
}

function indexName(name: string | null): string {
  return name === null ? 'an index' : displayName(name);
}
