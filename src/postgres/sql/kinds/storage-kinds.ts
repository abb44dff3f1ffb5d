import type { StatementKind, StatementTable } from '../statement-properties.ts';
import { hasOption } from '../tree.ts';

/** Statements that write relations anew, or look after their files. */
export const STORAGE_KINDS = {
  RefreshMatViewStmt: {
    name: 'REFRESH MATERIALIZED VIEW',
    effect: 'rows',
    reach: 'database',
    concurrent: { says: ({ concurrent }) => concurrent === true, failure: 'nothing in its way' },
  },
  VacuumStmt: {
    name: 'VACUUM or ANALYZE',
    words: ['VACUUM', 'ANALYZE', 'ANALYSE'],
    effect: 'none',
    reach: 'database',
    // ANALYZE of one table is the same in a block; of many it holds their locks until the end.
    inBlock: ({ is_vacuumcmd: isVacuum, rels }) =>
      isVacuum ? 'refused' : rels?.length === 1 ? 'same' : 'differs',
  },
  // The server refuses that of a partitioned table too.
  ClusterStmt: {
    name: 'CLUSTER',
    effect: 'storage',
    reach: 'database',
    inBlock: ({ relation }) => (relation ? 'same' : 'refused'),
  },
  ReindexStmt: {
    name: 'REINDEX',
    effect: 'storage',
    reach: 'database',
    // The server refuses those of a partitioned table or index too.
    inBlock: ({ kind, params }) =>
      (kind === 'REINDEX_OBJECT_TABLE' || kind === 'REINDEX_OBJECT_INDEX') &&
      !hasOption(params, 'concurrently')
        ? 'same'
        : 'refused',
    concurrent: { says: ({ params }) => hasOption(params, 'concurrently'), failure: 'another meaning' },
  },
} satisfies Partial<StatementTable<StatementKind>>;
