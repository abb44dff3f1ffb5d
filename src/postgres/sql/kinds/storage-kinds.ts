import type * as Tree from 'libpg-query';
import type { NamedLock, ReleasedLock } from '../../../model/statement-actions.ts';
import type { RepackStmt } from '../newer-grammar.ts';
import { lockOn } from '../query-locks.ts';
import type { ProgressView, Reach, StatementKind, StatementTable } from '../statement-properties.ts';
import { hasOption, itemsOf, nameOf } from '../tree.ts';
import { reachOfRewrite, rewritingShared } from './cluster-objects.ts';

const heap = { done: 'heap_blks_scanned', total: 'heap_blks_total' } as const;
/** PostgreSQL 19 shows REPACK in it too, as VACUUM FULL or CLUSTER; pg_stat_progress_repack is missing before that. */
const COPIES_TABLE: ProgressView = { view: 'pg_stat_progress_cluster', ...heap };
export const BUILDS_INDEX: ProgressView = {
  view: 'pg_stat_progress_create_index',
  done: 'blocks_done',
  total: 'blocks_total',
};

/** Statements that rewrite relations, or look after their files. */
export const STORAGE_KINDS = {
  RefreshMatViewStmt: {
    name: 'REFRESH MATERIALIZED VIEW',
    effect: 'rows',
    reach: 'database',
    concurrent: {
      says: ({ concurrent }) => concurrent === true,
      failure: 'nothing in its way',
      behind: ({ skipData }) => (skipData ? undefined : 'VIEW'),
    },
    actions: ({ relation, concurrent = false }) => [
      { does: 'refresh', view: nameOf(relation), concurrently: concurrent },
    ],
    locks: ({ relation, concurrent }) => lockOn(relation, concurrent ? 'EXCLUSIVE' : 'ACCESS EXCLUSIVE'),
  },
  VacuumStmt: {
    name: 'VACUUM or ANALYZE',
    words: ['VACUUM', 'ANALYZE', 'ANALYSE'],
    effect: 'none',
    reach: ofVacuum,
    // ANALYZE of one table is the same in a block; of many it holds their locks until the end.
    inBlock: ({ is_vacuumcmd: isVacuum, rels }) =>
      isVacuum ? 'refused' : rels?.length === 1 ? 'same' : 'differs',
    actions: ({ rels, options }) => [
      {
        does: 'vacuum',
        full: hasOption(options, 'full'),
        tables: vacuumed(rels).map(nameOf),
      },
    ],
    locks: ({ rels }) => vacuumed(rels).flatMap((relation) => lockOn(relation, 'SHARE UPDATE EXCLUSIVE')),
    releases: ({ rels, options, is_vacuumcmd: isVacuum }) =>
      vacuumed(rels).flatMap((relation) =>
        isVacuum ? releasedByVacuum(relation, hasOption(options, 'full')) : releasedByAnalyze(relation),
      ),
    progress: [
      { view: 'pg_stat_progress_vacuum', command: "'VACUUM'", ...heap },
      {
        view: 'pg_stat_progress_analyze',
        command: "'ANALYZE'",
        done: 'sample_blks_scanned',
        total: 'sample_blks_total',
      },
      COPIES_TABLE,
    ],
  },
  // The server refuses that of a partitioned table too.
  ClusterStmt: {
    name: 'CLUSTER',
    effect: 'storage',
    reach: 'database',
    inBlock: ({ relation }) => (relation ? 'same' : 'refused'),
    actions: ({ relation }) => [{ does: 'cluster', table: relation ? nameOf(relation) : null }],
    locks: clustering,
    releases: (fields) => ifPartitioned(clustering(fields)),
    progress: [COPIES_TABLE],
  },
  RepackStmt: {
    name: 'REPACK',
    effect: 'storage',
    reach: ofRepack,
    // The server refuses that of a partitioned table too.
    inBlock: (fields) =>
      tableOf(fields) && !isConcurrent(fields) && !isAnalyzed(fields) ? 'same' : 'refused',
    concurrent: { says: isConcurrent, failure: 'nothing in its way' },
    actions: (fields) => [
      {
        does: 'repack',
        table: tableOf(fields) ? nameOf(tableOf(fields)) : null,
        ordered: fields.usingindex === true,
        concurrently: isConcurrent(fields),
      },
    ],
    locks: repacking,
    releases: releasedByRepack,
    progress: [COPIES_TABLE],
  },
  ReindexStmt: {
    name: 'REINDEX',
    effect: 'storage',
    reach: ofReindex,
    // The server refuses those of a partitioned table or index too.
    inBlock: ({ kind, params }) =>
      (kind === 'REINDEX_OBJECT_TABLE' || kind === 'REINDEX_OBJECT_INDEX') &&
      !hasOption(params, 'concurrently')
        ? 'same'
        : 'refused',
    concurrent: {
      says: ({ params }) => hasOption(params, 'concurrently'),
      failure: 'another meaning',
      behind: ({ kind }) =>
        kind === 'REINDEX_OBJECT_SYSTEM' ? undefined : kind?.replace('REINDEX_OBJECT_', ''),
    },
    actions: ({ kind = '', relation, params }) => [
      {
        does: 'reindex',
        kind: kind.replace('REINDEX_OBJECT_', '').toLowerCase(),
        object: relation ? nameOf(relation) : null,
        concurrently: hasOption(params, 'concurrently'),
      },
    ],
    locks: reindexing,
    releases: (fields) =>
      hasOption(fields.params, 'concurrently')
        ? [
            ...lockOn(fields.relation, 'SHARE UPDATE EXCLUSIVE').flatMap((lock) => replacing(lock, 'too')),
            // ReindexPartitions() locks the partitions in this mode to list them.
            ...lockOn(fields.relation, 'SHARE').map((lock) => ({ ...lock, partitions: 'alone' as const })),
          ]
        : ifPartitioned(reindexing(fields)),
    progress: [BUILDS_INDEX],
  },
} satisfies Partial<StatementTable<StatementKind>>;

/**
 * Returns the locks of a table whose indexes are replaced or dropped concurrently, or of such an index: by ReindexRelationConcurrently()
 * and index_drop() the old index goes at the end.
 */
export function replacing(
  { relation, mode }: NamedLock,
  partitions?: ReleasedLock['partitions'],
): ReleasedLock[] {
  const which = partitions ? { partitions } : {};
  return [
    { relation, mode, ofTable: mode, ofIndexes: mode, ...which },
    {
      relation,
      mode: 'ACCESS EXCLUSIVE',
      indexesAlone: true,
      atEnd: true,
      blocksNobody: true,
      ...which,
    },
  ];
}

function ofVacuum({ rels, options }: Tree.VacuumStmt): Reach {
  if (!hasOption(options, 'full')) return 'database';
  const tables = vacuumed(rels).map(nameOf);
  return tables.length === 0
    ? rewritingShared('VACUUM FULL without a table')
    : reachOfRewrite('VACUUM FULL', tables);
}

function ofReindex({ kind, relation, name, params }: Tree.ReindexStmt): Reach {
  if (relation) return reachOfRewrite('REINDEX', [nameOf(relation)]);
  // Concurrently, no catalogues are rebuilt.
  if (hasOption(params, 'concurrently')) return 'database';
  if (kind === 'REINDEX_OBJECT_SYSTEM') return rewritingShared('REINDEX SYSTEM');
  // From PostgreSQL 16 on it leaves catalogues out, and may be written without a name.
  if (kind === 'REINDEX_OBJECT_DATABASE' && name) return rewritingShared('REINDEX DATABASE');
  const isOfCatalogues = name === 'pg_catalog' || name === 'pg_toast';
  return kind === 'REINDEX_OBJECT_SCHEMA' && isOfCatalogues
    ? rewritingShared(`REINDEX SCHEMA ${name}`)
    : 'database';
}

function reindexing({ relation, kind }: Tree.ReindexStmt): NamedLock[] {
  return kind === 'REINDEX_OBJECT_INDEX'
    ? lockOn(relation, 'ACCESS EXCLUSIVE', { ofTable: 'SHARE' })
    : lockOn(relation, 'SHARE', { ofIndexes: 'ACCESS EXCLUSIVE' });
}

/** cluster_multiple_rels() takes a partitioned table's partitions one by one. */
function clustering({ relation }: Tree.ClusterStmt): NamedLock[] {
  return lockOn(relation, 'ACCESS EXCLUSIVE', { ofIndexes: 'ACCESS EXCLUSIVE' });
}

function tableOf({ relation }: RepackStmt): Tree.RangeVar | undefined {
  return relation?.relation;
}

/** The table is analysed in a transaction of its own. */
function isAnalyzed({ params }: RepackStmt): boolean {
  return hasOption(params, 'analyze');
}

function isConcurrent({ params }: RepackStmt): boolean {
  return hasOption(params, 'concurrently');
}

function repacking(fields: RepackStmt): NamedLock[] {
  return isConcurrent(fields)
    ? lockOn(tableOf(fields), 'SHARE UPDATE EXCLUSIVE', { ofIndexes: 'SHARE UPDATE EXCLUSIVE' })
    : lockOn(tableOf(fields), 'ACCESS EXCLUSIVE', { ofIndexes: 'ACCESS EXCLUSIVE' });
}

function ofRepack(fields: RepackStmt): Reach {
  const table = tableOf(fields);
  if (isConcurrent(fields))
    return {
      beyond: 'cluster',
      what: 'REPACK (CONCURRENTLY)',
      why: 'its replication slot has the whole server write more WAL',
    };
  return table ? reachOfRewrite('REPACK', [nameOf(table)]) : rewritingShared('REPACK without a table');
}

/** rebuild_relation_finish_concurrent() takes the strongest lock once the copy has caught up. */
function releasedByRepack(fields: RepackStmt): ReleasedLock[] {
  if (!isConcurrent(fields))
    return isAnalyzed(fields)
      ? repacking(fields).map((lock) => ({ ...lock, partitions: 'too' as const }))
      : ifPartitioned(repacking(fields));
  const swapping = lockOn(tableOf(fields), 'ACCESS EXCLUSIVE', { ofIndexes: 'ACCESS EXCLUSIVE' });
  return [...repacking(fields), ...swapping.map((lock) => ({ ...lock, atEnd: true as const }))];
}

function ifPartitioned(locks: readonly NamedLock[]): ReleasedLock[] {
  return locks.map((lock) => ({ ...lock, partitions: 'if any' }));
}

function vacuumed(relations: Tree.Node[] | undefined): Tree.RangeVar[] {
  return itemsOf<Tree.VacuumRelation>(relations, 'VacuumRelation').flatMap(({ relation }) => relation ?? []);
}

/** The locks that vacuum_rel() takes. */
function releasedByVacuum(relation: Tree.RangeVar, isFull: boolean): ReleasedLock[] {
  const locks = isFull
    ? lockOn(relation, 'ACCESS EXCLUSIVE', { ofIndexes: 'ACCESS EXCLUSIVE' })
    : lockOn(relation, 'SHARE UPDATE EXCLUSIVE', { ofIndexes: 'ROW EXCLUSIVE' });
  return locks.map((lock) => ({ ...lock, partitions: 'too' }));
}

/** The sample of a partitioned table is taken from its partitions. */
function releasedByAnalyze(relation: Tree.RangeVar): ReleasedLock[] {
  return lockOn(relation, 'SHARE UPDATE EXCLUSIVE', { ofIndexes: 'ACCESS SHARE' }).flatMap((lock) => [
    { ...lock, partitions: 'too' },
    { relation: lock.relation, mode: 'ACCESS SHARE', partitions: 'alone' },
  ]);
}
