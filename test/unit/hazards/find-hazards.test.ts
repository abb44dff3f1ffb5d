import { describe, expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import type { DroppedFacts, HazardFacts } from '../../../src/model/hazard-facts.ts';
import type { Hazard, SchemaChange } from '../../../src/model/report.ts';
import type { Action, ActionOf, StatementFacts } from '../../../src/model/statement-actions.ts';
import type { LockMode } from '../../../src/postgres/lock-modes.ts';
import { asking, facts, relation, schema, serverError, statement } from '../../helpers/facts.ts';

const MB = 2 ** 20;
const GB = 2 ** 30;
const ORDERS = { schema: null, name: 'orders' };
const DUPLICATE = { detail: 'Key (status)=(open) is duplicated.', schema: 'public', table: 'orders' };

describe('a definition that differs in every run', () => {
  const create = 'CREATE TABLE x_5f1c2e (id int)';
  const varying = (sql: string, more: Partial<StatementFacts>, rerun: readonly string[] | null) =>
    findHazards(
      facts({
        statements: [statement(1, { sql })],
        parsed: new Map([[1, { actions: [], effect: 'schema', ...more }]]),
        rerun: rerun && { statements: rerun.map((text) => ({ sql: text })) },
      }),
    ).filter(({ code }) => code === 'DIFFERS_EVERY_RUN');

  test.each([
    ['a definition', 'CREATE TABLE t_139872714632064 (id int)', 1],
    ['no savepoint', 'SAVEPOINT "s139872714632064_x1"', 0],
    ['no end of one', 'RELEASE SAVEPOINT "s139872714632064_x1"', 0],
  ])('is %s with an address of the process in its name', (_what, sql, count) => {
    const actions: Action[] = [{ does: 'vary', value: '139872714632064', as: 'address' }];
    expect(varying(sql, { actions }, null)).toHaveLength(count);
  });

  test.each([
    ['a name that counts on', 'CREATE TABLE part_9 ()', 'CREATE TABLE part_10 ()', 'notice'],
    ['a time', 'CREATE TABLE t_1764000000 ()', 'CREATE TABLE t_1764000002 ()', 'warning'],
    ['code', "DO $$ begin perform 'a5f3'; end $$", "DO $$ begin perform 'c40e'; end $$", 'warning'],
    ['a value', "ALTER TYPE e ADD VALUE 'a5f3'", "ALTER TYPE e ADD VALUE 'c40e'", 'warning'],
  ])('is found if --rerun sent %s', (_what, sql, other, severity) => {
    expect(varying(sql, {}, [other])).toMatchObject([{ severity }]);
  });

  test.each([
    ['a default', "ALTER TABLE t ALTER c SET DEFAULT 'a5f3'", "ALTER TABLE t ALTER c SET DEFAULT 'c40e'", {}],
    ['a temporary table', 'CREATE TEMP TABLE t_a5f3 ()', 'CREATE TEMP TABLE t_c40e ()', { local: true }],
  ])('is not found if --rerun sent another one of %s, which an apply lets through', (_, sql, other, more) => {
    expect(varying(sql, more, [other])).toEqual([]);
  });

  test('is found by its random name, unless --rerun has sent that again', () => {
    const named = (rerun: readonly string[] | null) =>
      varying(create, { actions: [{ does: 'vary', value: '5f1c2e', as: 'UUID' }] }, rerun);
    expect(named(null)).toMatchObject([{ severity: 'warning' }]);
    expect(named([create])).toEqual([]);
  });
});

describe('the severity of a lock', () => {
  const retyping = (sizeBytes: number, heldMs: number, traffic: HazardFacts['traffic'] = null) =>
    only(
      findHazards(
        facts({
          statements: [
            statement(1, {
              tag: 'ALTER TABLE',
              durationMs: heldMs,
              rewrote: ['public.orders'],
              locks: [['public.orders', 'ACCESS EXCLUSIVE', heldMs]],
            }),
          ],
          parsed: asking({
            1: { does: 'alter type', table: ORDERS, column: 'id', type: 'int8', conversion: 'assignment' },
          }),
          catalogue: { relations: new Map([['public.orders', relation(sizeBytes, 1)]]) },
          traffic,
        }),
      ),
      'TYPE_CHANGE_REWRITES',
    );
  const busy = new Map([['public.orders', { readsPerSecond: 400, writesPerSecond: 20 }]]);
  const quiet = new Map([['public.orders', { readsPerSecond: 0, writesPerSecond: 0 }]]);

  test.each([
    ['a notice on an empty table', 0, 3, null, 'notice'],
    ['a warning from 100 MB on', 100 * MB, 3, null, 'warning'],
    ['a warning if it is held for a second', 0, 1_000, null, 'warning'],
    ['an error from 10 GB on', 10 * GB, 3, null, 'error'],
    ['an error if it is held for ten seconds', 0, 10_000, null, 'error'],
    ['an error if hundreds of statements would wait', 0, 500, busy, 'error'],
    ['a warning if some would wait', 0, 20, busy, 'warning'],
    ['no less severe if nobody came while the target was sampled', 50 * GB, 3, quiet, 'error'],
  ] as const)('a lock is %s', (_, sizeBytes, heldMs, traffic, severity) => {
    expect(retyping(sizeBytes, heldMs, traffic).severity).toBe(severity);
  });

  test.each([
    [0, 600, null, 'notice', undefined],
    [0, 900, null, 'notice', 'a warning'],
    [0, 1_200, null, 'warning', 'a notice'],
    [100 * MB, 900, null, 'warning', undefined],
    [100 * MB, 9_000, null, 'warning', 'an error'],
    [0, 12_000, null, 'error', 'a warning'],
    [10 * GB, 9_000, null, 'error', undefined],
    [0, 200, busy, 'warning', 'an error'],
  ] as const)(
    'a time near a limit is told with what another run may find: %i bytes, %i ms',
    (sizeBytes, heldMs, traffic, severity, other) => {
      const found = retyping(sizeBytes, heldMs, traffic);
      expect(found.severity).toBe(severity);
      expect(/; near a limit: another run may find (.*)$/.exec(found.evidence)?.[1]).toBe(other);
    },
  );

  test('a blocking hazard comes with evidence and with SQL of the actual names', () => {
    const { evidence, advice, relation } = retyping(18 * GB, 4_200, busy);
    expect(relation).toBe('public.orders');
    expect(evidence).toBe(
      'ACCESS EXCLUSIVE on public.orders for 4.2 s (18 GB, rewritten, about 1,680 statements would wait)',
    );
    expect(advice.split('\n')[1]).toBe('ALTER TABLE public.orders ADD COLUMN id_new int8;');
  });

  test('the severity of a lock counts only the statements that its mode blocks', () => {
    const indexing = (readsPerSecond: number, writesPerSecond: number) =>
      only(
        findHazards(
          facts({
            statements: [statement(1, { tag: 'CREATE INDEX', locks: [['public.orders', 'SHARE', 900]] })],
            parsed: asking({ 1: creatingIndex }),
            catalogue: { relations: new Map([['public.orders', relation(MB, 1)]]) },
            traffic: new Map([['public.orders', { readsPerSecond, writesPerSecond }]]),
          }),
        ),
        'INDEX_NOT_CONCURRENT',
      ).severity;
    expect(indexing(10_000, 0)).toBe('notice');
    expect(indexing(0, 10_000)).toBe('error');
  });
});

test('a table that the command created itself is no hazard', () => {
  const found = findHazards(
    facts({
      statements: [
        statement(1, { tag: 'CREATE INDEX', locks: [['public.orders', 'SHARE', 60_000]] }),
        statement(2, {
          tag: 'ALTER TABLE',
          rewrote: ['public.orders'],
          locks: [['public.orders', 'ACCESS EXCLUSIVE', 60_000]],
        }),
        statement(3, { tag: 'UPDATE', rows: 1_000_000, locks: [['public.orders', 'ROW EXCLUSIVE', 60_000]] }),
      ],
      parsed: asking({
        1: creatingIndex,
        2: { does: 'alter type', table: ORDERS, column: 'id', type: 'int8', conversion: 'assignment' },
        3: { does: 'update', table: ORDERS },
      }),
    }),
  );
  expect(found).toEqual([]);
});

describe('a dropped table', () => {
  const dropping = (rows: number, traffic: HazardFacts['traffic'] = null) =>
    only(
      findHazards(
        facts({
          schema: schema({
            changes: [{ verb: 'drop', kind: 'table', object: 'public.orders', sql: '', dataLoss: true }],
          }),
          catalogue: { relations: new Map([['public.orders', relation(MB, rows)]]) },
          traffic,
        }),
      ),
      'TABLE_DROPPED',
    ).severity;

  test('a dropped table is a notice if it is empty, a warning with few rows, an error with many or if it is used', () => {
    expect(dropping(0)).toBe('notice');
    expect(dropping(12)).toBe('warning');
    expect(dropping(1_000)).toBe('error');
    expect(dropping(12, new Map([['public.orders', { readsPerSecond: 3, writesPerSecond: 0 }]]))).toBe(
      'error',
    );
  });
});

test('a dropped column says how many rows had a value', () => {
  const { evidence, severity } = only(
    findHazards(
      facts({
        schema: schema({
          changes: [
            { verb: 'drop', kind: 'column', object: 'public.users.legacy_email', sql: '', dataLoss: true },
          ],
        }),
        data: {
          tables: [],
          unchangedTables: 0,
          written: [],
          lost: [
            {
              object: 'public.users.legacy_email',
              kind: 'column',
              what: 'dropped',
              rows: 1_250_000,
              rowsWithValue: 1_203_442,
              rowsChanged: null,
              exact: true,
            },
          ],
          walBytes: null,
          sizeDeltaBytes: null,
        },
        catalogue: { relations: new Map([['public.users', relation(MB, 1_250_000)]]) },
      }),
    ),
    'COLUMN_DROPPED',
  );
  expect(evidence).toBe('1,203,442 of 1,250,000 rows had a value');
  expect(severity).toBe('error');
});

test('a table whose name a view takes is dropped, and its columns are not named', () => {
  const found = findHazards(
    facts({
      schema: schema({
        changes: [
          { ...change('drop', 'table', 'public.users'), dataLoss: true },
          { ...change('drop', 'column', 'public.users.email'), dataLoss: true },
          change('create', 'view', 'public.users'),
        ],
      }),
      catalogue: { relations: new Map([['public.users', relation(MB, 10)]]) },
    }),
  );
  expect(found.map(({ code }) => code)).toEqual(['TABLE_DROPPED']);
});

describe('without a lock_timeout', () => {
  const codes = (given: {
    before?: Action;
    local?: boolean;
    byDefault?: boolean;
    atStart?: boolean;
    sameTransaction?: boolean;
  }) =>
    findHazards(
      facts({
        statements: [
          statement(1, { tag: 'SET', transaction: 1 }),
          statement(2, {
            tag: 'ALTER TABLE',
            transaction: given.sameTransaction ? 1 : 2,
            locks: [['public.orders', 'ACCESS EXCLUSIVE', 1]],
          }),
        ],
        sessionsWithLockTimeout: new Set(given.atStart ? [1] : []),
        parsed: asking({ ...(given.before ? { 1: given.before } : {}), 2: [] }),
        catalogue: {
          relations: new Map([['public.orders', relation(MB, 1)]]),
          lockTimeoutByDefault: given.byDefault ?? false,
          actsOnServer: [],
        },
      }),
    ).map(({ code }) => code);
  const setting = (off: boolean, local: boolean): Action => ({ does: 'set lock_timeout', off, local });

  test('a strong lock without lock_timeout is found', () => {
    expect(codes({})).toEqual(['NO_LOCK_TIMEOUT']);
    expect(codes({ byDefault: true, before: setting(true, false) })).toEqual(['NO_LOCK_TIMEOUT']);
    expect(codes({ before: setting(false, true) })).toEqual(['NO_LOCK_TIMEOUT']);
  });

  test('a strong lock is not found if the session, its transaction, its role or its database has a lock_timeout', () => {
    expect(codes({ before: setting(false, false) })).toEqual([]);
    expect(codes({ before: setting(false, true), sameTransaction: true })).toEqual([]);
    expect(codes({ byDefault: true })).toEqual([]);
    expect(codes({ atStart: true })).toEqual([]);
  });
});

describe('an index that is left INVALID', () => {
  const severity = (preexisting: boolean) =>
    findHazards(
      facts({
        schema: schema({
          leftovers: [{ kind: 'invalid index', object: 'public.orders_status_idx', preexisting }],
        }),
      }),
    ).map((hazard) => hazard.severity);

  test('an index that the command leaves INVALID is an error', () => {
    expect(severity(false)).toEqual(['error']);
  });

  test('an INVALID index that existed before the command is no hazard', () => {
    expect(severity(true)).toEqual([]);
  });
});

test('a failed statement is an error if the exit code hides it', () => {
  const severity = (exitCode: number) =>
    only(
      findHazards(
        facts({
          command: { exitCode },
          statements: [statement(1, { error: serverError('23505', DUPLICATE) })],
          parsed: asking({ 1: { ...creatingIndex, unique: true } }),
          catalogue: { relations: new Map([['public.orders', relation(MB, 1)]]) },
        }),
      ),
      'UNIQUE_OVER_DUPLICATES',
    ).severity;
  expect(severity(0)).toBe('error');
  expect(severity(1)).toBe('warning');
});

test('a new column without values fails once, though it is a new key too', () => {
  const found = findHazards(
    facts({
      command: { exitCode: 1 },
      statements: [statement(1, { error: serverError('23502', DUPLICATE) })],
      parsed: new Map([
        [
          1,
          {
            actions: [
              { ...addingColumn, notNull: true },
              { ...addingConstraint, kind: 'primary key', columns: ['number'] },
            ],
            effect: 'schema',
          },
        ],
      ]),
      catalogue: { relations: new Map([['public.orders', relation(MB, 1)]]) },
    }),
  );
  expect(found.map(({ code }) => code)).toEqual(['NOT_NULL_WITHOUT_DEFAULT']);
});

test('a FOREIGN KEY to a table that the command made says nothing of writes there', () => {
  const references = { schema: null, name: 'made' };
  const { message } = only(
    findHazards(
      facts({
        statements: [statement(1, { locks: [['public.orders', 'SHARE ROW EXCLUSIVE', 5]] })],
        parsed: asking({ 1: { ...addingConstraint, kind: 'foreign key', references } }),
        catalogue: { relations: new Map([['public.orders', relation(MB, 1)]]) },
      }),
    ),
    'FOREIGN_KEY_SCANS_TABLE',
  );
  expect(message).toBe('writes to public.orders wait while the FOREIGN KEY of every row is looked up');
});

test('IF NOT EXISTS that accepts an INVALID index is an error', () => {
  const found = only(
    findHazards(
      facts({
        statements: [
          statement(1, { tag: 'CREATE INDEX', locks: [['public.orders', 'SHARE UPDATE EXCLUSIVE', 1]] }),
        ],
        parsed: asking({ 1: { ...creatingIndex, concurrently: true, ifNotExists: true } }),
        schema: schema({
          leftovers: [{ kind: 'invalid index', object: 'public.orders_status_idx', preexisting: true }],
        }),
        catalogue: { relations: new Map([['public.orders', relation(MB, 1)]]) },
      }),
    ),
    'INDEX_LEFT_INVALID',
  );
  expect(found.severity).toBe('error');
  expect(found.advice).toContain('DROP INDEX CONCURRENTLY IF EXISTS public.orders_status_idx;');
});

test('a table that the command renames is known by both names', () => {
  const found = findHazards(
    facts({
      statements: [
        statement(1, {
          tag: 'ALTER TABLE',
          durationMs: 30_000,
          locks: [['public.purchases', 'ACCESS EXCLUSIVE', 30_000]],
        }),
      ],
      parsed: asking({ 1: { does: 'set not null', table: ORDERS, column: 'status' } }),
      schema: schema({
        changes: [
          { verb: 'alter', kind: 'column', object: 'public.orders.status', sql: '', dataLoss: false },
        ],
        renames: [{ kind: 'table', from: 'public.orders', to: 'public.purchases' }],
      }),
      catalogue: {
        relations: new Map([['public.purchases', relation(MB, 1)]]),
        renamed: new Map([['public.orders', 'public.purchases']]),
      },
      traffic: new Map([['public.orders', { readsPerSecond: 20, writesPerSecond: 0 }]]),
    }),
  );
  expect(found.map(({ code, severity, evidence }) => [code, severity, evidence])).toEqual([
    [
      'SET_NOT_NULL_SCANS_TABLE',
      'error',
      'ACCESS EXCLUSIVE on public.orders for 30.0 s (1 MB, about 600 statements would wait)',
    ],
    ['TABLE_RENAMED', 'error', 'public.purchases: 1 MB, 1 row, 20 reads and 0 writes per second'],
  ]);
});

test('one statement that would wait is in the singular', () => {
  const found = findHazards(
    facts({
      statements: [
        statement(1, {
          tag: 'ALTER TABLE',
          durationMs: 1_200,
          locks: [['public.orders', 'ACCESS EXCLUSIVE', 1_200]],
        }),
      ],
      parsed: asking({ 1: { does: 'set not null', table: ORDERS, column: 'status' } }),
      catalogue: { relations: new Map([['public.orders', relation(MB, 1)]]) },
      traffic: new Map([['public.orders', { readsPerSecond: 1, writesPerSecond: 0 }]]),
    }),
  );
  expect(found.map(({ evidence }) => evidence).join()).toContain('about 1 statement would wait');
});

test('a CHECK that existed before lets SET NOT NULL pass', () => {
  const codes = (validated: boolean) =>
    findHazards(
      facts({
        statements: [statement(1, { tag: 'ALTER TABLE', locks: [['public.orders', 'ACCESS EXCLUSIVE', 1]] })],
        parsed: asking({ 1: { does: 'set not null', table: ORDERS, column: 'status' } }),
        catalogue: {
          relations: new Map([['public.orders', relation(MB, 1)]]),
          checks: [{ relation: 'public.orders', constraint: 'c', validated, provesNotNull: ['status'] }],
        },
      }),
    ).map(({ code }) => code);
  expect(codes(true)).toEqual([]);
  expect(codes(false)).toEqual(['SET_NOT_NULL_SCANS_TABLE']);
});

describe('CREATE INDEX IF NOT EXISTS', () => {
  const codes = (locks: [string, LockMode, number][]) =>
    findHazards(
      facts({
        statements: [statement(1, { tag: 'CREATE INDEX', locks: [['public.orders', 'SHARE', 3], ...locks] })],
        parsed: asking({ 1: { ...creatingIndex, ifNotExists: true } }),
        catalogue: { relations: new Map([['public.orders', relation(GB, 1)]]) },
      }),
    ).map(({ code }) => code);

  test('CREATE INDEX IF NOT EXISTS is found if it builds an index, which it then locks', () => {
    expect(codes([['public.orders_status_idx', 'ACCESS EXCLUSIVE', 3]])).toEqual(['INDEX_NOT_CONCURRENT']);
  });

  test('CREATE INDEX IF NOT EXISTS is not found if the index exists', () => {
    expect(codes([])).toEqual([]);
  });
});

describe('a table that takes the name of one that was renamed', () => {
  const codes = (outcome: 'committed' | 'rolled back') =>
    findHazards(
      facts({
        statements: [
          statement(1, { tag: 'ALTER TABLE', locks: [['public.orders_old', 'ACCESS EXCLUSIVE', 3]] }),
          statement(2, {
            tag: 'CREATE TABLE',
            locks: [['public.orders', 'ACCESS EXCLUSIVE', 3]],
            ...(outcome === 'rolled back' ? { rolledBack: true } : {}),
          }),
          statement(3, { tag: 'CREATE INDEX', transaction: 3, locks: [['public.orders', 'SHARE', 3]] }),
        ],
        transactions: [
          { transaction: 2, session: 1, startedAt: '2026-03-14T02:11:09.500Z', endedAt: null, outcome },
        ],
        parsed: asking({
          2: { does: 'create table', table: ORDERS, ifNotExists: false, partitionOf: null },
          3: creatingIndex,
        }),
        catalogue: {
          relations: new Map([['public.orders_old', relation(GB, 1)]]),
          renamed: new Map([['public.orders', 'public.orders_old']]),
        },
      }),
    ).map(({ code }) => code);

  test('a new table with the name of a renamed one is no hazard', () => {
    expect(codes('committed')).not.toContain('INDEX_NOT_CONCURRENT');
  });

  test('a new table with the name of a renamed one is ignored if it was rolled back', () => {
    expect(codes('rolled back')).toContain('INDEX_NOT_CONCURRENT');
  });
});

describe('SET NOT NULL on a column that the command itself adds', () => {
  const codes = (added: Partial<ActionOf<'add column'>>) =>
    findHazards(
      facts({
        statements: [
          statement(1, { tag: 'ALTER TABLE', transaction: 1 }),
          statement(2, { tag: 'ALTER TABLE', transaction: 1 }),
        ],
        parsed: asking({
          1: { ...addingColumn, ...added },
          2: { does: 'set not null', table: ORDERS, column: 'number' },
        }),
        schema: schema({ changes: [change('create', 'column', 'public.orders.number')] }),
        catalogue: { relations: new Map([['public.orders', relation(GB, 2_000_000)]]) },
      }),
    ).map(({ code }) => code);

  test('SET NOT NULL on a column that the command added reads the rows', () => {
    expect(codes({})).toContain('SET_NOT_NULL_SCANS_TABLE');
  });

  test.each([
    ['NOT NULL', { notNull: true }],
    ['an identity', { identity: true }],
    ['serial', { type: 'bigserial' }],
  ])('SET NOT NULL reads nothing on a column that was added as %s', (_, added) => {
    expect(codes(added)).not.toContain('SET_NOT_NULL_SCANS_TABLE');
  });
});

describe('a new column with a rule behind the lock of another table', () => {
  const codes = (rule: Partial<ActionOf<'add constraint'>>, hasDefault = false) =>
    findHazards(
      facts({
        statements: [
          statement(1, {
            tag: 'ALTER TABLE',
            transaction: 1,
            locks: [['public.customers', 'ACCESS EXCLUSIVE', 8]],
          }),
          statement(2, {
            tag: 'ALTER TABLE',
            sql: 'ALTER TABLE orders ADD COLUMN number …',
            transaction: 1,
            locks: [['public.orders', 'ACCESS EXCLUSIVE', 4]],
          }),
        ],
        parsed: asking({
          2: [
            { ...addingColumn, hasDefault },
            { ...addingConstraint, columns: ['number'], ofNewColumn: true, ...rule },
          ],
        }),
        catalogue: {
          relations: new Map([
            ['public.customers', relation(GB, 1)],
            ['public.orders', relation(GB, 1)],
          ]),
        },
      }),
    ).map(({ code }) => code);

  test('a constraint on a new column is work if it reads the table', () => {
    for (const kind of ['unique', 'primary key', 'exclude', 'check'] as const)
      expect(codes({ kind }), kind).toContain('WORK_AFTER_STRONG_LOCK');
    expect(codes({ kind: 'foreign key' }, true)).toContain('WORK_AFTER_STRONG_LOCK');
  });

  test('a FOREIGN KEY on a new column is no work if its values are NULL', () => {
    expect(codes({ kind: 'foreign key' })).not.toContain('WORK_AFTER_STRONG_LOCK');
  });

  test.each([
    ['a transaction that stays open', true],
    ['the commit of a statement that is alone', false],
  ])('a lock that outlasts its statement is held for %s', (_, explicit) => {
    const rewrite = statement(0, {
      tag: 'VACUUM',
      sql: 'VACUUM FULL orders',
      durationMs: 500,
      explicit,
      locks: [['public.orders', 'ACCESS EXCLUSIVE', 900]],
    });
    const catalogue = { relations: new Map([['public.orders', relation(GB, 1)]]) };
    const found = findHazards(facts({ statements: [rewrite], catalogue }));
    expect(found.some(({ code }) => code === 'WORK_AFTER_STRONG_LOCK')).toBe(explicit);
  });
});

describe('CASCADE', () => {
  const found = (changes: SchemaChange[], goneWith: Record<string, string>, actions: Action[]) => {
    const { severity, evidence } = only(
      findHazards(
        facts({
          statements: actions.map((_, at) => statement(at + 1, { tag: 'DROP' })),
          parsed: asking(Object.fromEntries(actions.map((action, at) => [at + 1, action]))),
          schema: schema({ changes }),
          catalogue: {
            relations: new Map([['public.orders', relation(MB, 1)]]),
            dropped: new Map(
              changes.map(({ kind, object }) => [
                `${kind} ${object}`,
                { goneWith: goneWith[object] ?? null, keptAs: null },
              ]),
            ),
          },
        }),
      ),
      'CASCADE',
    );
    return [severity, evidence];
  };
  const droppingTable: Action = {
    does: 'drop',
    kind: 'table',
    objects: [ORDERS],
    concurrently: false,
    cascade: true,
  };
  const table = change('drop', 'table', 'public.orders');

  test('CASCADE is no hazard if only parts of the named object are dropped', () => {
    const parts = [
      change('drop', 'index', 'public.orders_status_idx'),
      change('drop', 'constraint', 'public.orders.orders_pkey'),
      change('drop', 'sequence', 'public.orders_id_seq'),
    ];
    const goneWith = Object.fromEntries(parts.map(({ object }) => [object, 'public.orders']));
    expect(() => found([table, ...parts], goneWith, [droppingTable])).toThrow();
  });

  test('CASCADE drops columns of the same table that are generated from the named one', () => {
    const columns = [
      change('drop', 'column', 'public.orders.net'),
      change('drop', 'column', 'public.orders.gross'),
    ];
    const dropping: Action = { does: 'drop column', table: ORDERS, column: 'net', cascade: true };
    expect(found(columns, {}, [dropping])).toEqual([
      'warning',
      'dropped or emptied by the whole command: column public.orders.gross',
    ]);
  });

  test('TRUNCATE … CASCADE deletes the rows of the other tables that it locks', () => {
    const { severity, evidence } = only(
      findHazards(
        facts({
          statements: [
            statement(1, {
              tag: 'TRUNCATE TABLE',
              locks: [
                ['public.orders', 'ACCESS EXCLUSIVE', 2],
                ['public.invoices', 'ACCESS EXCLUSIVE', 2],
              ],
            }),
          ],
          parsed: asking({ 1: { does: 'truncate', tables: [ORDERS], cascade: true } }),
          schema: schema({}),
          catalogue: {
            relations: new Map([
              ['public.orders', relation(MB, 1)],
              ['public.invoices', relation(MB, 1)],
            ]),
          },
        }),
      ),
      'CASCADE',
    );
    expect([severity, evidence]).toEqual([
      'warning',
      'dropped or emptied by the whole command: the rows of public.invoices',
    ]);
  });

  test('CASCADE does not count objects that another statement names', () => {
    const others = [
      change('drop', 'view', 'public.open_orders'),
      change('drop', 'function', 'public.total(integer, text)'),
    ];
    const dropping = (kind: string, name: string): Action => ({
      ...droppingTable,
      kind,
      objects: [{ schema: null, name }],
      cascade: false,
    });
    const named = [dropping('view', 'open_orders'), dropping('function', 'total'), droppingTable];
    expect(() => found([table, ...others], {}, named)).toThrow();
    expect(found([table, ...others], {}, [dropping('view', 'total'), droppingTable])[0]).toBe('warning');
  });
});

describe('a constraint that was dropped', () => {
  const messages = (fate: Partial<DroppedFacts>, order: readonly Action[], transactions: readonly number[]) =>
    findHazards(
      facts({
        statements: order.map((_, at) => statement(at + 1, { transaction: transactions[at] ?? 1 })),
        parsed: asking(Object.fromEntries(order.map((action, at) => [at + 1, action]))),
        schema: schema({ changes: [change('drop', 'constraint', 'public.orders.old')] }),
        catalogue: {
          relations: new Map([['public.orders', relation(MB, 1)]]),
          dropped: new Map([['constraint public.orders.old', { goneWith: null, keptAs: null, ...fate }]]),
        },
      }),
    )
      .filter(({ code }) => code === 'CONSTRAINT_DROPPED')
      .map(({ message }) => message);
  const dropping: Action = { does: 'drop constraint', table: ORDERS, constraint: 'old', cascade: false };
  const adding: Action = { ...addingConstraint, kind: 'check', constraint: 'new' };
  const equal = { keptAs: 'public.orders.new' };

  test('a dropped constraint is a hazard', () => {
    expect(messages({}, [dropping, adding], [1, 1])).toEqual(['drops the constraint public.orders.old']);
  });

  test('a constraint that is dropped with its column is no hazard', () => {
    expect(messages({ goneWith: 'public.orders.status' }, [dropping], [1])).toEqual([]);
  });

  test('a dropped constraint is no hazard if an equal one exists all the time', () => {
    expect(messages(equal, [dropping, adding], [1, 1])).toEqual([]);
    expect(messages(equal, [adding, dropping], [1, 2])).toEqual([]);
    expect(messages(equal, [dropping, { ...adding, constraint: null }], [1, 1])).toEqual([]);
    expect(messages(equal, [dropping], [1])).toEqual([]);
  });

  test('a dropped constraint names the equal one that a later transaction adds', () => {
    expect(messages(equal, [dropping, adding], [1, 2])).toEqual([
      'drops the constraint public.orders.old, and adds the equal public.orders.new only in a later transaction',
    ]);
  });
});

const addingColumn: ActionOf<'add column'> = {
  does: 'add column',
  table: ORDERS,
  column: 'number',
  type: 'int8',
  notNull: false,
  hasDefault: false,
  identity: false,
  stored: false,
};

const addingConstraint: ActionOf<'add constraint'> = {
  does: 'add constraint',
  table: ORDERS,
  kind: 'unique',
  constraint: null,
  columns: [],
  usingIndex: null,
  notValid: false,
  references: null,
  provesNotNull: [],
  ofNewColumn: false,
};

function change(verb: SchemaChange['verb'], kind: string, object: string): SchemaChange {
  return { verb, kind, object, sql: '', dataLoss: false };
}

const creatingIndex: ActionOf<'create index'> = {
  does: 'create index',
  table: ORDERS,
  index: 'orders_status_idx',
  method: 'btree',
  concurrently: false,
  unique: false,
  ifNotExists: false,
  only: false,
};

function only(hazards: Hazard[], code: string): Hazard {
  const [found, ...others] = hazards.filter((hazard) => hazard.code === code);
  if (!found || others.length > 0) throw new Error(`not one ${code}: ${JSON.stringify(hazards)}`);
  return found;
}
