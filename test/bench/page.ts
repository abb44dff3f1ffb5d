/** What docs/benchmarks.md shows, and the code that each figure is about. */
export interface PageSection {
  readonly heading: string;
  readonly tables: readonly PageTable[];
}

export interface PageTable {
  /** The benchmark or soak test that records it. */
  readonly file: string;
  /** Titles that begin so are shown. */
  readonly title: string;
  /** Folders and files below src whose changes make the figure outdated. */
  readonly code: readonly string[];
}

const ONLINE = ['swap/online', 'swap/fence.ts', 'swap/rename.ts', 'swap/pgbouncer.ts'];
const PAUSES = '20 ms between the transactions of a client, with the longest of them';
const CLUSTER = ['clone/cluster', 'clone/private'];
const WRAPPER = ['command', 'proxy', 'rehearsal'];

export const PAGE: readonly PageSection[] = [
  {
    heading: 'Clones',
    tables: [
      {
        file: 'neighbours.bench.ts',
        title: '1.5 GB beside 140 databases of 300 files, quiet',
        code: CLUSTER,
      },
      {
        file: 'volumes.bench.ts',
        title: 'btrfs, ready by size: the data directory is a volume',
        code: CLUSTER,
      },
    ],
  },
  {
    heading: 'What a rehearsal adds',
    tables: [
      { file: 'rehearse.bench.ts', title: 'a rehearsal on a small schema', code: WRAPPER },
      {
        file: 'proxy.bench.ts',
        title: '5000 INSERTs, simple, fsync on',
        code: ['proxy', 'postgres/protocol'],
      },
      { file: 'sandbox.bench.ts', title: '', code: ['command'] },
    ],
  },
  {
    heading: 'Memory',
    tables: [{ file: 'bulk.test.ts', title: '', code: ['proxy', 'observe/statement-store.ts'] }],
  },
  {
    heading: 'Locks by name',
    tables: [
      {
        file: 'lock-names.test.ts',
        title: 'names of locks held until the end of a transaction, PostgreSQL 19',
        code: [
          'observe/locks.ts',
          'observe/locks-by-rule.ts',
          'observe/locks-in-bodies.ts',
          'postgres/lock-modes.ts',
        ],
      },
    ],
  },
  {
    heading: 'Hazards found',
    tables: [
      {
        file: 'unseen.test.ts',
        title: 'Examples that were written without a look at the rules',
        code: ['hazards', 'observe'],
      },
      {
        file: 'public-projects.test.ts',
        title: 'hazards in the migrations of public-projects',
        code: ['hazards', 'observe'],
      },
    ],
  },
  {
    heading: 'Swaps',
    tables: [
      { file: 'online-swap.bench.ts', title: 'the type of a column of 5 GB', code: ONLINE },
      { file: 'online-fence.bench.ts', title: 'a target of 100 MB', code: ONLINE },
      {
        file: 'online-swap.test.ts',
        title: `online swaps under load, ${PAUSES}, PostgreSQL 19`,
        code: ONLINE,
      },
      {
        file: 'online-swap.test.ts',
        title: `online swaps behind PgBouncer, ${PAUSES}, PostgreSQL 19`,
        code: ONLINE,
      },
      { file: 'online-swap.test.ts', title: 'time from the kill -9', code: ONLINE },
    ],
  },
  {
    heading: 'Upgrades',
    tables: [{ file: 'upgrade.bench.ts', title: 'PostgreSQL 18 to 19', code: ['upgrade'] }],
  },
  {
    heading: 'Load',
    tables: [
      {
        file: 'load.test.ts',
        title: 'Share of the processors',
        code: ['load/record-shapes.ts', 'load/seen-transactions.ts'],
      },
      { file: 'load.test.ts', title: 'Waiting on the clone under load', code: ['load'] },
    ],
  },
];
