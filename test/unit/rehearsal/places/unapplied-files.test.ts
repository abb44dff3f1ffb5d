import { describe, expect, test } from 'vitest';
import { HISTORY_TABLES } from '../../../../src/rehearsal/places/history-tables.ts';
import { missingFrom } from '../../../../src/rehearsal/places/unapplied-files.ts';

/** Files by their paths, which have texts where a tool reads them. */
type Files = readonly string[] | Readonly<Record<string, string>>;

async function missing(tool: string, recorded: readonly string[], files: Files): Promise<string[]> {
  const history = HISTORY_TABLES.find((each) => each.tool === tool);
  if (!history) throw new Error(`no row for ${tool}`);
  const texts: Readonly<Record<string, string>> = Array.isArray(files)
    ? {}
    : (files as Record<string, string>);
  const names = Array.isArray(files) ? (files as string[]) : Object.keys(texts);
  const keys = new Set(recorded.map(history.keyOf ?? ((text) => text)));
  const found = await missingFrom(history, keys, names, async (file) => texts[file] ?? '');
  return found.map(({ file, why }) => `${why}: ${file}`);
}

interface Case {
  readonly tool: string;
  readonly recorded: readonly string[];
  /** Of these all but those below are recorded. */
  readonly files: Files;
  readonly told: readonly string[];
}

const CASES: readonly Case[] = [
  {
    tool: 'Prisma',
    recorded: ['20260105_catalogue', '20260112_import'],
    files: ['20260105_catalogue', '20260106_orders', '20260112_import', '20260120_paid'].map(
      (name) => `apps/api/prisma/migrations/${name}/migration.sql`,
    ),
    told: [
      'passed over: apps/api/prisma/migrations/20260106_orders/migration.sql',
      'pending: apps/api/prisma/migrations/20260120_paid/migration.sql',
    ],
  },
  {
    tool: 'Drizzle',
    recorded: ['1000', '3000'],
    files: {
      'drizzle/0000_catalogue.sql': '',
      'drizzle/0001_orders.sql': '',
      'drizzle/0002_import.sql': '',
      'drizzle/0003_by_hand.sql': '',
      'drizzle/meta/_journal.json': JSON.stringify({
        entries: [
          { tag: '0000_catalogue', when: 1000 },
          { tag: '0002_import', when: 3000 },
          { tag: '0001_orders', when: 2000 },
        ],
      }),
      'other/0001_seed.sql': '',
    },
    told: ['passed over: drizzle/0001_orders.sql', 'ignored: drizzle/0003_by_hand.sql'],
  },
  {
    tool: 'Flyway',
    recorded: ['V1__catalogue.sql', 'R__views.sql', 'V2__orders.sql', 'later/V10__import.sql'],
    files: [
      ...['V1__catalogue.sql', 'V2__orders.sql', 'V3_price.sql', 'V9__paid.sql', 'V10__import.sql'],
      ...['R__views.sql', 'U2__orders.sql', 'v11__open.sql'],
    ].map((name) => `src/main/resources/db/migration/${name}`),
    told: [
      'ignored: src/main/resources/db/migration/V3_price.sql',
      'passed over: src/main/resources/db/migration/V9__paid.sql',
      'ignored: src/main/resources/db/migration/v11__open.sql',
    ],
  },
  {
    tool: 'Rails',
    recorded: ['1', '20260105090000', '20260112090000'],
    files: [
      ...['001_first.rb', '20260105090000_orders.rb', '20260106090000-total.rb'],
      ...['20260108090000_paid.rb', '20260112090000_import.rb'],
    ].map((name) => `db/migrate/${name}`),
    told: ['ignored: db/migrate/20260106090000-total.rb', 'passed over: db/migrate/20260108090000_paid.rb'],
  },
  {
    tool: 'dbmate',
    recorded: ['20260105', '20260106'],
    files: ['db/migrations/20260105_a.sql', 'db/migrations/20260106_b.sql', 'db/migrations/20260106_c.sql'],
    told: ['same version: db/migrations/20260106_b.sql', 'same version: db/migrations/20260106_c.sql'],
  },
  {
    tool: 'golang-migrate',
    recorded: ['2'],
    files: ['000001_a', '000002_b', '000003_c'].flatMap((name) => [
      `migrations/${name}.up.sql`,
      `migrations/${name}.down.sql`,
    ]),
    told: ['pending: migrations/000003_c.up.sql'],
  },
  {
    tool: 'goose',
    recorded: ['0', '1', '3'],
    files: ['db/00001_a.sql', 'db/00002_b.go', 'db/00003_c.sql', 'db/00003_c_test.go', 'seeds/00002_s.sql'],
    told: ['passed over: db/00002_b.go'],
  },
  {
    tool: 'sqlx',
    recorded: ['1', '3'],
    files: ['migrations/1_a.sql', 'migrations/2_b.up.sql', 'migrations/2_b.down.sql', 'migrations/3_c.sql'],
    told: ['passed over: migrations/2_b.up.sql'],
  },
  {
    tool: 'Knex',
    recorded: ['20260105_a.js', '20260112_c.js'],
    files: [
      ...['20260105_a.ts', '20260106_b.ts', '20260112_c.ts', '20260113_d.ts', 'helpers.ts'],
      '20260106_b.d.ts',
    ].map((name) => `migrations/${name}`),
    told: ['passed over: migrations/20260106_b.ts', 'pending: migrations/20260113_d.ts'],
  },
  {
    tool: 'node-pg-migrate',
    recorded: ['1767603600000_a', '1768208400000_c'],
    files: [
      'migrations/1767603600000_a.js',
      'migrations/1767690000000_b.sql',
      'migrations/1768208400000_c.sql',
    ],
    told: ['passed over: migrations/1767690000000_b.sql'],
  },
  {
    tool: 'Sequelize',
    recorded: ['20260105-a.js', '20260112-c.js'],
    files: ['migrations/20260105-a.js', 'migrations/20260106-b.js', 'migrations/20260112-c.js'],
    told: ['passed over: migrations/20260106-b.js'],
  },
  {
    tool: 'TypeORM',
    recorded: ['Catalogue1767603600000'],
    files: ['src/migrations/1767603600000-catalogue.ts', 'src/migrations/1767690000000-orders.ts'],
    told: ['pending: src/migrations/1767690000000-orders.ts'],
  },
];

describe('files that a history table lacks', () => {
  test.each(CASES)('of $tool', async ({ tool, recorded, files, told }) => {
    expect(await missing(tool, recorded, files)).toEqual(told);
  });

  test.each(HISTORY_TABLES.filter(({ file }) => file))(
    'are not told of a folder in which $tool has recorded none',
    async ({ tool }) => {
      const { files = [] } = CASES.find((each) => each.tool === tool) ?? {};
      expect(await missing(tool, ['another', '99999'], files)).toEqual([]);
    },
  );

  test('are not told if they come before the first recorded one, as before a baseline', async () => {
    const files = ['V1__a.sql', 'V2__b.sql', 'V3__c.sql', 'V4__d.sql'];
    expect(await missing('Flyway', ['<< Flyway Baseline >>', 'V3__c.sql', 'V4__d.sql'], files)).toEqual([]);
  });

  test('are not told if a setting beside them switches them off', async () => {
    const files = {
      'V1__a.sql': '',
      'V2__b.sql': '',
      'V3__c.sql': '',
      'V2__b.sql.conf': 'shouldExecute=false',
    };
    expect(await missing('Flyway', ['V1__a.sql', 'V3__c.sql'], files)).toEqual([]);
  });
});

describe('revisions of Alembic', () => {
  const revision = (key: string, after: string | null, more = '') =>
    `revision: str = "${key}"\ndown_revision: Union[str, None] = ${after === null ? 'None' : `'${after}'`}\nbranch_labels = None\n${more}`;
  const at = (files: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(files).map(([name, text]) => [`alembic/versions/${name}.py`, text]));
  const chain = { a: revision('a1', null), b: revision('b2', 'a1'), c: revision('c3', 'b2') };

  test('are applied with the last one, and those after it are pending', async () => {
    expect(await missing('Alembic', ['c3'], at(chain))).toEqual([]);
    expect(await missing('Alembic', ['b2'], at(chain))).toEqual(['pending: alembic/versions/c.py']);
  });

  test('are passed over on a second head', async () => {
    const files = at({ ...chain, other: revision('d4', 'a1') });
    expect(await missing('Alembic', ['c3'], files)).toEqual(['passed over: alembic/versions/other.py']);
    expect(await missing('Alembic', ['c3', 'd4'], files)).toEqual([]);
    const merged = {
      ...files,
      ...at({ merge: chain.c.replace('c3', 'm5').replace("'b2'", "('c3', 'd4')") }),
    };
    expect(await missing('Alembic', ['m5'], merged)).toEqual([]);
  });

  test('are not judged on branches that have names, or begin by themselves', async () => {
    const named = revision('d4', 'a1').replace('branch_labels = None', "branch_labels = ('shop',)");
    expect(await missing('Alembic', ['c3'], at({ ...chain, named }))).toEqual([]);
    expect(await missing('Alembic', ['c3'], at({ ...chain, apart: revision('d4', null) }))).toEqual([]);
  });
});
