import { displayName } from '../../postgres/sql/quote.ts';
import type { HazardContext, Met } from '../hazard-context.ts';
import {
  blocking,
  type HazardRecord,
  lockFinding,
  metOn,
  ownWords,
  sqlAdvice,
} from '../hazard-definition.ts';
import { bare, lastPart, sibling } from './names.ts';

/** Indexes that are built, dropped or filled while others are kept out. */
export const BUILDS: readonly HazardRecord[] = [
  blocking({
    code: 'INDEX_NOT_CONCURRENT',
    title: 'an index is built while writes wait',
    condition: 'CREATE INDEX without CONCURRENTLY on a table that was there before the command.',
    effect: 'SHARE is held on the table until the transaction ends: every INSERT, UPDATE and DELETE waits.',
    safer: 'CREATE INDEX CONCURRENTLY, outside a transaction; drop what a failed build leaves INVALID.',
    does: 'create index',
    when: (met) => !met.action.concurrently && isBuilt(met.ground, met),
    says: ({ action, relation }) => `writes to ${relation} wait while ${indexName(action.index)} is built`,
    advises: (met) =>
      met.ground.relation(met.relation)?.kind === 'partitioned table'
        ? sqlAdvice(
            'A partitioned table has no concurrent way of its own: build it on each partition, and attach those:',
            ownWords(met, (sql) => sql.replace(/\bON\b/i, 'ON ONLY')) ??
              `CREATE INDEX … ON ONLY ${met.relation} …`,
            'CREATE INDEX CONCURRENTLY … ON <partition> …',
            'ALTER INDEX … ATTACH PARTITION …',
          )
        : sqlAdvice(
            'Build it outside a transaction, and look for an INVALID index if that fails:',
            ownWords(met, (sql) => sql.replace(/\bINDEX\b/i, 'INDEX CONCURRENTLY')) ??
              `CREATE INDEX CONCURRENTLY … ON ${met.relation} …`,
          ),
  }),
  {
    code: 'DROP_INDEX_NOT_CONCURRENT',
    title: 'an index is dropped while reads and writes wait',
    condition: 'DROP INDEX without CONCURRENTLY on a table that was there before the command.',
    effect:
      'ACCESS EXCLUSIVE on the table: it waits for the oldest transaction there, and everybody waits behind it.',
    safer: 'DROP INDEX CONCURRENTLY, outside a transaction.',
    find: (ground) =>
      ground
        .met('drop')
        .filter(({ action }) => action.kind === 'index' && !action.concurrently)
        .flatMap(({ statement, action }) =>
          ground.taken(statement, 'reads').map(({ relation }) => {
            const names = action.objects.map(({ schema, name }) =>
              schema === null ? displayName(name) : displayName(schema, name),
            );
            return lockFinding(
              ground,
              statement,
              relation,
              `reads and writes of ${relation} wait while ${names.join(', ')} is dropped`,
              sqlAdvice(
                'Drop it outside a transaction:',
                ...names.map((name) => `DROP INDEX CONCURRENTLY ${name}`),
              ),
              true,
            );
          }),
        ),
  },
  {
    code: 'REINDEX_NOT_CONCURRENT',
    title: 'an index is rebuilt while writes wait',
    condition: 'REINDEX without CONCURRENTLY on a table that was there before the command.',
    effect:
      'SHARE on the table and ACCESS EXCLUSIVE on the index: writes wait, and so does every query that is planned anew.',
    safer: 'REINDEX (CONCURRENTLY), outside a transaction.',
    find: (ground) =>
      ground
        .met('reindex')
        .filter(({ action }) => !action.concurrently)
        .flatMap(({ statement, action }) =>
          ground
            .taken(statement, 'writes')
            .map(({ relation }) =>
              lockFinding(
                ground,
                statement,
                relation,
                `writes to ${relation} wait while its indexes are rebuilt`,
                sqlAdvice(
                  'Rebuild it outside a transaction:',
                  `REINDEX (CONCURRENTLY) ${action.kind.toUpperCase()} ${action.object ? displayName(...[action.object.schema, action.object.name].filter((part) => part !== null)) : '…'}`,
                ),
              ),
            ),
        ),
  },
  blocking({
    code: 'CONSTRAINT_BUILDS_INDEX',
    title: 'UNIQUE or PRIMARY KEY builds its index while reads and writes wait',
    condition: 'ADD UNIQUE or ADD PRIMARY KEY without USING INDEX on a table that was there before.',
    effect: 'ACCESS EXCLUSIVE is held on the table during the whole build.',
    safer: 'Build a unique index CONCURRENTLY first, then add the constraint USING INDEX.',
    does: 'add constraint',
    when: ({ action }) =>
      (action.kind === 'unique' || action.kind === 'primary key') && action.usingIndex === null,
    says: ({ action, relation }) =>
      `reads and writes of ${relation} wait while the index of its ${action.kind === 'unique' ? 'UNIQUE constraint' : 'PRIMARY KEY'} is built`,
    advises: ({ action, relation }) => {
      const suffix = action.kind === 'unique' ? 'key' : 'pkey';
      const name =
        action.constraint ?? [bare(relation), ...(suffix === 'key' ? action.columns : []), suffix].join('_');
      const columns = action.columns.map((column) => displayName(column)).join(', ');
      const kind = action.kind === 'unique' ? 'UNIQUE' : 'PRIMARY KEY';
      return sqlAdvice(
        `Build the index first, outside a transaction${action.kind === 'unique' ? '' : ', and see that the columns are NOT NULL'}:`,
        `CREATE UNIQUE INDEX CONCURRENTLY ${displayName(name)} ON ${relation} (${columns})`,
        `ALTER TABLE ${relation} ADD CONSTRAINT ${displayName(name)} ${kind} USING INDEX ${displayName(name)}`,
      );
    },
  }),
  {
    code: 'PRIMARY_KEY_SETS_NOT_NULL',
    title: 'PRIMARY KEY USING INDEX reads the whole table for NULLs',
    condition:
      'ADD PRIMARY KEY USING INDEX makes columns NOT NULL that were not, without a validated CHECK that proves it.',
    effect: 'The index is there, but the whole table is read under ACCESS EXCLUSIVE.',
    safer: 'Make the columns NOT NULL first, by way of a validated CHECK (column IS NOT NULL).',
    find: (ground) =>
      metOn(ground, 'add constraint')
        .filter(({ action }) => action.kind === 'primary key' && action.usingIndex !== null)
        .flatMap(({ statement, relation }) =>
          newlyNotNull(ground.facts.schema, relation)
            .filter((column) =>
              ground.met('set not null').every((met) => displayName(met.action.column) !== column),
            )
            .map((column) =>
              lockFinding(
                ground,
                statement,
                relation,
                `the whole of ${relation} is read, because ${column} was not NOT NULL before it became the primary key`,
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
    condition: 'ADD EXCLUDE on a table that was there before the command.',
    effect: 'ACCESS EXCLUSIVE during the whole build; there is no concurrent way.',
    safer:
      'Put it on a new table that is filled meanwhile and swapped in by a rename, or add it in a window without traffic.',
    does: 'add constraint',
    when: ({ action }) => action.kind === 'exclude',
    says: ({ relation }) =>
      `reads and writes of ${relation} wait while the index of its EXCLUDE constraint is built`,
    advises: ({ relation }) =>
      sqlAdvice(
        'No concurrent way exists. Put the constraint on a copy that is filled while the old table is in use, and swap their names:',
        `CREATE TABLE ${sibling(relation, '_new')} (LIKE ${relation} INCLUDING ALL)`,
      ),
  }),
];

/** IF NOT EXISTS that finds an index builds none: a new one is locked by the statement that makes it. */
export function isBuilt(ground: HazardContext, { statement, action }: Met<'create index'>): boolean {
  if (!action.ifNotExists || statement.exactness !== 'exact' || statement.locks === null) return true;
  return statement.locks.some(
    ({ mode, relation }) => mode === 'ACCESS EXCLUSIVE' && !ground.relation(relation),
  );
}

/** Columns of the relation that the schema comparison found to have become NOT NULL, as they are shown. */
function newlyNotNull(
  schema: { readonly changes: readonly { kind: string; object: string; sql: string }[] } | null,
  relation: string,
): string[] {
  return (schema?.changes ?? [])
    .filter(({ object, sql }) => object.startsWith(`${relation}.`) && / SET NOT NULL\b/.test(sql))
    .map(({ object }) => lastPart(object));
}

/** Leads to NOT NULL without reading the table under a lock that keeps anybody out. `column` is as it is shown. */
export function notNullSteps(relation: string, column: string): string[] {
  const name = displayName(`${bare(relation)}_${column.replaceAll('"', '')}_not_null`);
  return [
    `ALTER TABLE ${relation} ADD CONSTRAINT ${name} CHECK (${column} IS NOT NULL) NOT VALID`,
    `ALTER TABLE ${relation} VALIDATE CONSTRAINT ${name}`,
    `ALTER TABLE ${relation} ALTER COLUMN ${column} SET NOT NULL`,
    `ALTER TABLE ${relation} DROP CONSTRAINT ${name}`,
  ];
}

function indexName(name: string | null): string {
  return name === null ? 'an index' : displayName(name);
}
